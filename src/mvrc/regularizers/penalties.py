"""Penalties: norms and squares of x, of its groups of coordinates and of its singular values.

Longer than other files: one class per penalty, each little but its docstring and example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from mvrc.regularizers.base import (
    Regularizer,
    Separable,
    each,
    fits,
    flat_numpy,
    holds_for_all,
    joint,
    namespace,
    number,
    numbers,
    one_step,
    refuse_unless,
    refuse_unless_axes,
    refuse_unless_weight,
    shapes,
    spread,
    total,
)
from mvrc.support import checks


@checks.explain_init
class Zero(Separable):
    """r(x) = 0; prox(x, step) = x.

    Examples:
        >>> r = mvrc.Zero()
        >>> r.prox(np.array([2.0, -3.0]), 1.0)
        array([ 2., -3.])
    """

    def value(self, x: Any) -> Any:
        return total(lambda leaf: namespace(leaf).zeros((), leaf.dtype), x)

    def prox(self, x: Any, step: Any) -> Any:
        return jax.tree.map(lambda leaf: namespace(leaf).asarray(leaf), x)

    def prox_derivative(self, image: Any) -> np.ndarray:
        return np.eye(flat_numpy(image).size)


@checks.explain_init
class L1(Separable):
    """r(x) = Σᵢ wᵢ|xᵢ − cᵢ|; prox(x, step) = c + sign(x − c) max(|x − c| − step·w, 0).

    Args:
        weight: w: a number; or an array, or a pytree with the structure of x.
        center: c, likewise; 0 when None. Around the present weights it is a proportional cost of
            each trade.

    Examples:
        >>> r = mvrc.L1(0.5)
        >>> r.prox(np.array([2.0, -0.3]), 1.0)
        array([1.5, 0. ])
    """

    weight: Any = eqx.field(converter=numbers)
    center: Any = eqx.field(converter=numbers, default=None)

    def __check_init__(self) -> None:
        allowed = "a finite number of at least 0, or an array or pytree of such"
        _refuse_unless_all(self, "weight", allowed, lambda w: (w >= 0) & (w < np.inf))
        if self.center is not None:
            allowed = "a finite number, an array or pytree of such, or None"
            _refuse_unless_all(self, "center", allowed, np.isfinite)

    def check(self, x: Any) -> None:
        for name in ("weight", "center"):
            given = getattr(self, name)
            if given is not None and not holds_for_all(fits, x, spread(given, x)):
                raise ValueError(
                    f"{name} of L1 must be a number or have the structure and shapes of x, "
                    f"{shapes(x)}, not {shapes(given)}."
                )

    def value(self, x: Any) -> Any:
        def size(leaf: Any, weight: Any) -> Any:
            sizes = abs(leaf)
            return weight * sizes.sum() if np.ndim(weight) == 0 else (weight * sizes).sum()

        return total(size, self._moved(x), self.weight)

    def prox(self, x: Any, step: Any) -> Any:
        if self.center is None:
            return each(lambda leaf, weight, s: _shrink(leaf, s * weight), x, self.weight, step)
        centre = spread(self.center, x)
        moved = each(
            lambda leaf, weight, s: _shrink(leaf, s * weight), self._moved(x), self.weight, step
        )
        return each(lambda leaf, c: leaf + c, moved, centre)

    def _moved(self, x: Any) -> Any:
        return (
            x if self.center is None else each(lambda leaf, c: leaf - c, x, spread(self.center, x))
        )


@checks.explain_init
class L2(Separable):
    """r(x) = (weight/2) ‖x‖²; prox(x, step) = x / (1 + step·weight).

    Examples:
        >>> r = mvrc.L2(1.0)
        >>> r.prox(np.array([2.0, -3.0]), 1.0)
        array([ 1. , -1.5])
    """

    weight: ArrayLike = eqx.field(converter=number)

    def __check_init__(self) -> None:
        refuse_unless_weight(self)

    def value(self, x: Any) -> Any:
        return total(lambda leaf, weight: weight / 2 * (leaf**2).sum(), x, self.weight)

    def prox(self, x: Any, step: Any) -> Any:
        return each(lambda leaf, weight, s: leaf / (1 + s * weight), x, self.weight, step)


@checks.explain_init
class ElasticNet(Separable):
    """r(x) = l1 ‖x‖₁ + (l2/2) ‖x‖²; prox(x, step) = prox_{l1‖·‖₁}(x, step) / (1 + step·l2).

    Examples:
        >>> r = mvrc.ElasticNet(0.5, 1.0)
        >>> r.prox(np.array([2.0, -0.3]), 1.0)
        array([0.75, 0.  ])
    """

    l1: ArrayLike = eqx.field(converter=number)
    l2: ArrayLike = eqx.field(converter=number)

    def __check_init__(self) -> None:
        refuse_unless_weight(self, "l1")
        refuse_unless_weight(self, "l2")

    def value(self, x: Any) -> Any:
        return L1(self.l1).value(x) + L2(self.l2).value(x)

    def prox(self, x: Any, step: Any) -> Any:
        def shrink(leaf: Any, l1: Any, l2: Any, s: Any) -> Any:
            return _shrink(leaf, s * l1) / (1 + s * l2)

        return each(shrink, x, self.l1, self.l2, step)


class GroupL2(Regularizer):
    """r(x) = Σ_g weight_g ‖x_g‖; prox(x, step)_g = max(1 − step·weight_g/‖x_g‖, 0) x_g.

    Args:
        weight: one number, or an array with one number per group.
        groups: a partition of the coordinates of x (of all its arrays, in the order of
            `ravel_pytree`): a label per coordinate, as in [0, 0, 1, 1, 2], groups then being
            ordered by label; or lists of coordinates, as in [[0, 1], [2, 3], [4]].

    Examples:
        >>> r = mvrc.GroupL2(1.0, [0, 0, 1])
        >>> r.prox(np.array([3.0, 4.0, 0.5]), 1.0)
        Array([2.4, 3.2, 0. ], dtype=float32)
    """

    weight: ArrayLike = eqx.field(converter=number)
    labels: ArrayLike  # group number of each coordinate
    count: int = eqx.field(static=True)  # of groups

    @checks.explain_keywords
    def __init__(self, weight: Any, groups: Any) -> None:
        self.weight = weight
        self.labels, self.count = _partition(groups)

    def __check_init__(self) -> None:
        def holds(weight: np.ndarray) -> Any:
            return weight.shape in ((), (self.count,)) and np.all((weight >= 0) & (weight < np.inf))

        allowed = f"a finite number of at least 0, or an array of {self.count} such (one per group)"
        refuse_unless(self, "weight", holds, allowed)

    def check(self, x: Any) -> None:
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(x))
        if size != np.size(self.labels):
            raise ValueError(
                f"groups of GroupL2 cover {np.size(self.labels)} coordinates; they must cover "
                f"the {size} of x."
            )

    def value(self, x: Any) -> Any:
        vector, _ = ravel_pytree(x)
        return jnp.sum(jnp.asarray(self.weight, vector.dtype) * self._norms(vector))

    def prox(self, x: Any, step: Any) -> Any:
        def shrink(vector: jax.Array, weight: jax.Array, step: jax.Array) -> jax.Array:
            norms = jnp.maximum(self._norms(vector), jnp.finfo(vector.dtype).tiny)
            share = (weight / norms)[self.labels]
            return jnp.maximum(1 - step * share, 0) * vector

        steps = ravel_pytree(step)[0]
        return joint(shrink, x, self.weight, steps if steps.size > 1 else steps.reshape(()))

    def groups(self, x: Any) -> np.ndarray:
        return np.asarray(self.labels)

    def _norms(self, vector: jax.Array) -> jax.Array:
        return jnp.sqrt(jax.ops.segment_sum(vector**2, self.labels, self.count))


@checks.explain_init
class Nuclear(Regularizer):
    """r(X) = weight Σᵢ σᵢ(X) for a matrix X = U diag(σ) Vᵀ; the prox is that of L1 on σ.

    Examples:
        >>> r = mvrc.Nuclear(1.0)
        >>> r.prox(np.diag([3.0, 0.5]), 1.0)
        Array([[2., 0.],
               [0., 0.]], dtype=float32)
    """

    weight: ArrayLike = eqx.field(converter=number)

    def __check_init__(self) -> None:
        refuse_unless_weight(self)

    def check(self, x: Any) -> None:
        refuse_unless_axes(self, x, 2, "matrix")

    def value(self, x: Any) -> Any:
        return L1(self.weight).value(jnp.linalg.svd(x, compute_uv=False))

    def prox(self, x: Any, step: Any) -> Any:
        left, singular, right = jnp.linalg.svd(x, full_matrices=False)
        shrunk = L1(self.weight).prox(singular, one_step(step))
        return jnp.matmul(left * shrunk, right, precision="highest")


def _refuse_unless_all(r: Regularizer, name: str, allowed: str, holds: Any) -> None:
    """A sentence unless the field is a number, array or pytree of numbers for which it holds."""
    leaves = jax.tree.leaves(getattr(r, name))
    if any(isinstance(leaf, Tracer) for leaf in leaves):
        return  # not known yet
    arrays = [np.asarray(leaf) for leaf in leaves]
    real = [
        array.dtype.kind in "iuf" and not isinstance(leaf, int)
        for array, leaf in zip(arrays, leaves, strict=True)
    ]
    if not leaves or not all(real) or not all(np.all(holds(array)) for array in arrays):
        raise ValueError(
            f"{name} of {type(r).__name__} must be {allowed}, not {checks.shown(getattr(r, name))}."
        )


def _shrink(x: Any, threshold: Any) -> Any:
    return x - namespace(x).clip(x, -threshold, threshold)


def _partition(groups: Any) -> tuple[np.ndarray, int]:
    """Group numbers 0, 1, … of the coordinates, and how many groups there are."""
    try:
        nested = isinstance(groups, Sequence) and any(np.ndim(group) for group in groups)
        found = _from_lists(groups) if nested else _from_labels(groups)
    except (TypeError, ValueError):  # ragged, or nothing like an array
        found = None
    if found is None:
        raise ValueError(
            f"groups of GroupL2 must be an integer label per coordinate, or lists of "
            f"coordinates that name each of 0, …, d − 1 once, not {checks.shown(groups)}."
        )
    return found


def _from_labels(groups: Any) -> tuple[np.ndarray, int] | None:
    labels = np.asarray(groups)
    if labels.ndim != 1 or labels.size == 0 or labels.dtype.kind not in "iu":
        return None
    names, numbers = np.unique(labels, return_inverse=True)
    return numbers, names.size


def _from_lists(groups: Any) -> tuple[np.ndarray, int] | None:
    members = [np.asarray(group).ravel() for group in groups]
    if any(member.size and member.dtype.kind not in "iu" for member in members):
        return None
    every = np.concatenate(members).astype(int)
    if not np.array_equal(np.sort(every), np.arange(every.size)):
        return None
    numbers = np.empty(every.size, dtype=int)
    numbers[every] = np.repeat(np.arange(len(members)), [member.size for member in members])
    return numbers, len(members)
