"""Regularisers r of min f(E g(x)) + r(x): the value r(x) and the proximal map, one class each.

    prox(x, step) = argmin_u  r(u) + ‖u − x‖² / (2 step)

x is any pytree of arrays, and the prox keeps its structure and dtypes. Sums whose prox is known
are written with `+`; any other r is a `Custom`.
"""

from __future__ import annotations

import abc
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

# A point counts as inside a set up to this many roundings: a projection makes a few, and the
# running averages of projected points that momentum methods keep make more.
_ROUNDINGS = 1000


def _number(value: Any) -> Any:
    """A Python float, or an array for several numbers: leaves, so that jit does not fix them."""
    if isinstance(value, jax.Array) or np.asarray(value).dtype.kind not in "iuf":
        return value
    return np.asarray(value) if np.ndim(value) else float(value)


def _numbers(tree: Any) -> Any:
    return jax.tree.map(_number, tree, is_leaf=_is_number_list)


def _is_number_list(node: Any) -> bool:
    return isinstance(node, list) and all(isinstance(v, int | float) for v in node)


class Regularizer(eqx.Module):
    """r: x ↦ (−∞, +∞], convex and closed."""

    @abc.abstractmethod
    def value(self, x: Any) -> jax.Array:
        """r(x), a scalar; +∞ outside a constraint set."""

    @abc.abstractmethod
    def prox(self, x: Any, step: Any) -> Any:
        """argmin_u r(u) + ‖u − x‖² / (2 step)."""

    def check(self, x: Any) -> None:
        """Raise a ValueError when r cannot be applied to x; called once, outside jit."""

    def __add__(self, other: Regularizer) -> Regularizer:
        return _add(self, other) if isinstance(other, Regularizer) else NotImplemented


class Constraint(Regularizer):
    """r(x) = 0 on a closed convex set C, +∞ elsewhere; prox(x, step) = P_C(x) for every step.

    x counts as inside when max|x − P_C(x)| ≤ 1000 ε max|x|, with ε the precision of its dtype.
    """

    @abc.abstractmethod
    def project(self, x: Any) -> Any:
        """P_C(x) = argmin_{u ∈ C} ‖u − x‖."""

    def value(self, x: Any) -> jax.Array:
        point, _ = ravel_pytree(x)
        nearest, _ = ravel_pytree(self.project(x))
        eps = max(float(jnp.finfo(jnp.asarray(leaf).dtype).eps) for leaf in jax.tree.leaves(x))
        gap = jnp.max(jnp.abs(point - nearest))
        inside = jnp.isfinite(gap) & (gap <= _ROUNDINGS * eps * jnp.max(jnp.abs(point)))
        return jnp.where(inside, 0.0, jnp.inf).astype(point.dtype)

    def prox(self, x: Any, step: Any) -> Any:
        return self.project(x)


class Zero(Regularizer):
    """r(x) = 0; prox(x, step) = x."""

    def value(self, x: Any) -> jax.Array:
        return _sum(lambda leaf: jnp.zeros((), leaf.dtype), x)

    def prox(self, x: Any, step: Any) -> Any:
        return jax.tree.map(jnp.asarray, x)


class L1(Regularizer):
    """r(x) = weight ‖x‖₁; prox(x, step) = sign(x) max(|x| − step·weight, 0)."""

    weight: ArrayLike = eqx.field(converter=_number)

    def __check_init__(self) -> None:
        _refuse_unless_weight(self)

    def value(self, x: Any) -> jax.Array:
        return _sum(lambda leaf, weight: weight * jnp.sum(jnp.abs(leaf)), x, self.weight)

    def prox(self, x: Any, step: Any) -> Any:
        return _each(lambda leaf, weight, s: _shrink(leaf, s * weight), x, self.weight, step)


class L2(Regularizer):
    """r(x) = (weight/2) ‖x‖²; prox(x, step) = x / (1 + step·weight)."""

    weight: ArrayLike = eqx.field(converter=_number)

    def __check_init__(self) -> None:
        _refuse_unless_weight(self)

    def value(self, x: Any) -> jax.Array:
        return _sum(lambda leaf, weight: weight / 2 * jnp.sum(leaf**2), x, self.weight)

    def prox(self, x: Any, step: Any) -> Any:
        return _each(lambda leaf, weight, s: leaf / (1 + s * weight), x, self.weight, step)


