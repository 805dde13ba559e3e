"""Who has which rows, and the collectives between those who have them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from mvrc.compiler import rows
from mvrc.sampling.draws import stride_of

# Standard deviations of the number of rows that one device has of those that are drawn, and rows on
# top, for which there is room: that it does not suffice has a chance below 10⁻¹⁷ (Bernstein).
_DEVIATIONS, _MORE = 9, 32


@dataclasses.dataclass(frozen=True)
class Holders:
    """K shards along an axis of a mesh, in their order; hashable.

    Args:
        mesh, axis: of the devices.
        starts: the first rows of all shards, and the number of rows.
    """

    mesh: Any
    axis: str
    starts: tuple[int, ...]

    @property
    def count(self) -> int:
        return self.starts[-1]

    @property
    def shards(self) -> int:
        return len(self.starts) - 1

    @property
    def devices(self) -> int:
        return int(self.mesh.shape[self.axis])

    def firsts(self) -> np.ndarray:
        """The first shards of the devices, and the number of shards."""
        return np.arange(self.devices + 1) * self.shards // self.devices

    def first_rows(self) -> np.ndarray:
        """Their first rows, and the number of rows."""
        return np.array(self.starts)[self.firsts()]

    def slots(self) -> int:
        """The shards of a device, at most."""
        return max(1, int(np.diff(self.firsts()).max()))

    def owned(self, device: int) -> int:
        """Shards of a device."""
        return int(self.firsts()[device + 1] - self.firsts()[device])

    def table(self, device: int) -> np.ndarray:
        """What `ShardedSource.table` has of a device."""
        first, after = self.firsts()[device : device + 2]
        starts, n = np.array(self.starts, object), self.count
        found = np.zeros((self.slots(), 6), np.uint32)
        for k in range(first, after):
            size = starts[k + 1] - starts[k]
            parts = [(starts[k] << 32) // n, ((starts[k + 1] << 32) // n) % 2**32]
            row = [starts[k] - starts[first], size, starts[k], stride_of(max(1, size)), *parts]
            found[k - first] = row
        return found

    def added(self, totals: list[Any]) -> list[Any]:
        """Sums of the shards of this device, slots × …, to the sums over all, in shard order."""
        firsts, slots = self.firsts(), self.slots()
        holder = np.searchsorted(firsts, np.arange(self.shards), "right") - 1
        place = holder * slots + np.arange(self.shards) - firsts[holder]
        found: list[Any] = [None] * len(totals)
        for dtype in sorted({str(t.dtype) for t in totals}):
            mine = [i for i, t in enumerate(totals) if str(t.dtype) == dtype]
            flat = jnp.concatenate([totals[i].reshape(slots, -1) for i in mine], axis=1)
            each = jax.lax.all_gather(flat, self.axis, tiled=True)[place]

            def add(total: Any, one: Any) -> tuple[Any, None]:
                return total + one, None

            whole = jax.lax.scan(add, jnp.zeros_like(each[0]), each)[0]
            ends = np.cumsum([math.prod(totals[i].shape[1:]) for i in mine])[:-1]
            for i, part in zip(mine, jnp.split(whole, ends), strict=True):
                found[i] = part.reshape(totals[i].shape[1:])
        return found

    def in_order(self, tables: list[Any], there: int) -> list[Any]:
        """Rows of all devices, each with so many, in the order of all rows."""
        first = self.first_rows()
        holder = np.searchsorted(first, np.arange(self.count), "right") - 1
        place = (holder * there + np.arange(self.count) - first[holder]).astype(np.int32)
        return [jax.lax.all_gather(t, self.axis, tiled=True)[place] for t in tables]


def exchanged(holders: Holders, data: Any, numbers: Any) -> tuple[Any, Any]:
    """Rows of these numbers, on every device: an array that has them, and their places in it.

    Each device sends those that it has, in one gather for each array of a row.
    """
    if holders.devices == 1:
        return data, numbers
    first = jnp.asarray(holders.first_rows(), jnp.int32)
    total = len(numbers)
    largest = float(np.diff(holders.first_rows()).max()) / holders.count
    room = largest * total + _DEVIATIONS * math.sqrt(largest * total) + _MORE
    room = min(total, int(room))
    holder = (jnp.searchsorted(first[1:-1], numbers, side="right")).astype(jnp.int32)
    each = holder[:, None] == jnp.arange(holders.devices, dtype=jnp.int32)
    rank = jnp.cumsum(each, axis=0, dtype=jnp.int32)
    rank = jnp.take_along_axis(rank, holder[:, None], axis=1)[:, 0] - 1
    me = jax.lax.axis_index(holders.axis)
    slot = jnp.where((holder == me) & (rank < room), rank, room)
    mine = jnp.zeros(room + 1, jnp.int32).at[slot].set(numbers - first[me], mode="drop")
    sent = rows.gather(mine[:room], data)
    here = jax.tree_util.tree_map(
        lambda a: jax.lax.all_gather(a, holders.axis, tiled=True), sent
    )  # fmt: skip
    return here, holder * room + jnp.minimum(rank, room - 1)


def rows_on(array: Any, holders: Holders, device: int) -> np.ndarray | None:
    """The part of an array that is on a device; None where that is another process's."""
    there = array.shape[0] // holders.devices
    for shard in array.addressable_shards:
        if (shard.index[0].start or 0) == device * there:
            return np.asarray(shard.data)
    return None


def added_up(array: np.ndarray) -> np.ndarray:
    """The sum over all processes."""
    if jax.process_count() == 1:
        return array
    return np.asarray(multihost_utils.process_allgather(array)).sum(axis=0, dtype=array.dtype)
