"""What every regulariser is, and what several of them need: numbers, leaves, refusals."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree

from mvrc.support import checks
from mvrc.support.numerics import namespace


class Regularizer(eqx.Module):
    """r: x ↦ (−∞, +∞], convex and closed."""

    @abc.abstractmethod
    def value(self, x: Any) -> Any:
        """r(x), a scalar; +∞ outside a constraint set."""

    @abc.abstractmethod
    def prox(self, x: Any, step: Any) -> Any:
        """argmin_u r(u) + Σᵢ (uᵢ − xᵢ)² / (2 stepᵢ).

        `step` is one number; or a tree like x, with equal numbers where `groups` are equal.
        """

    def groups(self, x: Any) -> np.ndarray:
        """A label for each coordinate: those with the same one are coupled by r. All are, here."""
        return np.zeros(_size(x), int)

    def prox_derivative(self, image: Any) -> np.ndarray | None:
        """The derivative of the prox where its value is `image`, as a matrix on flat coordinates.

        None where the value does not tell it, or no formula is known.
        """
        return None

    @property
    def numpy(self) -> bool:
        """Whether value and prox compute with NumPy where x has NumPy's arrays."""
        return False

    def check(self, x: Any) -> None:
        """Raise a ValueError when r cannot be applied to x; called once, outside jit."""

    def __add__(self, other: Regularizer) -> Regularizer:
        from mvrc.regularizers.sums import add

        return add(self, other) if isinstance(other, Regularizer) else NotImplemented

    def __radd__(self, other: int) -> Regularizer:
        """0 + r = r, from which `sum` starts."""
        return self if isinstance(other, int) and other == 0 else NotImplemented


def number(value: Any) -> Any:
    """A Python float, or an array for several numbers: leaves, so that jit does not fix them."""
    try:
        kind = "given" if isinstance(value, jax.Array) else np.asarray(value).dtype.kind
    except ValueError:  # ragged lists
        return value
    if kind not in "iuf":
        return value
    return np.asarray(value) if np.ndim(value) else float(value)


def numbers(tree: Any) -> Any:
    """A bound or weight; a list of numbers is one array, a list of lists a pytree like x."""
    return jax.tree.map(number, tree, is_leaf=_is_flat_list)


def _is_flat_list(node: Any) -> bool:
    return isinstance(node, list) and all(isinstance(v, int | float) for v in node)


class Separable(Regularizer):
    """r is a sum over the coordinates; written for NumPy's and JAX's arrays alike."""

    def groups(self, x: Any) -> np.ndarray:
        return np.arange(_size(x))

    @property
    def numpy(self) -> bool:
        return True


def _size(x: Any) -> int:
    return sum(np.size(leaf) for leaf in jax.tree.leaves(x))


def one_step(step: Any) -> Any:
    """The step as one number, for an r that couples all coordinates."""
    first = jax.tree.leaves(step)[0]
    return first if np.ndim(first) == 0 else first.reshape(-1)[0]


def each(function: Callable, x: Any, *numbers: Any) -> Any:
    """function(leaf, *numbers) for every leaf, the numbers cast to its dtype.

    A number may be a tree like x, with an array for every leaf.
    """
    treedef: Any
    leaves, treedef = jax.tree_util.tree_flatten(x)
    structured = [jax.tree_util.tree_structure(value) == treedef for value in numbers]
    given = [
        treedef.flatten_up_to(value) if whole else [value] * len(leaves)
        for value, whole in zip(numbers, structured, strict=True)
    ]

    def on(leaf: Any, *numbers: Any) -> Any:
        xp = namespace(leaf, *numbers)
        leaf = xp.asarray(leaf)
        return function(leaf, *(xp.asarray(value, leaf.dtype) for value in numbers))

    return treedef.unflatten([on(*args) for args in zip(leaves, *given, strict=True)])


def total(function: Callable, x: Any, *numbers: Any) -> Any:
    """Σ function(leaf, *numbers) over the leaves."""
    sums = jax.tree.leaves(each(function, x, *numbers))
    return sums[0] if len(sums) == 1 else sum(sums)


def joint(function: Callable, x: Any, *numbers: Any) -> Any:
    """function(vector, *numbers) for the vector of all coordinates of x."""
    if isinstance(x, np.ndarray):
        return each(function, x.ravel(), *numbers).astype(x.dtype).reshape(x.shape)
    vector, unravel = ravel_pytree(x)
    return unravel(each(function, vector, *numbers).astype(vector.dtype))


def flat_numpy(x: Any) -> np.ndarray:
    """All coordinates of x, outside of jit."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(x)])


def refuse_unless(r: Regularizer, name: str, holds: Callable[..., Any], allowed: str) -> None:
    """A sentence unless the field is a number, or an array of them, for which it holds."""
    value = getattr(r, name)
    if isinstance(value, Tracer):
        return  # not known yet
    if not (_is_real(value) and holds(np.asarray(value))):
        owner = type(r).__name__
        raise ValueError(f"{name} of {owner} must be {allowed}, not {checks.shown(value)}.")


def refuse_unless_weight(r: Regularizer, name: str = "weight") -> None:
    """A sentence unless the field is a weight."""
    allowed = "a finite number of at least 0"
    refuse_unless(r, name, lambda w: w.ndim == 0 and 0 <= w < np.inf, allowed)


def refuse_unless_axes(r: Regularizer, x: Any, axes: int, noun: str) -> None:
    """A sentence unless x is one array with so many axes."""
    if not jax.tree_util.all_leaves([x]) or np.ndim(x) != axes:
        name = type(r).__name__
        raise ValueError(f"x of {name} must be one {noun} (ndim = {axes}), not {shapes(x)}.")


def shapes(x: Any) -> str:
    """'of shape …', in the structure of x."""
    return f"of shape {checks.cut(str(jax.tree.map(np.shape, x)))}"


def _is_real(value: Any) -> bool:
    if not isinstance(value, np.ndarray | jax.Array):
        return isinstance(value, float)
    return any(jax.dtypes.issubdtype(value.dtype, kind) for kind in (np.floating, np.integer))


def spread(bound: Any, tree: Any) -> Any:
    """A single number or array, repeated for every leaf of the tree."""
    return jax.tree.map(lambda _: bound, tree) if jax.tree_util.all_leaves([bound]) else bound


def fits(leaf: Any, bound: Any) -> bool:
    return np.broadcast_shapes(np.shape(leaf), np.shape(bound)) == np.shape(leaf)


def holds_for_all(holds: Callable[..., bool], *trees: Any) -> bool:
    """Whether it holds leaf by leaf, which trees of different structure do not."""
    structures: list[Any] = [jax.tree.structure(tree) for tree in trees]
    if any(structure != structures[0] for structure in structures):
        return False
    try:
        leaves = jax.tree.leaves(jax.tree.map(holds, *trees))
    except (TypeError, ValueError):  # not numbers, or not of one shape
        return False
    return bool(leaves) and all(leaves)