class ElasticNet(Regularizer):
    """r(x) = l1 ‖x‖₁ + (l2/2) ‖x‖²; prox(x, step) = prox_{l1‖·‖₁}(x, step) / (1 + step·l2)."""

    l1: ArrayLike = eqx.field(converter=_number)
    l2: ArrayLike = eqx.field(converter=_number)

    def __check_init__(self) -> None:
        _refuse_unless_weight(self, "l1")
        _refuse_unless_weight(self, "l2")

    def value(self, x: Any) -> jax.Array:
        return L1(self.l1).value(x) + L2(self.l2).value(x)

    def prox(self, x: Any, step: Any) -> Any:
        return L2(self.l2).prox(L1(self.l1).prox(x, step), step)


class GroupL2(Regularizer):
    """r(x) = Σ_g weight_g ‖x_g‖; prox(x, step)_g = max(1 − step·weight_g/‖x_g‖, 0) x_g.

    Args:
        weight: one number, or an array with one number per group.
        groups: a partition of the coordinates of x (of all its arrays, in the order of
            `ravel_pytree`): a label per coordinate, as in [0, 0, 1, 1, 2], groups then being
            ordered by label; or lists of coordinates, as in [[0, 1], [2, 3], [4]].
    """

    weight: ArrayLike = eqx.field(converter=_number)
    labels: ArrayLike  # group number of each coordinate
    count: int = eqx.field(static=True)  # of groups

    def __init__(self, weight: Any, groups: Any) -> None:
        self.weight = weight
        self.labels, self.count = _partition(groups)

    def __check_init__(self) -> None:
        def holds(weight: np.ndarray) -> Any:
            return weight.shape in ((), (self.count,)) and np.all((weight >= 0) & (weight < np.inf))

        allowed = f"a finite number of at least 0, or an array of {self.count} such (one a group)"
        _refuse_unless(self, "weight", holds, allowed)

    def check(self, x: Any) -> None:
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(x))
        if size != np.size(self.labels):
            raise ValueError(
                f"groups of GroupL2 cover {np.size(self.labels)} coordinates; they must cover "
                f"the {size} of x."
            )

    def value(self, x: Any) -> jax.Array:
        vector, _ = ravel_pytree(x)
        return jnp.sum(jnp.asarray(self.weight, vector.dtype) * self._norms(vector))

    def prox(self, x: Any, step: Any) -> Any:
        def shrink(vector: jax.Array, weight: jax.Array, step: jax.Array) -> jax.Array:
            norms = jnp.maximum(self._norms(vector), jnp.finfo(vector.dtype).tiny)
            return jnp.maximum(1 - step * weight / norms, 0)[self.labels] * vector

        return _joint(shrink, x, self.weight, step)

    def _norms(self, vector: jax.Array) -> jax.Array:
        return jnp.sqrt(jax.ops.segment_sum(vector**2, self.labels, self.count))


class Nuclear(Regularizer):
    """r(X) = weight Σᵢ σᵢ(X) for a matrix X = U diag(σ) Vᵀ; the prox is that of L1 on σ."""

    weight: ArrayLike = eqx.field(converter=_number)

    def __check_init__(self) -> None:
        _refuse_unless_weight(self)

    def check(self, x: Any) -> None:
        _refuse_unless_axes(self, x, 2, "matrix")

    def value(self, x: Any) -> jax.Array:
        return L1(self.weight).value(jnp.linalg.svd(x, compute_uv=False))

    def prox(self, x: Any, step: Any) -> Any:
        left, singular, right = jnp.linalg.svd(x, full_matrices=False)
        shrunk = L1(self.weight).prox(singular, step)
        return jnp.matmul(left * shrunk, right, precision="highest")


