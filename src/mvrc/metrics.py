"""What is measured: exact objective, gradient and gradient mapping; off the clock and the count."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.oracle import Geometry, Oracle, Vector
from mvrc.problem import Composition
from mvrc.split import Static, join, split


class Measurement(NamedTuple):
    """At one point x; the gradient in the structure of x."""

    objective: float  # Φ(x)
    gradient_mapping: float  # ‖𝒢_λ(x)‖
    gradient: Any  # ∇F(x)


def measure(problem: Composition, x: Any, step: float = 1.0) -> Measurement:
    """Φ(x), ∇F(x) and the norm of 𝒢_λ(x) = (x − prox_{λr}(x − λ∇F(x)))/λ for λ = step."""
    x = problem.start(x, "x")
    with problem.precision(x):
        geometry = problem.geometry(x)
        flat = geometry.x.flatten(x)
        objective, mapping, gradient = measure_flat(problem, geometry, flat, step)
        gradient = jax.tree_util.tree_map(np.asarray, geometry.x.unflatten(gradient))
    return Measurement(float(objective), float(mapping), gradient)


def measure_flat(
    problem: Composition, geometry: Geometry, x: Vector, step: Any, lanes: int | None = None
) -> tuple[Any, Any, Any]:
    """The same at a flat x, or at `lanes` of them along a leading axis."""
    return measurement(problem, geometry, step, lanes)(x)


def measurement(
    problem: Composition, geometry: Geometry, step: Any, lanes: int | None = None
) -> Callable[[Vector], tuple[Any, Any, Any]]:
    """`measure_flat` as a function of x alone: what does not depend on x is prepared once."""
    numbers, static = split(problem, geometry.x.dtype)
    number = np.asarray(step, geometry.x.dtype)
    return lambda x: _measure(static, geometry, lanes, numbers, x, number)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _measure(
    static: Static, geometry: Geometry, lanes: int | None, numbers: Any, x: Vector, step: Any
) -> tuple[Any, Any, Any]:
    problem = join(numbers, static)

    def one(x: Vector) -> tuple[Any, Any, Any]:
        oracle = Oracle(problem, geometry, {})
        everything, outside = oracle.everything()
        inner, pull = oracle.values_and_pullback(x, everything)
        gradient = pull(oracle.outer_gradient(inner, outside))
        penalty = problem.regularizer.value(geometry.x.unflatten(x))
        objective = oracle.outer_value(inner, outside) + penalty
        moved = geometry.x.unflatten(x - step * gradient)
        mapping = (x - geometry.x.flatten(problem.regularizer.prox(moved, step))) / step
        return objective, jnp.linalg.norm(mapping), gradient

    # One point after another: a batch of full passes would multiply the peak memory.
    return one(x) if lanes is None else jax.lax.map(one, x)
