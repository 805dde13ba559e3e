"""What is measured, off the count: objective, gradient and gradient mapping, exact or on a part."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.compiler import quick
from mvrc.oracle.functions import Geometry, Problem, Vector
from mvrc.oracle.oracle import Oracle
from mvrc.regularizers import Zero
from mvrc.support import cache
from mvrc.support.numerics import namespace
from mvrc.support.partition import Signature, Static, combine, partition, signature

# The samples are read once for all points: sixteen took four times as long as one.
BLOCK = 16
VISIBLE = 64  # roundings of x, so that a move is known to 2 %
ROOM = 2**25  # numbers that a block may hold at most, 256 MiB in float64


class Measurement(NamedTuple):
    """At one point x; the gradient in the structure of x."""

    objective: float  # Φ(x)
    gradient_mapping: float  # ‖𝒢_λ(x)‖
    gradient: Any  # ∇F(x)


def measure(problem: Any, x: Any, step: float = 1.0) -> Measurement:
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
        problem: Problem,
        geometry: Geometry,
        step: Any,
        points: str = "one",
        most: int | None = None,
    ) -> None:
        self._problem = problem.packed(geometry)
        self._numbers, static = partition(self._problem, geometry.x.dtype)
        self._step = np.asarray(step, geometry.x.dtype)
        counts = [s.count for s in (problem.inner_source, problem.outer_source) if s is not None]
        if most is not None and all(count is not None and count <= most for count in counts):
            most = None
        self._fixed = static, geometry, points, most

    def compile(self, x: Any) -> Any:
        """The program for points of the shape of x; compiled once for all that share it."""
        return _compile(*self._fixed, signature((self._numbers, x, self._step)))

    def __call__(self, x: Any) -> tuple[Any, Any, Any]:
        return self.compile(x)(self._numbers, x, self._step)


def estimated(problem: Problem, geometry: Geometry, x: Any) -> tuple[float, float]:
    """Φ(x) by samples that were drawn, and its standard error.

    By the delta method, from the variances of ⟨∇f, gᵢ⟩ and fₖ.
    """
    numbers, static = partition(problem.packed(geometry), geometry.x.dtype)
    value, error = _compile_estimate(static, geometry, signature((numbers, x)))(numbers, x)
    return float(value), float(error)


def gradient_mapping(x: Any, v: Any, step: Any, prox: Any, while_loop: Any) -> Any:
    """𝒢_λ(x) = (x − prox_{λr}(x − λv))/λ for λ = step, v = ∇F(x); for NumPy and for JAX.

    A coordinate whose move is less than `VISIBLE` roundings of x is lost in x − λv. It is taken
    from the smallest λ·16ᵏ where the move can be seen, and is 0 where none can up to λ‖v‖ = ‖x‖:
    |𝒢_λ| falls with λ, and vanishes for one λ where it does for all, so that what is measured is
    never too large, and is 0 only at a stationary point.
    """
    xp = namespace(x)
    least = VISIBLE * float(np.finfo(x.dtype).eps) * abs(x)
    size, slope = xp.linalg.norm(x), xp.linalg.norm(v)

    def at(step: Any) -> tuple[Any, Any]:
        moved = x - prox(x - step * v, step)
        return moved / step, abs(moved) >= least

    def hidden(carry: Any) -> Any:
        step, _, visible = carry
        return ~xp.all(visible) & (step * slope < size) & xp.isfinite(step)

    def longer(carry: Any) -> Any:
        step, mapping, visible = carry
        step = step * 16
        new, now = at(step)
        return step, xp.where(visible, mapping, new), visible | now

    first, visible = at(step)
    _, mapping, visible = while_loop(hidden, longer, (step, first, visible))
    return xp.where(visible, mapping, 0)


def block_size(problem: Problem, geometry: Geometry, core: Any, most: int | None = None) -> int:
    """How many points of a run with such a state are measured together: `BLOCK` or 1.

    One shape, so one program, and numbers that do not depend on which points came together.
    """
    x, y = geometry.x.size, geometry.y.size
    inner, outside = problem.everything(most)
    passed = inner.size * (geometry.inner_sample + x + 2 * y)
    if outside is not None:
        passed += outside.size * (geometry.outer_sample + 2 * y)
    kept = sum(np.size(leaf) for leaf in jax.tree_util.tree_leaves(core))
    return BLOCK if BLOCK * max(passed, kept) <= ROOM else 1


@cache.remember
def _compile(
    static: Static, geometry: Geometry, points: str, most: int | None, signature: Signature
) -> Any:
    def one(problem: Problem, x: Vector, step: Any) -> tuple[Any, Any, Any]:
        oracle = Oracle(problem.functions(geometry))
        everything, outside = problem.everything(most)
        inner, pull = oracle.values_and_pullback(x, everything)
        gradient = pull(oracle.outer_gradient(inner, outside))
        objective = oracle.outer_value(inner, outside) + oracle.functions.penalty(x)
        if isinstance(problem.regularizer, Zero):
            return objective, jnp.linalg.norm(gradient), gradient
        prox = oracle.functions.prox
        mapping = gradient_mapping(x, gradient, step, prox, jax.lax.while_loop)
        return objective, jnp.linalg.norm(mapping), gradient

    def measured(numbers: Any, x: Vector, step: Any) -> tuple[Any, Any, Any]:
        problem = combine(numbers, static)
        at = lambda x: one(problem, x, step)  # noqa: E731
        if points == "one":
            return at(x)
        return jax.vmap(at)(x) if points == "together" else jax.lax.map(at, x)

    return quick.Program(measured, signature.specs())


@cache.remember
def _compile_estimate(static: Static, geometry: Geometry, signature: Signature) -> Any:
    def spread(source: Any, batch: Any, values: Any, mean: Any, rows: int) -> Any:
        """The variance of the mean of what is there for each sample."""
        if source is None or not source.drawn:
            return 0.0
        variance = batch.mean(lambda s: s.sum((values(s.rows) - mean) ** 2), rows)
        return variance / batch.size

    def estimate(numbers: Any, x: Vector) -> Any:
        problem = combine(numbers, static)
        oracle = Oracle(problem.functions(geometry))
        inside, outside = problem.everything()
        inner = oracle.values(x, inside)
        outer, value = oracle.outer_gradient(inner, outside), oracle.outer_value(inner, outside)
        along = lambda rows: oracle.functions.values(x, rows) @ outer  # noqa: E731
        each = lambda rows: oracle.functions.outer_values(inner, rows)  # noqa: E731
        variance = spread(
            problem.inner_source, inside, along, inner @ outer, geometry.inner_rows(False)
        ) + spread(problem.outer_source, outside, each, value, geometry.outer_rows())
        return value + oracle.functions.penalty(x), jnp.sqrt(variance)

    return quick.Program(estimate, signature.specs())
