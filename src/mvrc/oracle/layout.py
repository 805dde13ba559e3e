"""Layout: how a pytree of arrays lies in one flat vector. The engine works on vectors only."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Layout:
    """Hashable, so that it can be a static argument of a compiled function.

    Unlike `jax.flatten_util.ravel_pytree`, two equal trees give equal (not merely equivalent)
    layouts, which is what keeps one compiled program for all calls.
    """

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]
    dtype: np.dtype  # of the vector

    @classmethod
    def of(cls, tree: Any, dtype: Any = None) -> Layout:
        """The layout of a tree of arrays or shape structs; the vector's dtype may be imposed."""
        leaves, treedef = jax.tree_util.tree_flatten(tree)
        dtypes = tuple(np.dtype(leaf.dtype) for leaf in leaves)
        if dtype is None:
            dtype = np.result_type(*dtypes)
        return cls(treedef, tuple(tuple(leaf.shape) for leaf in leaves), dtypes, np.dtype(dtype))

    @property
    def size(self) -> int:
        """Length of the vector."""
        return sum(math.prod(shape) for shape in self.shapes)

    def specs(self) -> Any:
        """The tree with shapes and dtypes in the place of arrays."""
        pairs = zip(self.shapes, self.dtypes, strict=True)
        leaves = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in pairs]
        return jax.tree_util.tree_unflatten(self.treedef, leaves)

    def flatten(self, tree: Any) -> jax.Array:
        """Tree to vector."""
        leaves = jax.tree_util.tree_leaves(tree)
        # NumPy's own operations where they do: each of JAX's is a program to compile.
        xp: Any = np if all(isinstance(leaf, np.ndarray) for leaf in leaves) else jnp
        leaves = [xp.ravel(leaf).astype(self.dtype) for leaf in leaves]
        return jnp.asarray(leaves[0] if len(leaves) == 1 else xp.concatenate(leaves))

    def unflatten(self, vector: Any) -> Any:
        """Vector to tree; works on NumPy and on JAX vectors."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        parts = [vector] if len(self.shapes) == 1 else np_or_jnp(vector).split(vector, ends)
        leaves = [
            part.reshape(shape).astype(dtype)
            for part, shape, dtype in zip(parts, self.shapes, self.dtypes, strict=True)
        ]
        return jax.tree_util.tree_unflatten(self.treedef, leaves)


def np_or_jnp(array: Any) -> Any:
    """The namespace that an array belongs to."""
    return np if isinstance(array, np.ndarray) else jnp
