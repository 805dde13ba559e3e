"""Rows in K logical shards, held by the devices of a mesh, of one process or of many.

Programs run on every device alike (`compiler/quick.py` puts them under `shard_map`), each with the
rows of its shards. How many devices there are changes no bit of a sum (`sums.py`).
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt32

from mvrc.compiler import quick
from mvrc.sampling.arrays import ArraySource
from mvrc.sampling.draws import Words, indices
from mvrc.sampling.exchange import Holders, added_up, exchanged, rows_on
from mvrc.sampling.rows import SAMPLING, row_tickets
from mvrc.sampling.source import Batch, Draws, Source
from mvrc.sampling.sums import Shares, Whole, chosen, fetched, held
from mvrc.support import cache
from mvrc.support.partition import Signature, Static, combine, partition, signature

# Rows that are read at a time; a smaller shard is followed by rows that do not count.
MOST = 1024

# A batch of so many bytes is summed where its rows are: below it the rows of all steps of an epoch
# are exchanged ahead, which is one collective an epoch and not one a step, if they fit the second.
LARGE, AHEAD = 2**18, 2**26

_NUMBERS, _LEAST = 2**15, 32  # of a piece, as in `packed.py`


class ShardedSource(Source):
    """Rows of K shards, each on one of the devices along an axis of a mesh.

    Args:
        data: the rows of each device, one shard after another, then rows that do not count.
        table: of each shard of a device its first row there, how many there are, its first row of
            all, its stride, and which parts of 2³² of all rows are before it and up to its end;
            padded to as many shards on each device.
        own: shards of each device.
        holders: who has which rows.
    """

    data: Any
    table: UInt32[Array, "shards 6"]
    own: Int[Array, " D"]
    holders: Holders = eqx.field(static=True)
    length: int = eqx.field(static=True, default=256)  # rows of a piece, a power of two

    @property
    def count(self) -> int:
        return self.holders.count

    def given(self) -> Any:
        return self

    def spec(self) -> Any:
        each = jax.tree_util.tree_map
        return each(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), self.data)

    def sampled(self, sampling: str) -> Source:
        if sampling != SAMPLING[0]:
            raise ValueError(
                f"sampling is {sampling!r}, which is not for rows in shards; it may be "
                f"{SAMPLING[0]!r}."
            )
        return self

    def devices(self) -> list[Any]:
        return list(self.holders.mesh.devices.flat)

    def fingerprint(self) -> tuple[str, Any]:
        return f"in {self.holders.shards} shards", self._checksums()

    def _checksums(self) -> np.ndarray:
        """Of each shard, from those who have them."""
        found = np.zeros(self.holders.shards, np.uint32)
        leaves = jax.tree_util.tree_leaves(self.data)
        for device, first in enumerate(self.holders.firsts()[:-1]):
            parts = [rows_on(a, self.holders, device) for a in leaves]
            local = [a for a in parts if a is not None]  # none, or all of them
            table = self.holders.table(device)
            for k, (start, size, *_) in enumerate(table[: self.holders.owned(device)]):
                for a in local:
                    there = np.ascontiguousarray(a[start : start + size]).reshape(-1)
                    found[first + k] = zlib.crc32(there.view(np.uint8).data, int(found[first + k]))
        return added_up(found)

    def packed(self, side: str, numbers: int) -> Source:
        length = 2 ** max(_LEAST, min(MOST, _NUMBERS // max(1, numbers))).bit_length() // 2
        return dataclasses.replace(self, length=length)

    def everything(self) -> Batch:
        return Whole(self, self.count)

    def part(self, most: int | None) -> Batch:
        return self.everything() if most is None or most >= self.count else self.spread(most)

    def refresh_ticket(self, words: Words, size: int | None) -> Any:
        return None if size is None else words.indices(1, size, self.count)[0]

    def refresh(self, ticket: Any, size: int | None) -> Batch:
        return self.everything() if size is None else chosen(self, ticket)

    def subsample(self, bits: Any, size: int, i: Any) -> Batch:
        return self.everything() if self.count <= size else Shares(self, size, 0, i)

    def spread(self, size: Any, shift: Any = 0) -> Batch:
        return Shares(self, size, shift, 0)

    def tickets(self, words: Words, steps: int, size: int) -> Any:
        if size == self.count:
            return np.zeros(steps, np.int32)
        return row_tickets(words, SAMPLING[0], self.count, steps, size)

    def small(self, ticket: Any, size: int) -> Batch:
        raise AssertionError("all small batches of an epoch are exchanged together")

    def epoch(
        self, refresh: Mapping[str, Any], small: Mapping[str, Any]
    ) -> tuple[dict[str, Batch], Callable[[Any], dict[str, Draws]]]:
        """Small batches of all roles are exchanged at once."""
        batches = {role: self.refresh(*given) for role, given in refresh.items()}
        drawn = {role: self._chosen(*given) for role, given in small.items()}

        def draws(after: Any) -> dict[str, Draws]:
            found: dict[str, Draws] = {}
            ahead: dict[str, int] = {}
            for role, (tickets, size) in small.items():
                if size == self.count:
                    found[role] = tickets, lambda t: self.everything()
                elif self._is_large(size, len(tickets)):
                    found[role] = drawn[role], lambda t: chosen(self, t)
                else:
                    ahead[role] = size
            if ahead:
                flat = [drawn[role].reshape(-1) for role in ahead]
                here, places = exchanged(self.holders, self.data, jnp.concatenate(flat))
                parts = jnp.split(places, np.cumsum([len(a) for a in flat])[:-1])
                for (role, size), part in zip(ahead.items(), parts, strict=True):
                    tickets = part.reshape(-1, size), drawn[role]
                    found[role] = tickets, held(here, size)
            return found

        return batches, draws

    def _chosen(self, tickets: Any, size: int) -> Any:
        """Numbers of rows, steps × size."""
        if tickets.dtype != np.uint32:
            return tickets
        keys = jax.random.wrap_key_data(tickets)
        return jax.vmap(lambda key: indices(key, size, self.count))(keys)

    def _is_large(self, size: int, steps: int) -> bool:
        bytes_ = size * self.bytes_of_row()
        return bytes_ >= LARGE or steps * bytes_ > AHEAD

    def bytes_of_row(self) -> int:
        leaves = jax.tree_util.tree_leaves(self.spec())
        return sum(math.prod(a.shape) * a.dtype.itemsize for a in leaves)

    def numbered(self, numbers: np.ndarray) -> Any:
        """Rows by number, asked outside of programs."""
        given = partition(self, np.float32), np.asarray(numbers, np.int32)
        (leaves, static), numbers = given
        program = _fetch(static, signature((leaves, numbers)))
        return jax.tree_util.tree_map(np.asarray, program(leaves, numbers))

    def thinned(self, rows: int) -> Source:
        chosen = np.sort(np.random.default_rng(0).choice(self.count, rows, replace=False))
        return ArraySource(
            jax.tree_util.tree_map(jax.device_put, self.numbered(chosen)), SAMPLING[0]
        )


@cache.remember
def _fetch(static: Static, given: Signature) -> Any:
    def fetch(leaves: Any, numbers: Any) -> Any:
        return fetched(combine(leaves, static), numbers)

    return quick.Program(fetch, given.specs())
