"""How rows of large arrays are copied: as one run, by one thread, and fetched ahead."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from mvrc.support import tricks

# Rows of data larger than a processor's cache are fetched before they are copied: of each row the
# first lines, as processors fetch the next ones of a long row by themselves.
_CACHE, _LINE, _LINES = 2**22, 64, 8

_INT32 = 2**31 - 1  # the largest 32-bit integer

# Bytes of rows in order that are copied at a time: they fit the cache, and are copied there by one
# thread, as XLA splits larger copies, whose parts then wait for each other.
PIECE = 2**18


def cut(data: Any, start: Any, length: int, size: int) -> Any:
    """Rows from `start` on, copied as one run of numbers: row by row takes half as long again."""
    each = jax.tree_util.tree_map
    if not tricks.on("runs"):
        return each(lambda a: jax.lax.dynamic_slice_in_dim(a, start, length), data)
    # Where a number's place exceeds an index of 32 bits, rows are counted instead.
    width = each(lambda a: 1 if a.size > _INT32 else a.size // size, data)
    runs = each(lambda a: a if a.size > _INT32 else a.reshape(-1), data)
    first = each(lambda w: start * w, width)

    def cut() -> Any:
        slices = jax.lax.dynamic_slice_in_dim
        return each(lambda run, i, w: slices(run, i, length * w), runs, first, width)

    def top() -> Any:
        return each(lambda run, w: run[: length * w], runs, width)

    def rows() -> Any:
        cuts = jax.lax.cond(start >= 0, cut, top)
        return each(lambda c, a: c.reshape(length, *a.shape[1:]), cuts, data)

    # Branches that are always taken: the inner one keeps the copy a plain run, the outer one the
    # rows whole. XLA then multiplies them by its fast kernels, instead of cutting or folding them
    # anew inside a slow loop for every product.
    return jax.lax.cond(start < size, rows, lambda: each(lambda a: a[:length], data))


def gather(chosen: Int[Array, " size"], data: Any) -> Any:
    """Rows at some indices, all of which are in bounds."""
    return _gathered(chosen, data) if tricks.on("branch") else _take(chosen, data)


def _take(chosen: Any, data: Any) -> Any:
    return jax.tree_util.tree_map(lambda a: a.at[chosen].get(mode="promise_in_bounds"), data)


@jax.custom_batching.custom_vmap
def _gathered(chosen: Int[Array, " size"], data: Any) -> Any:
    """Rows at some indices, by one thread.

    A branch that is always taken: outside of one XLA splits the rows of a small batch among its
    threads, which costs more than the copy.
    """
    few = jax.tree_util.tree_map(lambda a: jnp.zeros((len(chosen), *a.shape[1:]), a.dtype), data)
    leaves = jax.tree_util.tree_leaves(data)
    large = [a for a in leaves if a.nbytes > _CACHE and tricks.on("prefetch")]
    touched = sum(_touched(chosen, a) for a in large)
    always = (chosen[0] >= 0) & (touched >= 0)
    return jax.lax.cond(always, lambda: _take(chosen, data), lambda: few)


def _touched(chosen: Int[Array, " size"], a: Array) -> Any:
    """A count that needs a number of the rows' first cache lines, so that they are fetched.

    Memory is asked for many of these at once, for rows that are copied for a few only.
    """
    numbers = a.reshape(a.shape[0], -1)
    width = numbers.shape[1]
    places = {*range(0, width, max(1, _LINE // a.dtype.itemsize)), width - 1}
    first = np.array(sorted(places)[:_LINES], np.int32)
    found = numbers.at[chosen[:, None], first].get(mode="promise_in_bounds")
    return jnp.sum(found != 0, dtype=jnp.int32)


@_gathered.def_vmap
def _(seeds: int, batched: Any, chosen: Any, data: Any) -> tuple[Any, Any]:
    # Of a cond both branches would run. Data may have an axis of seeds too, inside of one.
    axes = jax.tree_util.tree_map(lambda own: 0 if own else None, batched)
    return jax.vmap(_take, axes)(chosen, data), jax.tree_util.tree_map(lambda _: True, data)
