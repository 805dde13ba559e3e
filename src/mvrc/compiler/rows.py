"""How rows of large arrays are copied: as one run, by one thread, and fetched ahead."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
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

# The fused loop cannot hold XLA's scatter. It can hold a loop over rows instead, which is as fast
# up to about so many numbers of a row; outside of it XLA might copy the table for such a loop.
_NARROW = 256
_one_by_one: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("one", default=None)


@contextlib.contextmanager
def one_by_one() -> Iterator[list[Any]]:
    """Rows of tables are written one after another in what is traced inside; gives their shapes."""
    written: list[Any] = []
    token = _one_by_one.set(written)
    try:
        yield written
    finally:
        _one_by_one.reset(token)


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


def put(chosen: Int[Array, " size"], new: Array, table: Array) -> Array:
    """The table with new rows at some indices, the last where an index is there again."""
    written = _one_by_one.get()
    if written is not None and table.size <= _NARROW * len(table):
        written.append(table.shape)
        return _put_one_by_one(chosen, new, table)
    return table.at[chosen].set(new, mode="promise_in_bounds")


def _put_one_by_one(chosen: Any, new: Array, table: Array) -> Array:
    def one(table: Array, row: Any) -> tuple[Array, None]:
        index, values = row
        start = (index, *(jnp.zeros_like(index) for _ in table.shape[1:]))
        return jax.lax.dynamic_update_slice(table, values[None], start), None

    return jax.lax.scan(one, table, (chosen, new))[0]


@jax.custom_batching.custom_vmap
def _gathered(chosen: Int[Array, " size"], data: Any) -> Any:
    """Rows at some indices, by one thread.

    A branch that is always taken: outside of one XLA splits the rows of a small batch among its
    threads, which costs more than the copy.
    """
    few = jax.tree_util.tree_map(lambda a: jnp.zeros((len(chosen), *a.shape[1:]), a.dtype), data)
    leaves = jax.tree_util.tree_leaves(data)
    large = [a for a in leaves if _is_far(a) and tricks.on("prefetch")]
    touched = sum(_touched(chosen, a) for a in large)
    always = (chosen[0] >= 0) & (touched >= 0)
    return jax.lax.cond(always, lambda: _take(chosen, data), lambda: few)


def _is_far(a: Array) -> bool:
    """Whether it is not in the cache, and a row is more than the line that its copy asks for."""
    return a.nbytes > _CACHE and a.nbytes > _LINE * len(a)


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
