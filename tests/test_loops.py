"""One problem in every kind of loop, at the size of the README's example: each comes to the
minimum with small batches, and goes on from its saved state bit for bit."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mvrc
from mvrc.estimators import Ema

RNG = np.random.default_rng(4)
ROWS = RNG.standard_normal((1000, 5)) @ np.diag([1.0, 0.7, 1.3, 1.0, 0.4])
ROWS[:, 4] += ROWS[:, :4] @ [0.5, -1.0, 0.25, 0.0]
ROWS = ROWS.astype("f")
BATCH, STEPS, HALF, RATE = 32, 1200, 600, 3e-3
X0 = np.zeros(4, "f")


def inner(x, row):
    """p = 2: the square of a residual, and its exponential."""
    square = (row[:4] @ x - row[4]) ** 2
    return jnp.stack([square, jnp.exp(square / 8)])


def outer(y):
    """Curved in both: a tilted loss and the root of the mean square."""
    return jnp.sqrt(1e-3 + y[0]) + 4 * jnp.log(y[1])


PROBLEM = mvrc.Composition(inner, outer, ROWS)


def batch(step: int) -> np.ndarray:
    return ROWS[np.random.default_rng([7, step]).integers(0, len(ROWS), BATCH)]


def own_loop(folder: Any) -> tuple[Any, Any]:
    """Optax with a tracker; the state is whatever pytree the user keeps."""
    tracker, optimizer = mvrc.tracker(inner, outer, "storm"), optax.adam(RATE)

    @jax.jit
    def step(x, kept, state, rows):
        gradient, kept = tracker.update(kept, x, rows)
        updates, state = optimizer.update(gradient, state, x)
        return optax.apply_updates(x, updates), kept, state

    def run(state, steps):
        for t in steps:
            state = step(*state, batch(t))
        return state

    x = jnp.asarray(X0)
    first = x, tracker.init(x, batch(0)), optimizer.init(x)
    whole = run(first, range(STEPS))
    saved = pickle.dumps(jax.device_get(run(first, range(HALF))))
    return whole[0], run(pickle.loads(saved), range(HALF, STEPS))[0]


def scheme(folder: Any) -> tuple[Any, Any]:
    """OptaxScheme in `minimize`."""
    sizes = mvrc.Sizes(BATCH)
    method = mvrc.Method(
        Ema(mvrc.Power(0.1)), mvrc.OptaxScheme(optax.adam(RATE)), sizes, sizes, 100
    )
    whole = mvrc.minimize(PROBLEM, X0, method, epochs=STEPS // 100)
    mvrc.minimize(PROBLEM, X0, method, epochs=HALF // 100).save(folder / "half")
    half = mvrc.Result.load(folder / "half")
    return whole.x, mvrc.minimize(PROBLEM, X0, method, epochs=STEPS // 100, resume=half).x


def solver(folder: Any) -> tuple[Any, Any]:
    """`Solver`, step by step."""
    own = mvrc.Solver(PROBLEM, mvrc.MVRC(), seed=0)
    first, epochs = own.init(X0), 20

    def run(state, epochs):
        for _ in range(epochs):
            state, info = own.step(state)
            assert info.finite
        return state

    whole = run(first, epochs)
    saved = pickle.dumps(jax.device_get(run(first, epochs // 2)))
    return own.result(whole).x, own.result(run(pickle.loads(saved), epochs // 2)).x


def pytorch(folder: Any) -> tuple[Any, Any]:
    """A model of PyTorch."""
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    from mvrc.torch import Tracker

    def torch_inner(call, rows):
        square = (call(rows[:, :4])[:, 0] - rows[:, 4]) ** 2
        return torch.stack([square, torch.exp(square / 8)], 1)

    def torch_outer(y):
        return torch.sqrt(1e-3 + y[0]) + 4 * torch.log(y[1])

    def new():
        model = torch.nn.Linear(4, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        tracker = Tracker(model, torch_inner, torch_outer, "storm")
        return model, tracker, torch.optim.Adam(model.parameters(), RATE)

    def run(parts, steps):
        for t in steps:
            parts[1].backward(torch.from_numpy(batch(t)))
            parts[2].step()
        return parts[0].weight.detach().numpy()[0].copy()

    whole = run(new(), range(STEPS))
    half = new()
    run(half, range(HALF))
    torch.save([part.state_dict() for part in half], folder / "half")
    again = new()
    for part, kept in zip(again, torch.load(folder / "half"), strict=True):
        part.load_state_dict(kept)
    return whole, run(again, range(HALF, STEPS))


@pytest.fixture(scope="module")
def least():
    result = mvrc.minimize(PROBLEM, X0.astype(float))
    assert result.status is mvrc.Status.CONVERGED
    return result.objective


@pytest.mark.parametrize("kind", [own_loop, scheme, solver, pytorch], ids=lambda f: f.__name__)
def test_every_kind_of_loop_comes_to_the_minimum_and_goes_on(kind, least, tmp_path):
    whole, resumed = kind(tmp_path)
    np.testing.assert_array_equal(whole, resumed)
    gap = PROBLEM.objective(np.asarray(whole)) - least
    assert gap < 2e-3 * (PROBLEM.objective(X0) - least)
