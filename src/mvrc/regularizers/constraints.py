"""Constraint sets C as regularisers: r = 0 on C and +∞ elsewhere; the prox is the projection."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from mvrc.regularizers.base import (
    Regularizer,
    Separable,
    fits,
    flat_numpy,
    holds_for_all,
    joint,
    namespace,
    number,
    numbers,
    refuse_unless,
    shapes,
    spread,
)
from mvrc.support import checks

# A point counts as inside a set up to this many roundings: a projection makes a few, and the
# running averages of projected points that momentum methods keep make more.
ROUNDINGS = 1000


class Constraint(Regularizer):
    """r(x) = 0 on a closed convex set C, +∞ elsewhere; prox(x, step) = P_C(x) for every step.

    x counts as inside when max|x − P_C(x)| ≤ 1000 ε max|x|, with ε the precision of its dtype.
    """

    @abc.abstractmethod
    def project(self, x: Any) -> Any:
        """P_C(x) = argmin_{u ∈ C} ‖u − x‖."""

    def value(self, x: Any) -> Any:
        leaves, nearest = jax.tree.leaves(x), jax.tree.leaves(type(self).project(self, x))
        eps = max(float(jnp.finfo(leaf.dtype).eps) for leaf in nearest)
        xp = namespace(nearest[0])
        pairs = zip(leaves, nearest, strict=True)
        gap = _largest(xp, [abs(leaf - near) for leaf, near in pairs])
        inside = xp.isfinite(gap) & (gap <= ROUNDINGS * eps * _largest(xp, map(abs, leaves)))
        return xp.where(inside, 0.0, xp.inf).astype(gap.dtype)

    def prox(self, x: Any, step: Any) -> Any:
        return type(self).project(self, x)  # equinox is slow to bind a method


def _largest(xp: Any, arrays: Any) -> Any:
    return xp.stack([xp.max(xp.asarray(array)) for array in arrays]).max()


@checks.explain_init
class Box(Constraint, Separable):
    """C = {x : lower ≤ x ≤ upper}; P_C(x) = min(max(x, lower), upper).

    Args:
        lower, upper: a number or array for every array of x, or a pytree with the structure of x;
            ±inf where there is no bound.

    Examples:
        >>> r = mvrc.Box(0.0, 1.0)
        >>> r.prox(np.array([2.0, -3.0]), 1.0)
        array([1., 0.])
    """

    lower: Any = eqx.field(converter=numbers)
    upper: Any = eqx.field(converter=numbers)

    def __check_init__(self) -> None:
        lower = spread(self.lower, self.upper)
        if not holds_for_all(_ordered, lower, spread(self.upper, lower)):
            raise ValueError(
                f"lower and upper of Box must be numbers, arrays or pytrees of one structure, with "
                f"lower <= upper everywhere and no NaN, not "
                f"{checks.shown(self.lower)} and {checks.shown(self.upper)}."
            )

    def check(self, x: Any) -> None:
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if not holds_for_all(fits, x, spread(bound, x)):
                raise ValueError(
                    f"{name} of Box must be a number or have the structure and shapes of x, "
                    f"{shapes(x)}, not {shapes(bound)}."
                )

    def project(self, x: Any) -> Any:
        def clip(leaf: Any, lower: Any, upper: Any) -> Any:
            xp = namespace(leaf, lower, upper)
            leaf = xp.asarray(leaf)
            bounds = (xp.asarray(bound, leaf.dtype) for bound in (lower, upper))
            return xp.clip(leaf, *bounds)

        return jax.tree.map(clip, x, spread(self.lower, x), spread(self.upper, x))


@checks.explain_init
class NonNegative(Constraint, Separable):
    """C = {x : x ≥ 0}; P_C(x) = max(x, 0).

    Examples:
        >>> r = mvrc.NonNegative()
        >>> r.prox(np.array([2.0, -3.0]), 1.0)
        array([2., 0.])
    """

    def project(self, x: Any) -> Any:
        return jax.tree.map(lambda leaf: namespace(leaf).maximum(leaf, 0), x)


@checks.explain_init
class Simplex(Constraint):
    """C = {x : 0 ≤ x ≤ upper, Σᵢ xᵢ = radius}; P_C(x) = min(max(x − τ, 0), upper), τ for the sum.

    Args:
        radius: the sum.
        upper: the largest value of a coordinate; None when only the sum limits it.

    Examples:
        >>> r = mvrc.Simplex()
        >>> r.prox(np.array([0.6, 0.6, -1.0]), 1.0)
        array([0.5, 0.5, 0. ])
    """

    radius: ArrayLike = eqx.field(converter=number, default=1.0)
    upper: ArrayLike | None = eqx.field(converter=number, default=None)

    def __check_init__(self) -> None:
        _refuse_unless_radius(self)
        if self.upper is not None:
            allowed = "a finite number above 0, or None"
            refuse_unless(self, "upper", lambda w: w.ndim == 0 and 0 < w < np.inf, allowed)

    def check(self, x: Any) -> None:
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(x))
        if self.upper is None or isinstance(self.radius, Tracer) or isinstance(self.upper, Tracer):
            return  # no limit, or not known yet
        radius, upper = float(np.asarray(self.radius)), float(np.asarray(self.upper))
        if upper * size < radius * (1 - 1e-9):  # 49 · (1/49) rounds to less than 1
            raise ValueError(
                f"upper of Simplex must be at least {radius / size:.4g}, as the {size} "
                f"coordinates of x have the sum {radius:g}, not {upper:g}."
            )

    @property
    def numpy(self) -> bool:
        return self.upper is None

    def prox_derivative(self, image: Any) -> np.ndarray:
        """I − 11ᵀ/k on the k coordinates between their bounds, 0 on the others."""
        flat = flat_numpy(image)
        free = (flat > 0) & (flat < (np.inf if self.upper is None else np.asarray(self.upper)))
        return np.diag(free.astype(float)) - np.outer(free, free) / max(int(free.sum()), 1)

    def project(self, x: Any) -> Any:
        if self.upper is None:
            return joint(_project_simplex, x, self.radius)
        return joint(_project_capped_simplex, x, self.radius, self.upper)


@checks.explain_init
class L1Ball(Constraint):
    """C = {x : ‖x‖₁ ≤ radius}; P_C(x) = x inside, else sign(x) P_Simplex(|x|).

    Examples:
        >>> r = mvrc.L1Ball(1.0)
        >>> r.prox(np.array([2.0, -0.3]), 1.0)
        Array([ 1., -0.], dtype=float32)
    """

    radius: ArrayLike = eqx.field(converter=number)

    def __check_init__(self) -> None:
        _refuse_unless_radius(self)

    def project(self, x: Any) -> Any:
        def project(vector: jax.Array, radius: jax.Array) -> jax.Array:
            sizes = jnp.abs(vector)
            outside = jnp.sign(vector) * _project_simplex(sizes, radius)
            return jnp.where(jnp.sum(sizes) <= radius, vector, outside)

        return joint(project, x, self.radius)


@checks.explain_init
class L2Ball(Constraint):
    """C = {x : ‖x‖ ≤ radius}; P_C(x) = x radius / max(‖x‖, radius).

    Examples:
        >>> r = mvrc.L2Ball(1.0)
        >>> r.prox(np.array([3.0, -4.0]), 1.0)
        Array([ 0.6, -0.8], dtype=float32)
    """

    radius: ArrayLike = eqx.field(converter=number)

    def __check_init__(self) -> None:
        _refuse_unless_radius(self)

    def project(self, x: Any) -> Any:
        from optax.projections import projection_l2_ball

        return joint(projection_l2_ball, x, self.radius)


def _project_simplex(x: Any, radius: Any) -> Any:
    """max(x − τ, 0), τ = (Σ of the k largest − radius)/k for the last k whose k-th exceeds τ.

    The projection ignores a shift of x; with max(x) = 0 it is exact however large x is.
    """
    xp = namespace(x)
    x = x - x.max()
    sorted_ = xp.sort(x)[::-1]
    levels = (xp.cumsum(sorted_) - radius) / xp.arange(1, x.size + 1, dtype=x.dtype)
    count = xp.sum(sorted_ > levels)
    return xp.maximum(x - levels[xp.maximum(count, 1) - 1], 0)


def _project_capped_simplex(x: jax.Array, radius: jax.Array, upper: jax.Array) -> jax.Array:
    """min(max(x − τ, 0), upper). The sum falls with τ, linearly between two breaks next to each
    other. With one of them moved to 0 the small numbers have all their digits."""
    x = x - _breaks_around(x, radius, upper)[1]
    left, right = _breaks_around(x, radius, upper)
    above, below = (jnp.sum(jnp.clip(x - level, 0, upper)) for level in (left, right))
    share = (above - radius) / jnp.where(above > below, above - below, 1)
    return jnp.clip(x - (left + jnp.clip(share, 0, 1) * (right - left)), 0, upper)


def _breaks_around(x: jax.Array, radius: jax.Array, upper: jax.Array) -> tuple[Any, Any]:
    """Of the levels at which a coordinate leaves 0 or upper, the two around τ, by halving."""
    breaks = jnp.sort(jnp.concatenate([x - upper, x]))

    def halve(_: Any, ends: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = ends
        middle = (low + high) // 2
        enough = jnp.sum(jnp.clip(x - breaks[middle], 0, upper)) >= radius
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    low, high = jax.lax.fori_loop(0, breaks.size.bit_length(), halve, (0, breaks.size - 1))
    return breaks[low], breaks[high]


def _refuse_unless_radius(r: Regularizer) -> None:
    allowed = "a finite number above 0"
    refuse_unless(r, "radius", lambda w: w.ndim == 0 and 0 < w < np.inf, allowed)


def _ordered(lower: Any, upper: Any) -> bool:
    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        return True  # not known yet
    low, high = np.asarray(lower), np.asarray(upper)
    return bool(np.all((low <= high) & (low < np.inf) & (high > -np.inf)))
