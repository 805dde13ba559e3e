"""Every method at full batch against a NumPy loop; the reductions to plain stochastic methods."""

from __future__ import annotations

import numpy as np
import pytest

import mvrc
from cases import L1_WEIGHT, METHOD_CASES, ONE, TWO, soft
from mvrc.engine.batches import words_of
from mvrc.sampling import key_bits

PERIOD, EPOCHS, ETA = 5, 4, 0.05
EVERY = np.arange(40)


def exact(case, x):
    return case.gradient(x)


def outer(case, y):
    return case.outer_gradient(y, np.arange(case.problem.N) if case.problem.two_level else None)


def proximal(case, prox):
    x = case.x0
    while True:
        x = prox(x - ETA * exact(case, x), ETA)
        yield x


def falling(case, prox, power):
    x, k = case.x0, 0
    while True:
        k += 1
        x = prox(x - ETA * k**-power * exact(case, x), ETA * k**-power)
        yield x


def katyusha(case, prox):
    snapshot = y = z = case.x0
    theta = 1 / (12 * PERIOD)
    while True:
        total, weight = 0 * y, 0.0
        for j in range(PERIOD):
            x = 0.4 * z + 0.4 * snapshot + 0.2 * y
            v = exact(case, x)
            z, y = prox(z - ETA * v, ETA), prox(x - ETA * v, ETA)
            total, weight = total + (1 + theta) ** j * y, weight + (1 + theta) ** j
            yield total / weight
        snapshot = total / weight


def admm(case, prox):
    x = case.x0
    y, u, rho = x, 0 * x, 1 / ETA
    gamma = 1 + ETA * rho
    while True:
        y = prox(x - u / rho, 1 / rho)
        x = x - ETA / gamma * (exact(case, x) - u + rho * (x - y))
        u = u - rho * (x - y)
        yield y


def scgd(case, prox):
    x, y, k = case.x0, case.values(case.x0, EVERY), 0
    while True:
        k += 1
        beta = k**-0.5
        y = (1 - beta) * y + beta * case.values(x, EVERY)
        step = ETA * k**-0.75
        x = prox(x - step * case.jacobian(x, EVERY).T @ outer(case, y), step)
        yield x


def extrapolated(case, prox, step_power, weight_power):
    x = old = case.x0
    y, k = case.values(x, EVERY), 0
    while True:
        beta = 1.0 if k < 1 else min(1.0, k**-weight_power)
        ahead = (1 - 1 / beta) * old + x / beta
        y = (1 - beta) * y + beta * case.values(ahead, EVERY)
        k += 1
        step, old = ETA * k**-step_power, x
        x = prox(x - step * case.jacobian(x, EVERY).T @ outer(case, y), step)
        yield x


def normalised(case, prox):
    """x⁺ = x + θ(x̃ − x), θ = min{εη/‖x̃ − x‖, ½}, ε a tenth of the first gradient mapping."""
    x = case.x0
    epsilon = 0.1 * np.linalg.norm(prox(x - ETA * exact(case, x), ETA) - x) / ETA
    while True:
        moved = prox(x - ETA * exact(case, x), ETA)
        x = x + min(epsilon * ETA / np.linalg.norm(moved - x), 0.5) * (moved - x)
        yield x


def nasa(case, prox):
    x, u, z, k = case.x0, case.values(case.x0, EVERY), exact(case, case.x0), 0
    while True:
        k += 1
        tau = k**-0.5
        x = x + tau * (prox(x - ETA * z, ETA) - x)
        yield x
        sample = case.jacobian(x, EVERY).T @ outer(case, u)
        z, u = (1 - tau) * z + tau * sample, (1 - tau) * u + tau * case.values(x, EVERY)


def fista(case, prox):
    x = y = case.x0
    t = 1.0
    while True:
        new = prox(y - ETA * exact(case, y), ETA)
        if (y - new) @ (new - x) > 0:
            t_new, weight = 1.0, 0.0
        else:
            t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
            weight = (t - 1) / t_new
        x, y, t = new, new + weight * (new - x), t_new
        yield x


