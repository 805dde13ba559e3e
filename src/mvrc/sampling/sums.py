"""Batches of rows in shards: small ones that were exchanged, larger ones summed where they are.

Sums are made shard by shard, in pieces whose shape and place in the shard are the same on any
device, gathered, and added in the order of the shards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.extend import core
from jaxtyping import Array, Int

from mvrc.compiler import rows
from mvrc.sampling.draws import portion, spread, stride_of
from mvrc.sampling.exchange import exchanged
from mvrc.sampling.rows import Gathered
from mvrc.sampling.source import Batch, Samples


@dataclasses.dataclass(frozen=True)
class Held(Gathered):
    """Rows of a small batch that were exchanged ahead."""

    numbers: Any

    def indices(self) -> Int[Array, " size"]:
        return self.numbers


def held(here: Any, size: int) -> Callable[[Any], Batch]:
    return lambda ticket: Held(here, ticket[0], size, ticket[1])


@dataclasses.dataclass(frozen=True)
class InShards(Batch):
    """A batch that is summed where its rows are."""

    source: Any
    size: Any

    def at_once(self, most: int) -> bool:
        return False

    def in_one_piece(self, most: int) -> bool:
        return False

    def rows_of(self, shard: Any) -> Any:
        """How many rows of a shard are in the batch."""
        raise NotImplementedError

    def of_shard(self, shard: Any, start: Any, length: int) -> Samples:
        """A piece of them."""
        raise NotImplementedError

    def sum(self, part: Callable[[Samples], Any], most: int) -> Any:
        length = min(self.piece_length(), 2 ** (most.bit_length() - 1))
        source = self.source

        def piece(shard: Any, start: Any) -> Any:
            return part(self.of_shard(shard, start, length))

        zero = jnp.int32(0)
        table = source.table.astype(jnp.int32)
        traced, shapes = jax.make_jaxpr(piece, return_shape=True)(table[0], zero)
        leaves, tree = jax.tree_util.tree_flatten(shapes)

        def of_shard(k: Any, totals: list[Any]) -> list[Any]:
            shard = table[k]

            def add(i: Any, total: list[Any]) -> list[Any]:
                more = core.jaxpr_as_fun(traced)(shard, i * length)
                return [a + b for a, b in zip(total, more, strict=True)]

            zeros = [jnp.zeros(s.shape, s.dtype) for s in leaves]
            pieces = (self.rows_of(shard) + (length - 1)) // length
            total = jax.lax.fori_loop(0, pieces, add, zeros)
            return [t.at[k].set(a) for t, a in zip(totals, total, strict=True)]

        slots = len(source.table)
        totals = [jnp.zeros((slots, *s.shape), s.dtype) for s in leaves]
        totals = jax.lax.fori_loop(0, source.own[0], of_shard, totals)
        return jax.tree_util.tree_unflatten(tree, source.holders.added(totals))

    def piece_length(self) -> int:
        return self.source.length


@dataclasses.dataclass(frozen=True)
class Whole(InShards):
    """Every row."""

    complete: ClassVar[bool] = True

    def rows_of(self, shard: Any) -> Any:
        return shard[1]

    def of_shard(self, shard: Any, start: Any, length: int) -> Samples:
        # The last piece begins earlier, and what was seen before does not count: so it never
        # reaches into the next shard, and is the same wherever its shard lies.
        first = jnp.minimum(start, jnp.maximum(shard[1] - length, 0))
        place = first + jnp.arange(length, dtype=jnp.int32)
        data = self.source.data
        there = jax.tree_util.tree_leaves(data)[0].shape[0]
        found = rows.cut(data, shard[0] + first, length, there)
        return Samples(found, (place >= start) & (place < shard[1]))

    def piece(self, start: Any, length: int) -> Any:
        return fetched(self.source, start + jnp.arange(length, dtype=jnp.int32))

    def indices(self) -> Any:
        return jnp.arange(self.size, dtype=jnp.int32)

    def each(self, function: Callable[[Any], Any]) -> Any:
        """What a function makes of each row, in the order of all rows; on every device."""
        source, length = self.source, self.source.length
        there = jax.tree_util.tree_leaves(source.data)[0].shape[0]
        cut = lambda i: rows.cut(source.data, i, length, there)  # noqa: E731
        leaves, tree = jax.tree_util.tree_flatten(jax.eval_shape(lambda: function(cut(0))))

        def of_shard(k: Any, table: list[Any]) -> list[Any]:
            first, size = source.table[k, :2].astype(jnp.int32)

            def put(i: Any, table: list[Any]) -> list[Any]:
                place = first + jnp.minimum(i * length, jnp.maximum(size - length, 0))
                new = jax.tree_util.tree_leaves(function(cut(place)))
                put = jax.lax.dynamic_update_slice_in_dim
                return [put(t, a, place, 0) for t, a in zip(table, new, strict=True)]

            return jax.lax.fori_loop(0, (size + (length - 1)) // length, put, table)

        table = [jnp.zeros((there, *s.shape[1:]), s.dtype) for s in leaves]
        table = jax.lax.fori_loop(0, source.own[0], of_shard, table)
        return jax.tree_util.tree_unflatten(tree, source.holders.in_order(table, there))


@dataclasses.dataclass(frozen=True)
class Shares(InShards):
    """So many rows, of each shard its share, spread over it.

    Of a shard with m of n rows they are the rows (i·share + j)·stride + shift mod m.
    """

    shift: Any
    i: Any

    def rows_of(self, shard: Any) -> Any:
        before, until = shard[4:].astype(jnp.uint32)
        last = shard[2] + shard[1] == self.source.count
        above = jnp.where(last, self.size, portion(until, self.size))
        share = above - portion(before, self.size)
        return jnp.where(self.size == self.source.count, shard[1], share)

    def of_shard(self, shard: Any, start: Any, length: int) -> Samples:
        share, m = self.rows_of(shard), jnp.maximum(shard[1], 1)
        place = start + jnp.arange(length, dtype=jnp.int32)
        turn = spread(self.i % m, share, m, self.source.count)
        found = spread((turn + place) % m, shard[3], m, self.source.count)
        chosen = shard[0] + (found + self.shift % m) % m
        return Samples(rows.gather(chosen, self.source.data), place < share)

    def piece(self, start: Any, length: int) -> Any:
        """For a few: rows spread over all, but not those of the sum."""
        count = self.source.count
        place = start + jnp.arange(length, dtype=jnp.int32)
        chosen = (spread(place % count, stride_of(count), count, count) + self.shift) % count
        return fetched(self.source, chosen)


@dataclasses.dataclass(frozen=True)
class Chosen(InShards):
    """Rows at drawn numbers; too many to be sent around."""

    drawn: Any
    ordered: Any  # the same, sorted

    def piece_length(self) -> int:
        each = max(1, self.size // (2 * self.source.holders.shards))
        return min(self.source.length, max(16, 2 ** (each.bit_length() - 1)))

    def indices(self) -> Any:
        return self.drawn

    def piece(self, start: Any, length: int) -> Any:
        drawn = self.drawn
        if length != self.size:
            drawn = jax.lax.dynamic_slice_in_dim(drawn, start, length)
        return fetched(self.source, drawn)

    def rows_of(self, shard: Any) -> Any:
        first, last = self._between(shard)
        return last - first

    def of_shard(self, shard: Any, start: Any, length: int) -> Samples:
        first, last = self._between(shard)
        place = first + start + jnp.arange(length, dtype=jnp.int32)
        found = self.ordered.at[jnp.minimum(place, self.size - 1)].get()
        chosen = shard[0] + jnp.clip(found - shard[2], 0, jnp.maximum(shard[1] - 1, 0))
        return Samples(rows.gather(chosen, self.source.data), place < last)

    def _between(self, shard: Any) -> tuple[Any, Any]:
        """The places of a shard's rows among all in order."""
        bounds = jnp.stack([shard[2], shard[2] + shard[1]])
        first, last = jnp.searchsorted(self.ordered, bounds)
        return first.astype(jnp.int32), last.astype(jnp.int32)


def chosen(source: Any, drawn: Any) -> Chosen:
    return Chosen(source, len(drawn), drawn, jnp.sort(drawn))


def fetched(source: Any, numbers: Any) -> Any:
    """Rows by number, on every device."""
    here, places = exchanged(source.holders, source.data, numbers)
    return rows.gather(places, here)
