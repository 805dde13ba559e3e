"""Arrays of the user's: rows in order, at drawn indices, in blocks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from mvrc.compiler import rows
from mvrc.sampling.draws import block_starts, indices, turned
from mvrc.sampling.source import Batch, Draws, Source

SAMPLING = ("replacement", "reshuffled")

# Indices of a whole epoch are drawn at once up to this many (4 MiB), step by step above it.
_AT_ONCE = 2**20


class ArraySource(Source):
    """Rows of a pytree of arrays with one leading axis.

    Args:
        data: the arrays.
        sampling: "replacement" (independent indices) or "reshuffled" (contiguous blocks of rows,
            each pass over all blocks in a new random order).
    """

    data: Any
    sampling: str = eqx.field(static=True)

    @property
    def count(self) -> int:
        return jax.tree_util.tree_leaves(self.data)[0].shape[0]

    def given(self) -> Any:
        return self.data

    def spec(self) -> Any:
        each = jax.tree_util.tree_map
        return each(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), self.data)

    def fingerprint(self) -> tuple[str, Any]:
        return self.sampling, self.data

    def everything(self) -> Rows:
        return Rows(self.data, self.count)

    def part(self, most: int | None) -> Batch:
        if most is None or most >= self.count:
            return self.everything()
        return self.scattered(most, 0)(0)

    def refresh(self, key: Any, size: int | None) -> Batch:
        if size is None or size == self.count:
            return self.everything()
        return Gathered(self.data, indices(key, size, self.count), size)

    def subsample(self, key: Any, size: int, i: Any) -> Batch:
        if self.count <= size:
            return self.everything()
        return self.scattered(size, 0)(i % -(-self.count // size))

    def scattered(self, rows: int, shift: Any) -> Callable[[Any], Batch]:
        data, count = self.data, self.count
        stride = next(
            a for a in range(int(0.618 * count) + 1, count + 2) if math.gcd(a, count) == 1
        )
        within = np.arange(rows, dtype=np.int64) * stride % count
        firsts = np.arange(-(-count // rows), dtype=np.int64) * (rows * stride) % count
        places, starts = jnp.asarray(within, jnp.int32), jnp.asarray(firsts, jnp.int32)
        return lambda i: Gathered(data, ((places + starts[i]) % count + shift) % count, rows)

    def thinned(self, rows: int) -> ArraySource:
        chosen = np.sort(np.random.default_rng(0).choice(self.count, rows, replace=False))
        each = jax.tree_util.tree_map
        return ArraySource(each(lambda a: jax.device_put(a[chosen]), self.data), self.sampling)

    def draws(self, key: Any, steps: int, size: int) -> Draws:
        data, count, times = self.data, self.count, jnp.arange(steps)
        if size == count:
            return times, lambda t: Rows(data, count)
        if self.sampling == "reshuffled":
            starts = block_starts(key, steps, size, count)
            return starts, lambda first: Block(data, first, size, count)

        def chosen(t: Any) -> Any:
            return indices(jax.random.fold_in(key, t), size, count)

        if steps * size > _AT_ONCE:
            return times, lambda t: Gathered(data, chosen(t), size)
        return jax.vmap(chosen)(times), lambda found: Gathered(data, found, size)


@dataclasses.dataclass(frozen=True)
class Rows(Batch):
    """All rows of the arrays, in order, without a copy."""

    complete: ClassVar[bool] = True

    data: Any
    size: int

    def piece(self, start: Any, length: int) -> Any:
        if length == self.size:
            return self.data
        return rows.cut(self.data, start, length, self.size)

    def indices(self) -> Int[Array, " size"]:
        return jnp.arange(self.size, dtype=jnp.int32)

    def piece_limit(self) -> int:
        row = sum(a.nbytes // a.shape[0] for a in jax.tree_util.tree_leaves(self.data))
        return max(1, rows.PIECE // max(1, row))


@dataclasses.dataclass(frozen=True)
class Gathered(Batch):
    """Rows at drawn indices."""

    data: Any
    chosen: Int[Array, " size"]
    size: int

    def piece(self, start: Any, length: int) -> Any:
        chosen = self.chosen
        if length != self.size:
            chosen = jax.lax.dynamic_slice_in_dim(chosen, start, length)
        return rows.gather(chosen, self.data)

    def indices(self) -> Int[Array, " size"]:
        return self.chosen


@dataclasses.dataclass(frozen=True)
class Block(Batch):
    """`size` contiguous rows from `first` on, wrapping round the end."""

    data: Any
    first: Int[Array, ""]
    size: int
    count: int  # rows in all

    def piece(self, start: Any, length: int) -> Any:
        start = turned(self.first, start, self.count)
        if self.count % self.size == 0 and length == self.size:
            return Rows(self.data, self.count).piece(start, length)

        def inside(start: Any, a: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(a, start, length)

        def over_the_end(start: Any, a: Array) -> Array:
            # The last rows joined to the first, and cut there.
            joined = jnp.concatenate([a[-length:], a[:length]], axis=0)
            return jax.lax.dynamic_slice_in_dim(joined, start - (self.count - length), length)

        @jax.custom_batching.custom_vmap
        def wrapped(start: Any, a: Array) -> Array:
            return jax.lax.cond(start <= self.count - length, inside, over_the_end, start, a)

        @wrapped.def_vmap
        def _(seeds: int, batched: Any, starts: Any, a: Array) -> tuple[Array, bool]:
            # Slices at many starts are gathers anyway, and of a cond both branches would run.
            chosen = (starts[:, None] + jnp.arange(length, dtype=starts.dtype)) % self.count
            return a.at[chosen].get(mode="promise_in_bounds"), True

        return jax.tree_util.tree_map(lambda a: wrapped(start, a), self.data)

    def indices(self) -> Int[Array, " size"]:
        return turned(self.first, jnp.arange(self.size, dtype=jnp.int32), self.count)