TWINS = {
    "civr": proximal,
    "vrsc-pg": proximal,
    "c-saga": proximal,
    "sarah-c": proximal,
    "nested-spider": normalised,
    "proximal-gradient": proximal,
    "scsc": lambda case, prox: falling(case, prox, 0.5),
    "katyusha": katyusha,
    "spider-admm": admm,
    "scgd": scgd,
    "ascgd": lambda case, prox: extrapolated(case, lambda x, s: x, 5 / 7, 4 / 7),
    "asc-pg": lambda case, prox: extrapolated(case, prox, 5 / 9, 4 / 9),
    "storm": lambda case, prox: falling(case, prox, 1 / 3),
    "smvr": lambda case, prox: falling(case, prox, 1 / 3),
    "nasa": nasa,
    "fista": fista,
}


@pytest.mark.parametrize("two", [False, True], ids=["one", "two"])
@pytest.mark.parametrize("name", TWINS)
def test_full_batch_agrees_with_twin(name, two):
    if two and METHOD_CASES[name].one_level_only:
        pytest.skip("one outer function only")
    case = TWO if two else ONE
    problem = case.problem
    if name == "ascgd":
        problem = mvrc.Composition(
            problem.inner, problem.outer, problem.inner_data, problem.outer_data
        )
    sizes = {}
    if METHOD_CASES[name].draws:
        sizes = {"batch_size": 40, **({"outer_batch_size": 7} if two else {})}
    method = mvrc.METHODS[name](step_size=ETA, period=PERIOD, **sizes)
    points = []
    mvrc.minimize(problem, case.x0, method, epochs=EPOCHS, callback=lambda i: points.append(i.x))
    twin = TWINS[name](case, soft)
    expected = np.array([next(twin) for _ in range(PERIOD * EPOCHS)])[PERIOD - 1 :: PERIOD]
    np.testing.assert_allclose(points, expected, rtol=0, atol=1e-10)


WEIGHTS = np.array([0.5, 0.3, -0.4])
LINEAR = mvrc.Composition(
    ONE.problem.inner, lambda y: y @ WEIGHTS, ONE.problem.inner_data, None, mvrc.L1(L1_WEIGHT)
)


def drawn(problem, seed, epoch, steps, size, role="values"):
    """The indices of an epoch (1, 2, …), by the engine's rule."""
    source = problem.outer_source if role == "outer" else problem.inner_source
    return source.tickets(words_of(key_bits(seed), epoch, role), steps, size)


def test_linear_outer_makes_vrsc_pg_prox_svrg():
    result = mvrc.minimize(LINEAR, ONE.x0, mvrc.VRSCPG(ETA, batch_size=6, period=6), epochs=2)
    x = ONE.x0
    for epoch in (1, 2):
        snapshot, full = x, ONE.jacobian(x, EVERY).T @ WEIGHTS
        batches = drawn(LINEAR, 0, epoch, 5, 6)
        for step in range(6):
            v = full
            if step:
                batch = batches[step - 1]
                change = ONE.jacobian(x, batch) - ONE.jacobian(snapshot, batch)
                v = full + change.T @ WEIGHTS
            x = soft(x - ETA * v, ETA)
    np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [6, 30])
def test_linear_outer_makes_c_saga_prox_saga(size):
    """Also with many duplicates in a batch: 30 draws of 40 rows."""
    method = mvrc.CSAGA(ETA, batch_size=size, period=6)
    result = mvrc.minimize(LINEAR, ONE.x0, method, epochs=2)
    x = ONE.x0
    table = np.array([ONE.jacobian(x, np.array([j])).T @ WEIGHTS for j in range(40)])
    for epoch in (1, 2):
        for batch in drawn(LINEAR, 0, epoch, 6, size):
            new = np.array([ONE.jacobian(x, np.array([j])).T @ WEIGHTS for j in batch])
            v = table.mean(0) + (new - table[batch]).mean(0)
            table[batch] = new
            x = soft(x - ETA * v, ETA)
    np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-12)