class TotalVariation1D(Regularizer):
    """r(x) = weight Σᵢ |xᵢ₊₁ − xᵢ| for a vector x; the prox is exact up to rounding.

    With λ = step·weight, the prox is constant on segments, where it equals the mean of x plus
    λ(sign of the jump after − sign of the jump before) / length. Starting from one segment of
    level c, the coordinates above c are θ = 1 in min_θ Σᵢ (c − xᵢ) θᵢ + λ Σᵢ |θᵢ₊₁ − θᵢ| over
    θ ∈ {0, 1}ᵈ: a θ that varies splits the segment, a constant one certifies it. All segments are
    treated at once; a round costs O(d log d), and there are usually about log d, at most d.
    (Chambolle and Darbon 2009, On total variation minimization and surface evolution using
    parametric maximum flows.)
    """

    weight: ArrayLike = eqx.field(converter=_number)

    def __check_init__(self) -> None:
        _refuse_unless_weight(self)

    def check(self, x: Any) -> None:
        _refuse_unless_axes(self, x, 1, "vector")

    def value(self, x: Any) -> jax.Array:
        return L1(self.weight).value(jnp.diff(x))

    def prox(self, x: Any, step: Any) -> Any:
        return _each(
            lambda y, weight, s: _total_variation_prox(y, s * weight), x, self.weight, step
        )


class Box(Constraint):
    """C = {x : lower ≤ x ≤ upper}; P_C(x) = min(max(x, lower), upper).

    Args:
        lower, upper: a number or array for every array of x, or a pytree with the structure of x;
            ±inf where there is no bound.
    """

    lower: Any = eqx.field(converter=_numbers)
    upper: Any = eqx.field(converter=_numbers)

    def __check_init__(self) -> None:
        lower = _spread(self.lower, self.upper)
        if not _all(_ordered, lower, _spread(self.upper, lower)):
            raise ValueError(
                f"lower and upper of Box must be numbers, arrays or pytrees of one structure, with "
                f"lower <= upper everywhere and no NaN, not {self.lower!r} and {self.upper!r}."
            )

    def check(self, x: Any) -> None:
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if not _all(_fits, x, _spread(bound, x)):
                raise ValueError(
                    f"{name} of Box must be a number or have the structure and shapes of x, "
                    f"{_shapes(x)}, not {_shapes(bound)}."
                )

    def project(self, x: Any) -> Any:
        from optax.projections import projection_box

        def bound(number: Any) -> Any:
            spread = _spread(number, x)
            return jax.tree.map(lambda leaf, b: jnp.asarray(b, leaf.dtype), x, spread)

        x = jax.tree.map(jnp.asarray, x)
        return projection_box(x, bound(self.lower), bound(self.upper))


class NonNegative(Constraint):
    """C = {x : x ≥ 0}; P_C(x) = max(x, 0)."""

    def project(self, x: Any) -> Any:
        from optax.projections import projection_non_negative

        return projection_non_negative(jax.tree.map(jnp.asarray, x))


class Simplex(Constraint):
    """C = {x : x ≥ 0, Σᵢ xᵢ = radius}; P_C(x) = max(x − τ, 0) with τ such that the sum is right."""

    radius: ArrayLike = eqx.field(converter=_number, default=1.0)

    def __check_init__(self) -> None:
        _refuse_unless_radius(self)

    def project(self, x: Any) -> Any:
        return _joint(_project_simplex, x, self.radius)


class L1Ball(Constraint):
    """C = {x : ‖x‖₁ ≤ radius}; P_C(x) = x inside, else sign(x) P_Simplex(|x|)."""

    radius: ArrayLike = eqx.field(converter=_number)

    def __check_init__(self) -> None:
        _refuse_unless_radius(self)

    def project(self, x: Any) -> Any:
        def project(vector: jax.Array, radius: jax.Array) -> jax.Array:
            sizes = jnp.abs(vector)
            outside = jnp.sign(vector) * _project_simplex(sizes, radius)
            return jnp.where(jnp.sum(sizes) <= radius, vector, outside)

        return _joint(project, x, self.radius)


class L2Ball(Constraint):
    """C = {x : ‖x‖ ≤ radius}; P_C(x) = x radius / max(‖x‖, radius)."""

    radius: ArrayLike = eqx.field(converter=_number)

    def __check_init__(self) -> None:
        _refuse_unless_radius(self)

    def project(self, x: Any) -> Any:
        from optax.projections import projection_l2_ball

        return _joint(projection_l2_ball, x, self.radius)


