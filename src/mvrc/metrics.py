"""What is measured, off the count: objective, gradient and gradient mapping, exact or on a part."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.oracle import Geometry, Oracle, Vector
from mvrc.problem import Composition
from mvrc.split import Signature, Static, join, signature, split

# The samples are read once for all points: sixteen took four times as long as one.
BLOCK = 16
ROOM = 2**25  # numbers that a block may hold at most, 256 MiB in float64


class Measurement(NamedTuple):
    """At one point x; the gradient in the structure of x."""

    objective: float  # Φ(x)
    gradient_mapping: float  # ‖𝒢_λ(x)‖
    gradient: Any  # ∇F(x)


def measure(problem: Composition, x: Any, step: float = 1.0) -> Measurement:
    """Φ(x), ∇F(x) and the norm of 𝒢_λ(x) = (x − prox_{λr}(x − λ∇F(x)))/λ for λ = step."""
    problem, x, _ = problem.in_numbers(x, "x")
    x = problem.start(x, "x")
    with problem.precision(x):
        geometry = problem.geometry(x)
        flat = geometry.x.flatten(x)
        objective, mapping, gradient = Measuring(problem, geometry, step)(flat)
        gradient = jax.tree_util.tree_map(np.asarray, geometry.x.unflatten(gradient))
    return Measurement(float(objective), float(mapping), gradient)


class Measuring:
    """The same as a function of a flat x alone: what does not depend on x is prepared once.

    Args:
        problem, geometry: of the points.
        step: λ.
        points: "one", or along a leading axis "each" by itself or all "together": in one pass over
            the samples, with the memory of as many.
        most: inner and outer samples measured on, at most; None for all.
    """

    def __init__(
        self,
        problem: Composition,
        geometry: Geometry,
        step: Any,
        points: str = "one",
        most: int | None = None,
    ) -> None:
        self._numbers, static = split(problem, geometry.x.dtype)
        self._step = np.asarray(step, geometry.x.dtype)
        self._fixed = static, geometry, points, most

    def compile(self, x: Any) -> Any:
        """The program for points of the shape of x; compiled once for all that share it."""
        return _compile(*self._fixed, signature((self._numbers, x, self._step)))

    def __call__(self, x: Any) -> tuple[Any, Any, Any]:
        return self.compile(x)(self._numbers, x, self._step)


def block_size(problem: Composition, geometry: Geometry, core: Any, most: int | None = None) -> int:
    """How many points of a run with such a state are measured together: `BLOCK` or 1.

    One shape, so one program, and numbers that do not depend on which points came together.
    """
    x, y = geometry.x.size, geometry.y.size
    inner, outside = Oracle(problem, geometry, {}).everything(most)
    passed = inner.size * (geometry.inner_sample + x + 2 * y)
    if outside is not None:
        passed += outside.size * (geometry.outer_sample + 2 * y)
    kept = sum(np.size(leaf) for leaf in jax.tree_util.tree_leaves(core))
    return BLOCK if BLOCK * max(passed, kept) <= ROOM else 1


@functools.lru_cache(maxsize=64)
def _compile(
    static: Static, geometry: Geometry, points: str, most: int | None, signature: Signature
) -> Any:
    def measured(numbers: Any, x: Vector, step: Any) -> tuple[Any, Any, Any]:
        return _measure(join(numbers, static), geometry, points, most, x, step)

    return jax.jit(measured).lower(*signature.specs()).compile()


def _measure(
    problem: Composition, geometry: Geometry, points: str, most: int | None, x: Vector, step: Any
) -> tuple[Any, Any, Any]:
    def one(x: Vector) -> tuple[Any, Any, Any]:
        oracle = Oracle(problem, geometry, {})
        everything, outside = oracle.everything(most)
        inner, pull = oracle.values_and_pullback(x, everything)
        gradient = pull(oracle.outer_gradient(inner, outside))
        penalty = problem.regularizer.value(geometry.x.unflatten(x))
        objective = oracle.outer_value(inner, outside) + penalty
        moved = geometry.x.unflatten(x - step * gradient)
        mapping = (x - geometry.x.flatten(problem.regularizer.prox(moved, step))) / step
        return objective, jnp.linalg.norm(mapping), gradient

    if points == "one":
        return one(x)
    return jax.vmap(one)(x) if points == "together" else jax.lax.map(one, x)