PLAIN = {
    "scgd": mvrc.SCGD(ETA, 0.0, mvrc.Power(1.0), batch_size=6, period=6),
    "scsc": mvrc.SCSC(ETA, 1.0, 0.0, batch_size=6, period=6),
    "scsc independent": mvrc.SCSC(ETA, 1.0, 0.0, batch_size=6, period=6, independent=True),
    "storm": mvrc.STORM(ETA, 0.0, mvrc.Power(1.0), batch_size=6, period=6),
    "storm matrix-free": mvrc.STORM(
        ETA, 0.0, mvrc.Power(1.0), batch_size=6, period=6, jacobian="free"
    ),
    "smvr": mvrc.SMVR(ETA, 0.0, mvrc.Power(1.0), batch_size=6, period=6),
}
APART = ("scsc independent", "storm matrix-free")  # A' drawn apart from A


@pytest.mark.parametrize("name", PLAIN)
def test_full_forgetting_is_plain_minibatch(name):
    """β = 1 or a = 1: x⁺ = prox(x − η g'_A(x)ᵀ∇f(g_A(x))), the biased minibatch step."""
    result = mvrc.minimize(ONE.problem, ONE.x0, PLAIN[name], epochs=2)
    x = ONE.x0
    for epoch in (1, 2):
        values = drawn(ONE.problem, 0, epoch, 6, 6)
        apart = drawn(ONE.problem, 0, epoch, 6, 6, "jacobians")
        for batch, other in zip(values, apart if name in APART else values, strict=True):
            y = ONE.values(x, batch)
            x = soft(x - ETA * ONE.jacobian(x, other).T @ ONE.outer_gradient(y, None), ETA)
    np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-12)


def storm_twin(case, rule, forget, draws, steps, bound=None):
    """STORM on two levels as a loop: `rule` is that of the gradient, `forget` three numbers a."""
    a_g, a_J, a_F = forget
    x = old = case.x0
    first = draws(0)
    inside = lambda u: u * min(1, bound / np.linalg.norm(u)) if bound else u  # noqa: E731
    g, J = case.values(x, first["values"]), inside(case.jacobian(x, first["jacobians"]))
    df = inside(case.outer_gradient(g, first["outer"]))
    F = J.T @ df
    for k in range(1, steps + 1):
        batch = draws(k)
        A, A_prime, B = batch["values"], batch["jacobians"], batch["outer"]
        g_old, J_old = g, J
        g = case.values(x, A) + (1 - a_g) * (g - case.values(old, A))
        J = inside(case.jacobian(x, A_prime) + (1 - a_J) * (J - case.jacobian(old, A_prime)))
        new, before = case.outer_gradient(g, B), case.outer_gradient(g_old, B)
        if rule == "composed":
            F = J.T @ new + (1 - a_F) * (F - J_old.T @ before)
        else:
            df = inside(new + (1 - a_F) * (df - before))
            F = J.T @ df
        step = ETA * k ** (-1 / 3)
        old, x = x, soft(x - step * F, step)
    return x


def two_level_draws(case, method, epochs):
    """The indices of all steps: step 0 is the first batch of epoch 0, which are drawn apart."""
    roles = ("values", "jacobians", "outer")
    source, first = case.problem, {}
    for role in roles:
        inside = source.outer_source if role == "outer" else source.inner_source
        words = words_of(key_bits(0), 0, f"refresh {role}")
        first[role] = inside.refresh_ticket(words, 2 if role == "outer" else 4)
    drawn_of = {
        role: [
            row
            for epoch in range(1, epochs + 1)
            for row in drawn(source, 0, epoch, 6, 2 if role == "outer" else 4, role)
        ]
        for role in roles
    }
    return lambda k: first if k == 0 else {role: drawn_of[role][k - 1] for role in roles}