class Custom(Regularizer):
    """r and its prox from a user's pair of functions.

    Args:
        value: `value(x)`, the scalar r(x).
        prox: `prox(x, step)`, the minimiser of r(u) + ‖u − x‖² / (2 step), in the structure of x;
            made of JAX operations, and for every step > 0.
    """

    value_function: Callable[[Any], Any]
    prox_function: Callable[[Any, Any], Any]

    def __init__(self, value: Any, prox: Any) -> None:
        for name, function in (("value", value), ("prox", prox)):
            if not callable(function):
                raise TypeError(f"{name} of Custom must be a function, not {function!r}.")
        self.value_function = _as_pytree(value)
        self.prox_function = _as_pytree(prox)

    def check(self, x: Any) -> None:
        value = jax.eval_shape(lambda x: self.value_function(x), x)
        if _shapes(value) != _shapes(0.0):
            raise ValueError(f"value(x) of Custom must be a scalar, not {_shapes(value)}.")
        prox = jax.eval_shape(lambda x: self.prox_function(x, 1.0), x)
        if _shapes(prox) != _shapes(x):
            raise ValueError(
                f"prox(x, step) of Custom must be like x, {_shapes(x)}, not {_shapes(prox)}."
            )

    def value(self, x: Any) -> jax.Array:
        return jnp.asarray(self.value_function(x))

    def prox(self, x: Any, step: Any) -> Any:
        return jax.tree.map(
            lambda leaf, p: jnp.asarray(p, jnp.asarray(leaf).dtype), x, self.prox_function(x, step)
        )


class Sum(Regularizer):
    """r = Σₖ rₖ, made by `+`, for terms whose prox is that of one after that of the other.

    Each term is applied to the result of the one before. A quadratic r₁ = (w/2)‖·‖² comes first
    and leaves the step s/(1 + s w) to the rest: completing the square,
    prox_{r₁+r}(x, s) = prox_r(x/(1 + s w), s/(1 + s w)) for every r.
    """

    terms: tuple[Regularizer, ...]  # in the order of application

    def check(self, x: Any) -> None:
        for term in self.terms:
            term.check(x)

    def value(self, x: Any) -> jax.Array:
        return functools.reduce(operator.add, (term.value(x) for term in self.terms))

    def prox(self, x: Any, step: Any) -> Any:
        for term in self.terms:
            x = term.prox(x, step)
            if isinstance(term, L2):
                step = step / (1 + step * term.weight)
        return x


# Pairs for which prox_{r₁+r₂} = prox_{r₂} ∘ prox_{r₁}: the fused lasso (Friedman et al. 2007), the
# sparse group lasso (Friedman et al. 2010), and intervals, coordinate by coordinate.
_IN_TURN = ((TotalVariation1D, L1), (L1, GroupL2), (L1, NonNegative), (L1, Box))
_ADDITIVE = (L1, L2, Nuclear, TotalVariation1D)  # the sum of two is one with the sum of weights


def _add(a: Regularizer, b: Regularizer) -> Regularizer:
    terms: dict[Any, Any] = {}
    parts: tuple[Any, ...] = _terms(a) + _terms(b)
    for i, term in enumerate(parts):
        kind = type(term)
        key = kind if kind in _ADDITIVE else i
        terms[key] = kind(terms[key].weight + term.weight) if key in terms else term
    square = [terms.pop(L2)] if L2 in terms else []
    rest = list(terms.values())
    if len(rest) > 1:
        kinds = {type(term): term for term in rest}
        order = [pair for pair in _IN_TURN if len(rest) == 2 and set(pair) == set(kinds)]
        if not order:
            raise TypeError(
                f"The prox of {_name(a)} + {_name(b)} is not known in closed form; give the prox "
                f"of the sum yourself with Custom(value, prox)."
            )
        rest = [kinds[kind] for kind in order[0]]
    if square and len(rest) == 1 and isinstance(rest[0], L1):
        return ElasticNet(rest[0].weight, square[0].weight)
    both = (*square, *rest)
    return Sum(both) if len(both) > 1 else (both or (Zero(),))[0]


def _terms(r: Regularizer) -> tuple[Regularizer, ...]:
    if isinstance(r, ElasticNet):
        return (L1(r.l1), L2(r.l2))
    return r.terms if isinstance(r, Sum) else () if isinstance(r, Zero) else (r,)


