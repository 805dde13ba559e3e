"""Every method at full batch against a NumPy loop; the reductions to plain stochastic methods."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import mvrc
from cases import L1_WEIGHT, METHOD_CASES, ONE, TWO, soft

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


def storm(case, prox):
    x, k = case.x0, 0
    while True:
        k += 1
        step = ETA * k ** (-1 / 3)
        moved = prox(x - step * exact(case, x), step)
        x = x + min(step / np.linalg.norm(moved - x), 0.5) * (moved - x)
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
    "nested-spider": proximal,
    "proximal-gradient": proximal,
    "scsc": lambda case, prox: falling(case, prox, 0.5),
    "katyusha": katyusha,
    "spider-admm": admm,
    "scgd": scgd,
    "ascgd": lambda case, prox: extrapolated(case, lambda x, s: x, 5 / 7, 4 / 7),
    "asc-pg": lambda case, prox: extrapolated(case, prox, 5 / 9, 4 / 9),
    "storm": storm,
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


def drawn(problem, seed, epoch, steps, size):
    """The inner indices of an epoch (1, 2, …), by the engine's rule for keys."""
    key = jax.random.split(jax.random.fold_in(jax.random.key(seed), epoch), 7)[0]
    return np.asarray(problem.inner_source.plan(key, steps, size)[0])


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
    "storm": mvrc.STORM(ETA, 0.0, mvrc.Power(1.0), epsilon=None, batch_size=6, period=6),
    "storm matrix-free": mvrc.STORM(
        ETA, 0.0, mvrc.Power(1.0), epsilon=None, batch_size=6, period=6, jacobian="free"
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_full_forgetting_is_plain_minibatch(name):
    """β = 1 or a = 1: x⁺ = prox(x − η g'_A(x)ᵀ∇f(g_A(x))), the biased minibatch step."""
    result = mvrc.minimize(ONE.problem, ONE.x0, PLAIN[name], epochs=2)
    x = ONE.x0
    for epoch in (1, 2):
        for batch in drawn(ONE.problem, 0, epoch, 6, 6):
            y = ONE.values(x, batch)
            x = soft(x - ETA * ONE.jacobian(x, batch).T @ ONE.outer_gradient(y, None), ETA)
    np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-12)
