"""The problems that conformance tests run over: each in JAX for one sample and in plain NumPy.

The NumPy side gives batch means of values, Jacobians and outer gradients with derivatives written
by hand, so that the twins share nothing with the library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mvrc

L1_WEIGHT = 0.02


@dataclasses.dataclass(frozen=True)
class Case:
    """A small composition with its NumPy side."""

    name: str
    problem: mvrc.Composition
    x0: np.ndarray
    values: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (x, indices) -> mean of g
    jacobian: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (x, indices) -> mean of g'
    outer_gradient: Callable[[np.ndarray, np.ndarray | None], np.ndarray]
    outer_value: Callable[[np.ndarray], float]
    step_size: float

    def objective(self, x: np.ndarray) -> float:
        everything = np.arange(self.problem.n)
        return self.outer_value(self.values(x, everything)) + L1_WEIGHT * np.abs(x).sum()

    def gradient(self, x: np.ndarray) -> np.ndarray:
        everything = np.arange(self.problem.n)
        outside = None if not self.problem.two_level else np.arange(self.problem.N)
        y = self.values(x, everything)
        return self.jacobian(x, everything).T @ self.outer_gradient(y, outside)


def soft(x: np.ndarray, step: float) -> np.ndarray:
    """prox of step·L1_WEIGHT·‖·‖₁."""
    return np.sign(x) * np.maximum(np.abs(x) - step * L1_WEIGHT, 0)


def _inner(x: Any, sample: Any) -> Any:
    """Nonconvex in x; p = 3."""
    h = sample["a"] @ x
    return jnp.stack([h, h**2, jnp.sin(h + sample["b"])])


def one_level(n: int = 40, d: int = 5, dtype: Any = np.float64, **more: Any) -> Case:
    """Σ¹ with p = 3: mean, second moment and a sine inside; a nonconvex f outside."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((n, d)) + 0.3, rng.standard_normal(n)

    def outer(y: Any) -> Any:
        return -y[0] + 0.3 * (y[1] - y[0] ** 2) + 0.5 * jnp.log1p(y[2] ** 2)

    def outer_value(y: np.ndarray) -> float:
        return float(-y[0] + 0.3 * (y[1] - y[0] ** 2) + 0.5 * np.log1p(y[2] ** 2))

    def outer_gradient(y: np.ndarray, _: Any) -> np.ndarray:
        return np.array([-1 - 0.6 * y[0], 0.3, y[2] / (1 + y[2] ** 2)])

    data = {"a": a.astype(dtype), "b": b.astype(dtype)}
    problem = mvrc.Composition(_inner, outer, data, regularizer=mvrc.L1(L1_WEIGHT), **more)
    x0 = (0.1 * rng.standard_normal(d)).astype(dtype)
    return Case(
        "one-level", problem, x0, *_numpy_inner(a, b), outer_gradient, outer_value, step_size=0.05
    )


def two_level(n: int = 40, N: int = 7, d: int = 5, dtype: Any = np.float64, **more: Any) -> Case:
    """Σ² with p = 3 and N nonconvex outer functions."""
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((n, d)) + 0.3, rng.standard_normal(n)
    w, c = rng.standard_normal((N, 3)), rng.standard_normal(N)

    def outer(y: Any, sample: Any) -> Any:
        u = sample["w"] @ y - sample["c"]
        return jnp.log(jnp.cosh(u)) + 0.1 * y[1]

    def outer_value(y: np.ndarray) -> float:
        return float(np.mean(np.log(np.cosh(w @ y - c)) + 0.1 * y[1]))

    def outer_gradient(y: np.ndarray, indices: np.ndarray | None) -> np.ndarray:
        assert indices is not None
        u = np.tanh(w[indices] @ y - c[indices])
        return u @ w[indices] / len(indices) + np.array([0, 0.1, 0])

    problem = mvrc.Composition(
        _inner,
        outer,
        {"a": a.astype(dtype), "b": b.astype(dtype)},
        {"w": w.astype(dtype), "c": c.astype(dtype)},
        mvrc.L1(L1_WEIGHT),
        **more,
    )
    x0 = (0.1 * rng.standard_normal(d)).astype(dtype)
    return Case(
        "two-level", problem, x0, *_numpy_inner(a, b), outer_gradient, outer_value, step_size=0.05
    )


def online(two: bool = False) -> mvrc.Composition:
    """E¹ or E²: the same functions on Gaussian streams."""

    def draw(key: Any, size: int) -> Any:
        k1, k2 = jax.random.split(key)
        return {"a": jax.random.normal(k1, (size, 5)) + 0.3, "b": jax.random.normal(k2, (size,))}

    def draw_outer(key: Any, size: int) -> Any:
        k1, k2 = jax.random.split(key)
        return {"w": jax.random.normal(k1, (size, 3)), "c": jax.random.normal(k2, (size,))}

    inner = mvrc.Stream(draw, evaluation_size=2000)
    if two:
        outside = mvrc.Stream(draw_outer, evaluation_size=2000)
        return mvrc.Composition(
            _inner, two_level().problem.outer, inner, outside, mvrc.L1(L1_WEIGHT)
        )
    return mvrc.Composition(_inner, one_level().problem.outer, inner, None, mvrc.L1(L1_WEIGHT))


def _numpy_inner(a: np.ndarray, b: np.ndarray) -> tuple[Any, Any]:
    def values(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        h = a[indices] @ x
        return np.array([h.mean(), (h**2).mean(), np.sin(h + b[indices]).mean()])

    def jacobian(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        rows = a[indices]
        h = rows @ x
        slopes = np.stack([np.ones_like(h), 2 * h, np.cos(h + b[indices])])
        return slopes @ rows / len(indices)

    return values, jacobian


# Shared by the tests of one process, so that equal programs are compiled once.
ONE = one_level()
TWO = two_level()
