"""A table with a row for every sample: read, written in place, each row once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from mvrc.compiler import rows
from mvrc.oracle import Vector

# Rows for one of a batch up to which a board of all rows is cleared sooner than a batch is sorted.
_BOARD = 1024


def read(table: Vector, chosen: Int[Array, " s"]) -> Vector:
    """Rows of the table, flattened: XLA reads and writes rows of one axis faster than of two."""
    return table.reshape(len(table), -1).at[chosen].get(mode="promise_in_bounds")


def put(table: Vector, chosen: Int[Array, " s"], new: Vector) -> Vector:
    """The table with new rows.

    The rows written depend on the rows read (a NaN would stay), or else XLA, which does not know
    that all reading comes first, copies the whole table at every step.
    """
    old = read(table, chosen)
    new = jnp.broadcast_to(new, (len(chosen), *table.shape[1:])).reshape(old.shape)
    written = jnp.where(jnp.isnan(old), old, new)
    flat = table.reshape(len(table), -1)
    return rows.put(chosen, written, flat).reshape(table.shape)


def one_of_each(indices: Int[Array, " s"], count: int) -> Bool[Array, " s"]:
    """Marks one occurrence of every distinct index below `count`."""
    if count <= _BOARD * len(indices):  # every index writes its place: the last stays
        places = jnp.arange(len(indices), dtype=jnp.int32)
        board = jnp.zeros(count, jnp.int32).at[indices].set(places, mode="promise_in_bounds")
        return board.at[indices].get(mode="promise_in_bounds") == places
    order = jnp.argsort(indices)
    ranked = indices[order]
    is_new = jnp.concatenate([jnp.array([True]), ranked[1:] != ranked[:-1]])
    return jnp.zeros_like(is_new).at[order].set(is_new)


def shared(new: Vector, indices: Int[Array, " s"]) -> Vector:
    """The new rows, where an index is there more than once their mean."""
    if len(indices) <= 64:
        same = (indices[:, None] == indices).astype(new.dtype)
        return same @ new / same.sum(axis=1, keepdims=True)
    _, place = jnp.unique(indices, return_inverse=True, size=len(indices))
    total = jax.ops.segment_sum(new, place, len(indices))
    count = jax.ops.segment_sum(jnp.ones(len(indices), new.dtype), place, len(indices))
    return (total / jnp.maximum(count, 1)[:, None])[place]
