"""Split a tree of modules into numbers (arguments of a compiled program) and the hashable rest."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any, NamedTuple

import jax
import numpy as np

from mvrc.support import settings


@dataclasses.dataclass(frozen=True)
class Static:
    """Structure, functions, sizes and words of a tree; equal trees share one compiled program.

    Functions are held weakly, so that what keeps a program does not keep the data that a user's
    function closes over. A tree can be joined again as long as the one that was split is there.
    """

    treedef: Any
    rest: tuple[Any, ...]  # leaves that are not numbers, by `weakly`; None where a number was


def partition(tree: Any, dtype: Any) -> tuple[list[Any], Static]:
    """Arrays as they are, Python floats as arrays of `dtype`, and everything else."""
    leaves, treedef = jax.tree_util.tree_flatten(tree)
    numbers = [_number(leaf, dtype) for leaf in leaves]
    rest = tuple(
        weakly(leaf) if number is None else None
        for leaf, number in zip(leaves, numbers, strict=True)
    )
    return [number for number in numbers if number is not None], Static(treedef, rest)


def combine(numbers: list[Any], static: Static) -> Any:
    """The inverse of `partition`."""
    remaining = iter(numbers)
    leaves = [next(remaining) if leaf is None else strongly(leaf) for leaf in static.rest]
    return jax.tree_util.tree_unflatten(static.treedef, leaves)


class Signature(NamedTuple):
    """What a compiled program depends on of its arguments; hashable."""

    treedef: Any
    leaves: tuple[tuple[tuple[int, ...], Any, Any], ...]  # shape, dtype, mesh and axes
    settings: tuple[Any, ...]  # JAX's, as far as they matter

    def specs(self) -> Any:
        """The arguments, with shapes and dtypes in the place of arrays."""
        leaves = [jax.ShapeDtypeStruct(shape, dtype, sharding=s) for shape, dtype, s in self.leaves]
        return jax.tree_util.tree_unflatten(self.treedef, leaves)


def signature(arguments: Any) -> Signature:
    leaves, treedef = jax.tree_util.tree_flatten(arguments)
    shapes = tuple((tuple(np.shape(leaf)), leaf.dtype, spread_over(leaf)) for leaf in leaves)
    return Signature(treedef, shapes, settings.traced_with())


def spread_over(leaf: Any) -> Any:
    """The devices of a mesh among which an array is shared out; None for any other."""
    sharding = getattr(leaf, "sharding", None)
    shared = isinstance(sharding, jax.sharding.NamedSharding) and any(sharding.spec)
    return sharding if shared else None


def weakly(leaf: Any) -> Any:
    """A weak reference to what equals only itself, as a function does; anything else as it is.

    Such a reference is as good a key: when its object is gone, nobody can ask for it any more.
    """
    kind = type(leaf)
    only_itself = kind.__eq__ is object.__eq__ and kind.__weakrefoffset__ > 0
    return weakref.ref(leaf) if only_itself else leaf


def strongly(leaf: Any) -> Any:
    """The inverse of `weakly`."""
    if not isinstance(leaf, weakref.ref):
        return leaf
    found = leaf()
    if found is None:
        raise ReferenceError("a problem was split, and deleted before it was joined again.")
    return found


def _number(leaf: Any, dtype: Any) -> Any:
    if isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return leaf
    return np.asarray(leaf, dtype) if isinstance(leaf, float) else None