def _name(r: Regularizer) -> str:
    return " + ".join(map(_name, r.terms)) if isinstance(r, Sum) else type(r).__name__


def _shrink(x: jax.Array, threshold: jax.Array) -> jax.Array:
    return x - jnp.clip(x, -threshold, threshold)


def _project_simplex(x: jax.Array, radius: jax.Array) -> jax.Array:
    """The projection ignores a shift of x; with max(x) = 0 it is exact however large x is."""
    from optax.projections import projection_simplex

    return projection_simplex(x - jnp.max(x), radius)


def _total_variation_prox(x: jax.Array, threshold: jax.Array) -> jax.Array:
    """See `TotalVariation1D`; jump[i] ∈ {−1, 0, 1} is the sign of the step from i to i + 1."""

    def split(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        jump, _ = state
        above = _above(x, threshold, _levels(x, threshold, jump), jump).astype(x.dtype)
        finer = jnp.where(jump == 0, jnp.diff(above, append=above[-1:]), jump)
        return finer, jnp.any(finer != jump)

    start = (jnp.zeros_like(x), jnp.asarray(True))
    jump, _ = jax.lax.while_loop(lambda state: state[1], split, start)
    return _levels(x, threshold, jump)


def _levels(x: jax.Array, threshold: jax.Array, jump: jax.Array) -> jax.Array:
    """The level of each coordinate's segment."""
    before = jnp.roll(jump, 1)  # the last jump is 0
    segment = jnp.cumsum(before != 0)
    sizes = jax.ops.segment_sum(jnp.ones_like(x), segment, x.size)

    def correct(levels: jax.Array) -> jax.Array:
        excess = x - levels + threshold * (jump - before)
        means = jax.ops.segment_sum(excess, segment, x.size) / jnp.maximum(sizes, 1)
        return levels + means[segment]

    # Twice: partial sums of x − levels stay within 2·threshold, so the second mean is exact up to
    # the rounding of one number, whatever the length.
    return correct(correct(jnp.zeros_like(x)))


def _above(x: jax.Array, threshold: jax.Array, levels: jax.Array, jump: jax.Array) -> jax.Array:
    """θ of `TotalVariation1D` for every segment, by dynamic programming.

    mᵢ = (cost of θᵢ = 1) − (cost of θᵢ = 0) over the coordinates up to i follows
    mᵢ = clip(mᵢ₋₁, −λ, λ) + levelᵢ − xᵢ; then θᵢ = 1 if mᵢ < −λ, 0 if mᵢ > λ, else θᵢ₊₁. Next to
    another segment, mᵢ₋₁ is ±λ and θᵢ₊₁ is known. The maps m ↦ clip(m + shift, low, high) are
    closed under composition: a prefix product by doubling, with no sequential pass.
    """
    size, index = x.size, jnp.arange(x.size)
    before = jnp.roll(jump, 1)
    free = (before == 0) & (index > 0)
    slope = levels - x
    low = slope + jnp.where(free, -threshold, threshold * before)
    high = slope + jnp.where(free, threshold, threshold * before)

    def double(k: jax.Array, maps: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        def earlier(entries: jax.Array, identity: float) -> jax.Array:
            padded = jnp.concatenate([jnp.full_like(entries, identity), entries])
            return jax.lax.dynamic_slice(padded, (size - 2**k,), (size,))

        shift, low, high = maps
        first = earlier(shift, 0.0), earlier(low, -jnp.inf), earlier(high, jnp.inf)
        ends = [jnp.clip(end + shift, low, high) for end in first[1:]]
        return first[0] + shift, *ends

    rounds = (size - 1).bit_length()
    message = jax.lax.fori_loop(0, rounds, double, (slope, low, high))[1]
    known = (jnp.abs(message) > threshold) | (jump != 0) | (index == size - 1)
    following = jax.lax.cummin(jnp.where(known, index, size), reverse=True)
    return (message < threshold * jump)[following]


def _partition(groups: Any) -> tuple[np.ndarray, int]:
    """Group numbers 0, 1, … of the coordinates, and how many groups there are."""
    allowed = "groups of GroupL2 must be a whole-number label per coordinate, or lists of "
    allowed += f"coordinates that name each of 0, …, d − 1 once, not {groups!r}."
    nested = isinstance(groups, Sequence) and any(np.ndim(group) for group in groups)
    if not nested:
        labels = np.asarray(groups)
        if labels.ndim != 1 or labels.size == 0 or labels.dtype.kind not in "iu":
            raise ValueError(allowed)
        names, numbers = np.unique(labels, return_inverse=True)
        return numbers, names.size
    members = [np.asarray(group, dtype=int).ravel() for group in groups]
    every = np.concatenate(members)
    if not np.array_equal(np.sort(every), np.arange(every.size)):
        raise ValueError(allowed)
    numbers = np.empty(every.size, dtype=int)
    numbers[every] = np.repeat(np.arange(len(members)), [member.size for member in members])
    return numbers, len(members)


def _each(function: Callable, x: Any, *numbers: Any) -> Any:
    """function(leaf, *numbers) for every leaf, the numbers cast to its dtype."""

    def on(leaf: Any) -> jax.Array:
        leaf = jnp.asarray(leaf)
        return function(leaf, *(jnp.asarray(number, leaf.dtype) for number in numbers))

    return jax.tree.map(on, x)


def _sum(function: Callable, x: Any, *numbers: Any) -> jax.Array:
    return jnp.asarray(sum(jax.tree.leaves(_each(function, x, *numbers))))


def _joint(function: Callable, x: Any, *numbers: Any) -> Any:
    """function(vector, *numbers) for the vector of all coordinates of x."""
    vector, unravel = ravel_pytree(x)
    return unravel(_each(function, vector, *numbers).astype(vector.dtype))


def _refuse_unless(r: Regularizer, name: str, holds: Callable[..., Any], allowed: str) -> None:
    value = getattr(r, name)
    if isinstance(value, Tracer):
        return
    if not (isinstance(value, float | np.ndarray | jax.Array) and holds(np.asarray(value))):
        raise ValueError(f"{name} of {type(r).__name__} must be {allowed}, not {value!r}.")


def _refuse_unless_weight(r: Regularizer, name: str = "weight") -> None:
    allowed = "a finite number of at least 0"
    _refuse_unless(r, name, lambda w: w.ndim == 0 and 0 <= w < np.inf, allowed)


def _refuse_unless_radius(r: Regularizer) -> None:
    allowed = "a finite number above 0"
    _refuse_unless(r, "radius", lambda w: w.ndim == 0 and 0 < w < np.inf, allowed)


def _refuse_unless_axes(r: Regularizer, x: Any, axes: int, noun: str) -> None:
    if not jax.tree_util.all_leaves([x]) or np.ndim(x) != axes:
        name = type(r).__name__
        raise ValueError(f"x of {name} must be one {noun} (ndim = {axes}), not {_shapes(x)}.")


def _shapes(x: Any) -> str:
    return f"of shape {jax.tree.map(np.shape, x)}"


def _spread(bound: Any, tree: Any) -> Any:
    """A single number or array, repeated for every leaf of the tree."""
    return jax.tree.map(lambda _: bound, tree) if jax.tree_util.all_leaves([bound]) else bound


def _ordered(lower: Any, upper: Any) -> bool:
    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        return True  # not known yet
    low, high = np.asarray(lower), np.asarray(upper)
    return bool(np.all((low <= high) & (low < np.inf) & (high > -np.inf)))


def _fits(leaf: Any, bound: Any) -> bool:
    return np.broadcast_shapes(np.shape(leaf), np.shape(bound)) == np.shape(leaf)


def _all(holds: Callable[..., bool], *trees: Any) -> bool:
    """Whether it holds leaf by leaf, which trees of different structure do not."""
    try:
        leaves = jax.tree.leaves(jax.tree.map(holds, *trees))
    except (TypeError, ValueError):
        return False
    return bool(leaves) and all(leaves)


def _as_pytree(function: Callable[..., Any]) -> Any:
    """A plain function has no leaves; a module or Partial keeps its own."""
    known = isinstance(function, eqx.Module | jax.tree_util.Partial)
    return function if known else jax.tree_util.Partial(function)
