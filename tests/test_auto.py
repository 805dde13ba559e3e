"""Auto: chosen without tuning, safe on random and badly scaled problems, honest about its end."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc.applications import (
    bellman,
    mean_semideviation,
    mean_variance,
    sparse_additive,
    sparse_additive_convex,
)
from mvrc.datasets import random_mdp

N, D = 300, 6
ENDS = (mvrc.Status.CONVERGED, mvrc.Status.PRECISION)


def returns(rng: np.random.Generator, n: int = N, d: int = D) -> np.ndarray:
    """Correlated returns of a random scale and conditioning, sometimes with equal columns."""
    spread = np.logspace(0, -rng.uniform(0, 3), d)
    mix = np.linalg.qr(rng.standard_normal((d, d)))[0]
    rows = 0.05 + (rng.standard_normal((n, d)) * spread) @ mix.T
    if rng.random() < 0.2:
        rows[:, 1] = rows[:, 0]
    return rows * 10 ** rng.uniform(-3, 3)


def far(rng: np.random.Generator, d: int = D) -> np.ndarray:
    """A start that is near or up to 10³ away."""
    return rng.standard_normal(d) * 10 ** rng.uniform(-3, 3)


def margins(x, sample):
    return jnp.stack([jnp.tanh(sample["a"] @ x + sample["b"]), (sample["a"] @ x) ** 2])


def robust(y, sample):
    error = (sample["c"] @ y - sample["t"]) ** 2
    return error / (1 + error)


def residual(x, sample):
    error = (sample["a"] @ x - sample["b"]) ** 2
    return jnp.stack([error / (1 + error), error])


def exponential(x, sample):
    return jnp.exp(sample["a"] @ x + sample["b"])[None]


def quartic(x, sample):
    return jnp.stack([x[1] - sample["a"][0] * x[0] ** 2, x[0] - sample["b"], jnp.sum(x[2:] ** 2)])


def squares(y):
    return 10 * y[0] ** 2 + y[1] ** 2 + y[2] ** 2 / (1 + y[2])


def sum_of(y):
    return y[0] + 0.01 * y[1]


def log_of(y):
    return jnp.log(y[0])


def _linear(rng: np.random.Generator) -> dict[str, np.ndarray]:
    a = returns(rng) / 10 ** rng.uniform(-2, 2)
    return {"a": a, "b": rng.standard_normal(N)}


def _bounded(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Exponents up to 100 in the ball of radius 5; far from it they overflow."""
    data = _linear(rng)
    return data | {"a": data["a"] / np.abs(data["a"]).max() * 10 ** rng.uniform(-1, 1.3)}


def _two_level(rng: np.random.Generator) -> mvrc.Composition:
    outer = {"c": rng.standard_normal((40, 2)), "t": rng.standard_normal(40)}
    return mvrc.Composition(margins, robust, _linear(rng), outer, mvrc.L2(0.01))


def _chain(rng: np.random.Generator) -> mvrc.Composition:
    chain = random_mdp(40, D, gamma=rng.uniform(0.1, 0.99), seed=int(rng.integers(1000)))
    features = chain.features * 10 ** rng.uniform(-3, 3)
    return bellman(chain.transition, chain.rewards, features, chain.gamma)


def _groups(rng: np.random.Generator) -> mvrc.Composition:
    rows = returns(rng)
    y = rows @ rng.standard_normal(D) + rng.standard_normal(N)
    return sparse_additive_convex(rows, y, np.repeat([0, 1], 3), 10 ** rng.uniform(-4, 0))


FAMILIES: dict[str, Any] = {
    "variance": lambda rng: mean_variance(returns(rng), rng.uniform(0, 2), rng.uniform(0.001, 0.1)),
    "variance on a simplex": lambda rng: mean_variance(returns(rng), 1, constraint=mvrc.Simplex()),
    "semideviation": lambda rng: mean_semideviation(returns(rng), rng.uniform(0, 3)),
    "bellman": _chain,
    "groups": _groups,
    "additive": lambda rng: sparse_additive(returns(rng), np.abs(rng.standard_normal(N))),
    "two levels": _two_level,
    "robust, box": lambda rng: mvrc.Composition(
        residual, sum_of, _linear(rng), regularizer=mvrc.Box(-2, 3)
    ),
    "robust, no penalty": lambda rng: mvrc.Composition(residual, sum_of, _linear(rng)),
    "log of exponentials": lambda rng: mvrc.Composition(
        exponential, log_of, _bounded(rng), regularizer=mvrc.L1Ball(5.0)
    ),
    "quartic": lambda rng: mvrc.Composition(quartic, squares, _linear(rng)),
}
STEPS = ("auto", "secant", "momentum")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("steps", STEPS)
def test_random_problems_end_with_a_finite_answer_below_the_start(family: str, steps: str) -> None:
    """More than 200 of them: no divergence, no endless run, never above the start."""
    for seed in range(10 if steps == "auto" else 6):
        rng = np.random.default_rng(seed)
        problem = FAMILIES[family](rng)
        x0 = far(rng)
        result = mvrc.minimize(problem, x0, mvrc.Auto(steps), seed=seed, epochs=300)
        history = result.history["objective"]
        assert np.all(np.isfinite(result.x)), (seed, result.message)
        assert np.isfinite(result.objective), (seed, result.message)
        assert result.objective <= history[0], (seed, result.message)
        assert result.status is not mvrc.Status.DIVERGED
        if steps == "auto":
            assert result.status in ENDS, (seed, result.message)
