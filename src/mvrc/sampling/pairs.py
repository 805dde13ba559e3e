"""Outer samples, each with inner samples of its own: what a coupled problem draws."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.sampling.arrays import ArraySource
from mvrc.sampling.draws import Words, in_order
from mvrc.sampling.inside import Inside, Pair
from mvrc.sampling.rows import SAMPLING, Numbers
from mvrc.sampling.source import Batch, Source


@dataclasses.dataclass(frozen=True)
class Paired(Batch):
    """Outer samples, and for each the inner ones that were drawn, or all."""

    numbers: Batch  # of the outer samples
    source: PairSource
    key: Any = None  # of the inner draws; None: every inner sample

    @property
    def size(self) -> Any:
        return self.numbers.size

    @property
    def length(self) -> Any:  # type: ignore[override]
        return self.numbers.length

    @property
    def most(self) -> Any:  # type: ignore[override]
        return self.numbers.most

    @property
    def complete(self) -> bool:  # type: ignore[override]
        return self.numbers.complete and self.key is None

    def piece(self, start: Any, length: int) -> Pair:
        k, distinct = self.numbers.piece(start, length), self.numbers.distinct
        if self.key is None:
            return Pair(k, distinct=distinct)
        inside = self.source.inside.draw(self.key, start, k, self.source.inner_batch)
        return Pair(k, inside, distinct=distinct)

    def indices(self) -> Any:
        return self.numbers.samples()

    def piece_limit(self) -> int:
        return self.numbers.piece_limit()

    def amount(self) -> Any:
        """Evaluations of g: of pairs."""
        inside, N = self.source.inside, self.source.count
        if self.key is not None:
            return self.size * inside.each(self.source.inner_batch)
        return inside.pairs(N) * self.size // N if isinstance(self.size, int) else self.size

    def outside(self) -> Any:
        return self.size


class PairSource(Source):
    """Outer samples by number, each with inner samples of its own.

    Small batches draw distinct outer samples.

    Args:
        data: rows of the outer samples, one leading axis.
        inside: where the inner samples come from.
        inner_batch: how many a small batch draws for each outer sample.
    """

    data: Any
    inside: Inside
    inner_batch: int = eqx.field(static=True)
    rows: Any  # the numbers 0, …, N − 1

    def __init__(self, data: Any, inside: Inside, inner_batch: int) -> None:
        self.data, self.inside, self.inner_batch = data, inside, inner_batch
        count = jax.tree_util.tree_leaves(data)[0].shape[0]
        self.rows = jax.device_put(np.arange(count, dtype=np.int32))

    @property
    def count(self) -> int:
        return self.rows.shape[0]

    def _numbers(self) -> ArraySource:
        return ArraySource(self.rows, SAMPLING[0])

    def given(self) -> Any:
        return self.data

    def spec(self) -> Pair:
        return Pair(jax.ShapeDtypeStruct((), jnp.int32))

    def fingerprint(self) -> tuple[str, Any]:
        words = f"{type(self.inside).__name__}, {self.inner_batch} drawn"
        return words, (self.data, self.inside.fingerprint())

    def everything(self) -> Paired:
        return Paired(self._numbers().everything(), self)

    def part(self, most: int | None) -> Paired:
        return Paired(self._numbers().part(most), self)

    def refresh_ticket(self, words: Words, size: int | None) -> Any:
        return words.bits(1, 2)[0]

    def refresh(self, ticket: Any, size: int | None) -> Paired:
        own, inner = jax.random.wrap_key_data(ticket)
        drawn = inner if self.inside.drawn else None
        if size is None or size >= self.count:
            return Paired(self._numbers().everything(), self, drawn)
        return Paired(self._distinct(own, size), self, drawn)

    def subsample(self, bits: Any, size: int, i: Any) -> Paired:
        return Paired(self._numbers().subsample(bits, size, i), self)

    def spread(self, size: Any, shift: Any = 0) -> Paired:
        return Paired(self._numbers().spread(size, shift), self)

    def thinned(self, rows: int) -> Source:
        raise AssertionError("outer samples are few")

    def tickets(self, words: Words, steps: int, size: int) -> Any:
        return words.bits(steps, 2)

    def small(self, ticket: Any, size: int) -> Batch:
        whole = self.inner_batch >= self.inside.most() and not self.inside.drawn
        own, inner = jax.random.wrap_key_data(ticket)
        every = size == self.count
        numbers = self._numbers().everything() if every else self._distinct(own, size)
        return Paired(numbers, self, None if whole else inner)

    def _distinct(self, key: Any, size: int) -> Batch:
        chosen = in_order(key, jnp.arange(size, dtype=jnp.int32), self.count)
        return Numbers(chosen, size, distinct=True)