@pytest.mark.parametrize("rule", ["composed", "levels", "projected"])
def test_storm_on_two_levels_is_its_authors_recursion(rule):
    """Three numbers a on the very indices that the engine draws; SMVR is the other rule."""
    forget = (0.3, 0.5, 0.7) if rule == "composed" else (0.4, 0.4, 0.4)
    sizes = {"batch_size": 4, "outer_batch_size": 2, "period": 6}
    bound = 1.5 if rule == "projected" else None
    if rule == "composed":
        method = mvrc.STORM(
            ETA, forget=0.3, forget_jacobian=0.5, forget_gradient=0.7, **sizes
        )  # fmt: skip
    else:
        method = mvrc.SMVR(ETA, forget=0.4, bound=bound, **sizes)
    result = mvrc.minimize(TWO.problem, TWO.x0, method, epochs=3)
    kind = "composed" if rule == "composed" else "levels"
    expected = storm_twin(TWO, kind, forget, two_level_draws(TWO, method, 3), 18, bound)
    np.testing.assert_allclose(result.x, expected, rtol=0, atol=1e-12)
    other = storm_twin(TWO, {"composed": "levels", "levels": "composed"}[kind], forget,
                       two_level_draws(TWO, method, 3), 18, bound)  # fmt: skip
    assert np.linalg.norm(other - expected) > 1e-6  # the two rules differ


@pytest.mark.parametrize("two", [False, True], ids=["one", "two"])
@pytest.mark.parametrize("number", [1, 2])
def test_compositional_svrg(number, two):
    """Lian, Wang & Liu's two estimators on the very indices that the engine draws, one epoch."""
    case = TWO if two else ONE
    outside = {"outer_batch_size": 2} if two else {}
    jacobians = {"jacobian_batch_size": 3} if two or number == 1 else {}
    recipe = mvrc.METHODS[f"c-svrg-{number}"](ETA, batch_size=5, period=6, **jacobians, **outside)
    result = mvrc.minimize(case.problem, case.x0, recipe, epochs=1)
    A = drawn(case.problem, 0, 1, 5, 5)
    A_prime = drawn(case.problem, 0, 1, 5, 3, "jacobians") if jacobians else A
    B = drawn(case.problem, 0, 1, 5, 2, "outer") if two else [None] * 5
    snapshot = x = case.x0
    everything = np.arange(case.problem.N) if two else None
    g, J = case.values(snapshot, EVERY), case.jacobian(snapshot, EVERY)
    full = J.T @ case.outer_gradient(g, everything)
    v = full
    for step in range(6):
        if step:
            a, b, k = A[step - 1], A_prime[step - 1], B[step - 1]
            new = case.outer_gradient(g + case.values(x, a) - case.values(snapshot, a), k)
            old = case.outer_gradient(g, k)
            if number == 1:
                v = case.jacobian(x, b).T @ new - case.jacobian(snapshot, b).T @ old + full
            else:
                estimate = J + case.jacobian(x, b) - case.jacobian(snapshot, b)
                v = estimate.T @ new - J.T @ old + full
        x = soft(x - ETA * v, ETA)
    np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-12)


def test_the_next_snapshot_is_drawn_from_the_epoch():
    """Over seeds the second epoch starts at each point of the first about equally often."""
    recipe = mvrc.CSVRG1(ETA, batch_size=40, jacobian_batch_size=40, period=4)
    points, x = [], ONE.x0  # with all samples the path is that of proximal gradient
    for _ in range(4):
        points.append(x)
        x = soft(x - ETA * exact(ONE, x), ETA)
    seeds = 400
    results = mvrc.minimize_many(ONE.problem, ONE.x0, recipe, seeds=seeds, epochs=2)
    counts = np.zeros(4)
    for result in results:
        ends = []
        for start in points:
            end = start
            for _ in range(4):
                end = soft(end - ETA * exact(ONE, end), ETA)
            ends.append(np.linalg.norm(end - result.x))
        assert min(ends) < 1e-12
        counts[int(np.argmin(ends))] += 1
    assert np.all(np.abs(counts - seeds / 4) < 5 * np.sqrt(seeds * 3 / 16))
