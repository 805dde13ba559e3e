"""Arrays of the user's as a source."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np

from mvrc.sampling.draws import Words, stride_of
from mvrc.sampling.packed import packed
from mvrc.sampling.rows import SAMPLING as SAMPLING
from mvrc.sampling.rows import Gathered, Rows, Spread, row_tickets, small_batch
from mvrc.sampling.source import Batch, Source

_PIECE = 1024  # samples of a piece of a part whose size is traced


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
        return self.spread(most)

    def refresh_ticket(self, words: Words, size: int | None) -> Any:
        return None if size is None else words.indices(1, size, self.count)[0]

    def refresh(self, ticket: Any, size: int | None) -> Batch:
        return self.everything() if size is None else Gathered(self.data, ticket, size)

    def subsample(self, bits: Any, size: int, i: Any) -> Batch:
        if self.count <= size:
            return self.everything()
        first = (i % -(-self.count // size)) * size
        return Spread(self.data, self.count, stride_of(self.count), 0, size, first=first)

    def spread(self, size: Any, shift: Any = 0) -> Spread:
        stride, count = stride_of(self.count), self.count
        if isinstance(size, int):
            return Spread(self.data, count, stride, shift, size)
        length = min(_PIECE, 2 ** (count - 1).bit_length())
        return Spread(self.data, count, stride, shift, size, length)

    def packed(self, side: str, numbers: int) -> Source:
        return packed(self.data, self.sampling, side, numbers) or self

    def thinned(self, rows: int) -> ArraySource:
        chosen = np.sort(np.random.default_rng(0).choice(self.count, rows, replace=False))
        each = jax.tree_util.tree_map
        return ArraySource(each(lambda a: jax.device_put(a[chosen]), self.data), self.sampling)

    def tickets(self, words: Words, steps: int, size: int) -> Any:
        if size == self.count:
            return np.zeros(steps, np.int32)
        return row_tickets(words, self.sampling, self.count, steps, size)

    def small(self, ticket: Any, size: int) -> Batch:
        if size == self.count:
            return self.everything()
        return small_batch(self.data, self.sampling, self.count, ticket, size)
