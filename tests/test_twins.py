"""MVRC-1 and MVRC-2 against plain NumPy loops, step by step."""

from __future__ import annotations

import numpy as np
import pytest

import mvrc
from cases import ONE, TWO, one_level, resolve
from mvrc.engine.batches import drawn_steps
from mvrc.sampling import key_bits
from twins import mvrc_twin

CASES = {"one": ONE, "two": TWO}
PERIOD, EPOCHS = 5, 10  # 50 steps

# Both sides do the same sums in another order: 50 steps lose a few hundred units in the last place.
TOLERANCE = 1e-10


def schedule(name: str, eta: float):
    """The library's momentum, and α, β, λ as the paper writes them, with the restart in epochs."""
    decay = lambda t: 2 / (t + 1)  # noqa: E731
    constant = lambda t: eta  # noqa: E731
    return {
        "constant": (mvrc.Constant(0.8), lambda t: 0.8, constant, lambda t: 1.8 * eta, None),
        "diminishing": (
            mvrc.Diminishing(restart=False),
            decay,
            constant,
            lambda t: (t + 3) / (t + 1) * eta,
            None,
        ),
        "theory": (
            mvrc.Diminishing(restart=False, preset="theory"),
            decay,
            constant,
            lambda t: (1 + decay(t + 1)) * eta,
            None,
        ),
        "restart": (
            mvrc.Diminishing(restart=True),
            decay,
            constant,
            lambda t: (t + 3) / (t + 1) * eta,
            1,
        ),
        "restart every 2": (
            mvrc.Diminishing(restart="last", restart_every=2),
            decay,
            constant,
            lambda t: (t + 3) / (t + 1) * eta,
            2,
        ),
        "free": (
            mvrc.Momentum(alpha=lambda t: 1 / (t + 1), beta=0.9, lam=lambda t: 1 + 1 / (t + 2)),
            lambda t: 1 / (t + 1),
            lambda t: 0.9 * eta,
            lambda t: (1 + 1 / (t + 2)) * eta,
            None,
        ),
    }[name]


def path(case, method, epochs=EPOCHS, **options):
    """x after every epoch."""
    points = []
    options["callback"] = lambda info: points.append(info.x)
    mvrc.minimize(case.problem, case.x0, method, epochs=epochs, **options)
    return np.array(points)


NAMES = ["constant", "diminishing", "theory", "restart", "restart every 2", "free"]


@pytest.mark.parametrize("level", ["one", "two"])
@pytest.mark.parametrize("epsilon", [None, 0.05])
@pytest.mark.parametrize("name", NAMES)
def test_full_batch_agrees_with_twin(level, epsilon, name):
    if level == "one" and epsilon is not None:
        pytest.skip("MVRC-1 has no normalised step")
    case = CASES[level]
    momentum, alpha, beta, lam, every = schedule(name, case.step_size)
    outside = {"outer_batch_size": case.problem.N} if level == "two" else {}
    method = mvrc.MVRC(
        case.step_size, momentum, case.problem.n, period=PERIOD, epsilon=epsilon, **outside
    )
    restart = None if every is None else every * PERIOD
    twin = mvrc_twin(
        case, period=PERIOD, steps=PERIOD * EPOCHS, alpha=alpha, beta=beta, lam=lam,
        epsilon=epsilon, restart_every=restart,
    )  # fmt: skip
    expected = np.array(list(twin))[PERIOD - 1 :: PERIOD]
    np.testing.assert_allclose(path(case, method), expected, rtol=0, atol=TOLERANCE)


def recorded_draws(case, method, seed, epochs):
    """The indices that the engine draws, by its own rule."""
    resolved = resolve(case, method)
    drawn = {}
    for epoch in range(epochs):
        bits, steps = key_bits(seed), resolved.steps - 1
        for role, tickets in drawn_steps(case.problem, resolved, bits, epoch + 1, steps).items():
            for step, ticket in enumerate(tickets):
                drawn[epoch * resolved.steps + step + 1, role] = ticket

    def at(step):
        values = drawn[step, "values"]
        jacobians = drawn.get((step, "jacobians"), values)  # A' = A where none is drawn
        return {"values": values, "jacobians": jacobians, "outer": drawn.get((step, "outer"))}

    return at


@pytest.mark.parametrize("jacobian", ["matrix", "free"])
@pytest.mark.parametrize("level", ["one", "two"])
def test_small_batches_agree_with_twin(level, jacobian):
    """The stochastic path itself: the twin is fed the very indices that the engine draws."""
    case = CASES[level]
    momentum, alpha, beta, lam, _ = schedule("constant", case.step_size)
    outside = {"outer_batch_size": 3, "jacobian_batch_size": 6} if level == "two" else {}
    method = mvrc.MVRC(
        case.step_size, momentum, 4, period=PERIOD, jacobian=jacobian, epsilon=None, **outside
    )
    twin = mvrc_twin(
        case, period=PERIOD, steps=PERIOD * EPOCHS, alpha=alpha, beta=beta, lam=lam,
        draws=recorded_draws(case, method, 3, EPOCHS), free=jacobian == "free",
    )  # fmt: skip
    expected = np.array(list(twin))[PERIOD - 1 :: PERIOD]
    np.testing.assert_allclose(path(case, method, seed=3), expected, rtol=0, atol=TOLERANCE)


def test_normalised_step_at_a_stationary_point():
    """x̃ = x: θ is ½ and nothing is divided by zero."""
    case = one_level()
    problem = mvrc.Composition(case.problem.inner, lambda y: 0 * y[0], case.problem.inner_data)
    result = mvrc.minimize(problem, case.x0, mvrc.MVRC(0.1, epsilon=0.1, batch_size=4), epochs=2)
    np.testing.assert_array_equal(result.x, case.x0)
