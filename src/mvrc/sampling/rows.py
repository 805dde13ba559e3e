"""Batches of rows: in order, at drawn indices, spread over all, in blocks."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from mvrc.compiler import rows
from mvrc.sampling.draws import Words, block_starts, indices, spread, turned
from mvrc.sampling.sizes import Amount
from mvrc.sampling.source import Batch

SAMPLING = ("replacement", "reshuffled")

# Indices of a whole epoch are drawn by the host up to this many (256 MiB); above it each step has a
# key, and draws its own.
_AT_ONCE = 2**26


def row_tickets(words: Words, sampling: str, count: int, steps: int, size: int) -> np.ndarray:
    """What tells the small batches of so many steps from `count` rows."""
    if sampling == "reshuffled":
        return block_starts(words, steps, size, count)
    return words.bits(steps) if steps * size > _AT_ONCE else words.indices(steps, size, count)


def small_batch(data: Any, sampling: str, count: Any, ticket: Any, size: int) -> Batch:
    """The batch of a ticket, from the first `count` rows."""
    if sampling == "reshuffled":
        return Block(data, ticket, size, count)
    if ticket.dtype == np.uint32:
        ticket = indices(jax.random.wrap_key_data(ticket), size, count)
    return Gathered(data, ticket, size)


@dataclasses.dataclass(frozen=True)
class Rows(Batch):
    """All rows of the arrays, in order, without a copy."""

    complete: ClassVar[bool] = True
    distinct: ClassVar[bool] = True

    data: Any
    size: Any
    length: int | None = None
    side: str = ""

    def piece(self, start: Any, length: int) -> Any:
        there = jax.tree_util.tree_leaves(self.data)[0].shape[0]
        return self.data if length == there else rows.cut(self.data, start, length, there)

    def amount(self) -> Any:
        return self.size if self.length is None else Amount(**{self.side: 1})

    def indices(self) -> Int[Array, " size"]:
        return jnp.arange(self.size, dtype=jnp.int32)

    def piece_limit(self) -> int:
        row = sum(a.nbytes // a.shape[0] for a in jax.tree_util.tree_leaves(self.data))
        return max(1, rows.PIECE // max(1, row))


@dataclasses.dataclass(frozen=True)
class Numbers(Batch):
    """Drawn indices themselves."""

    chosen: Int[Array, " size"]
    size: int
    distinct: bool = False  # type: ignore[misc]

    def piece(self, start: Any, length: int) -> Any:
        if length == self.size:
            return self.chosen
        return jax.lax.dynamic_slice_in_dim(self.chosen, start, length)

    def indices(self) -> Int[Array, " size"]:
        return self.chosen


@dataclasses.dataclass(frozen=True)
class Gathered(Batch):
    """Rows at drawn indices."""

    data: Any
    chosen: Int[Array, " size"]
    size: int

    def piece(self, start: Any, length: int) -> Any:
        return rows.gather(Numbers(self.chosen, self.size).piece(start, length), self.data)

    def indices(self) -> Int[Array, " size"]:
        return self.chosen


@dataclasses.dataclass(frozen=True)
class Spread(Batch):
    """Rows (first + i)·stride + shift mod count."""

    data: Any
    count: Any
    stride: Any
    shift: Any
    size: Any
    length: int | None = None
    first: Any = 0
    most: int | None = None

    def piece(self, start: Any, length: int) -> Any:
        place = (self.first + start + jnp.arange(length, dtype=jnp.int32)) % self.count
        there = jax.tree_util.tree_leaves(self.data)[0].shape[0]
        found = spread(place, self.stride, self.count, there)
        return rows.gather((found + self.shift) % self.count, self.data)


@dataclasses.dataclass(frozen=True)
class Block(Batch):
    """`size` contiguous rows from `first` on, wrapping round the end."""

    data: Any
    first: Int[Array, ""]
    size: int
    count: Any  # rows in all

    def piece(self, start: Any, length: int) -> Any:
        start = turned(self.first, start, self.count)
        known = isinstance(self.count, int)
        if known and self.count % self.size == 0 and length == self.size:
            return Rows(self.data, self.count).piece(start, length)

        def inside(start: Any, a: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(a, start, length)

        def over_the_end(start: Any, a: Array) -> Array:
            # The last rows joined to the first, and cut there.
            last = jax.lax.dynamic_slice_in_dim(a, self.count - length, length)
            joined = jnp.concatenate([last, a[:length]], axis=0)
            return jax.lax.dynamic_slice_in_dim(joined, start - (self.count - length), length)

        @jax.custom_batching.custom_vmap
        def wrapped(start: Any, a: Array) -> Array:
            return jax.lax.cond(start <= self.count - length, inside, over_the_end, start, a)

        @wrapped.def_vmap
        def _(seeds: int, batched: Any, starts: Any, a: Array) -> tuple[Array, bool]:
            # Slices at many starts are gathers anyway, and of a cond both branches would run.
            def one(start: Any, a: Array) -> Array:
                chosen = (start + jnp.arange(length, dtype=start.dtype)) % self.count
                return a.at[chosen].get(mode="promise_in_bounds")

            return jax.vmap(one, [0 if own else None for own in batched])(starts, a), True

        return jax.tree_util.tree_map(lambda a: wrapped(start, a), self.data)

    def indices(self) -> Int[Array, " size"]:
        return turned(self.first, jnp.arange(self.size, dtype=jnp.int32), self.count)
