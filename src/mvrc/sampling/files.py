"""`File` and `Host`: rows that lie in files, or that functions of the user's make."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.sampling.arrays import ArraySource
from mvrc.sampling.draws import Words, block_starts, turned
from mvrc.sampling.fed import FedSource, Handed, shapes_of
from mvrc.sampling.opening import reader_of
from mvrc.sampling.readers import Made, Reader
from mvrc.sampling.reading import Reading
from mvrc.sampling.rows import SAMPLING
from mvrc.sampling.source import Batch, Draws
from mvrc.support import checks, feeding

# Bytes of the small batches of an epoch up to which any rows may be in them; they are held twice,
# by the host and by the program.
BUDGET = 2**27

_MOST = 2**31 - 1  # rows: their numbers have 32 bits
_GLANCED = 1024  # rows that a run that goes on must find again


class ReadSource(FedSource):
    """Rows of a `Reader`.

    A pass reads the rows in order, chunk by chunk. The rows of an epoch's small batches are picked
    while the pass of its refresh goes by, as long as they fit a budget; beyond it a batch is a
    contiguous block, drawn as with `sampling="reshuffled"`.
    """

    sampling: str = eqx.field(static=True)
    budget: int = eqx.field(static=True)

    def _begin(self, name: str, reader: Reader, budget: int) -> None:
        if not 2 <= reader.count <= _MOST:
            raise ValueError(
                f"{name} has {reader.count:,} rows; it may have from 2 to {_MOST:,}, or its rows "
                f"must be larger, as with several samples in one."
            )
        self.feed = Reading(reader)
        self.sampling = SAMPLING[0]
        self.budget = checks.integer("budget", budget)

    def given(self) -> Any:
        return self

    def sampled(self, sampling: str) -> ReadSource:
        own = object.__new__(type(self))
        for name, value in {**self.__dict__, "sampling": sampling}.items():
            object.__setattr__(own, name, value)
        return own

    def fingerprint(self) -> tuple[str, Any]:
        some = np.unique(np.linspace(0, self.count - 1, min(self.count, _GLANCED)).astype(np.int64))
        words = f"{self._reading.reader.words}, {self.sampling}, budget={self.budget}"
        return f"{type(self).__name__}({words})", self.feed.pick(some)

    def thinned(self, rows: int) -> ArraySource:
        chosen = np.sort(np.random.default_rng(0).choice(self.count, rows, replace=False))
        found = jax.tree_util.tree_map(jax.device_put, self.feed.pick(chosen))
        return ArraySource(found, self.sampling)

    def note(self, rows: int) -> str:
        if self.sampling != SAMPLING[0] or self._fits(rows):
            return ""
        size = rows * self._reading.row
        return (
            f"The small batches of an epoch have {_bytes(size)}, above the budget of "
            f"{_bytes(self.budget)}: they are contiguous blocks of rows, in random order."
        )

    def all_tickets(self, small: Mapping[str, tuple[Words, int]], steps: int) -> dict[str, Any]:
        anywhere = self._anywhere(small, steps)
        return {
            role: super(ReadSource, self).tickets(words, steps, size)
            if anywhere or size == self.count
            else block_starts(words, steps, size, self.count)
            for role, (words, size) in small.items()
        }

    def epoch(
        self, refresh: Mapping[str, Any], small: Mapping[str, Any]
    ) -> tuple[dict[str, Batch], Callable[[Any], dict[str, Draws]]]:
        steps = max((len(tickets) for tickets, _ in small.values()), default=0)
        if self._fit(small, steps):
            return super().epoch(refresh, small)
        passes, _ = super().epoch(refresh, {})

        def draws(after: Any) -> dict[str, Draws]:
            return {
                role: self._opened(tickets, size, None, None)
                if size == self.count
                else self._blocks(tickets, size)
                for role, (tickets, size) in small.items()
            }

        return passes, draws

    def _fit(self, small: Mapping[str, tuple[Any, int]], steps: int) -> bool:
        """Whether all small batches of an epoch fit the budget together."""
        return self._fits(steps * sum(size for _, size in small.values() if size != self.count))

    def _anywhere(self, small: Mapping[str, tuple[Any, int]], steps: int) -> bool:
        """Whether a batch may have any rows."""
        return self.sampling == SAMPLING[0] and self._fit(small, steps)

    @property
    def _reading(self) -> Reading:
        assert isinstance(self.feed, Reading)
        return self.feed

    def _fits(self, rows: int) -> bool:
        return rows * self._reading.row <= self.budget

    def _chosen(self, tickets: Any, size: int) -> Any:
        if self.sampling == SAMPLING[0] or size == self.count:
            return super()._chosen(tickets, size)
        return jax.vmap(lambda first: self._block(first, size))(tickets)

    def _block(self, first: Any, size: int) -> Any:
        return turned(first, jnp.arange(size, dtype=jnp.int32), self.count)

    def _blocks(self, starts: Any, size: int) -> Draws:
        """Each is read when its step begins, or a step before."""
        read = functools.partial(self._reading.block, size)
        shapes = shapes_of(self.feed.spec, (size,))

        def opened(ticket: Any) -> Batch:
            first, following = ticket
            rows = feeding.call(read, shapes, first, following)
            return Handed(rows, self._block(first, size), size)

        return (starts, jnp.roll(starts, -1)), opened


class File(ReadSource):
    """Samples in files, which stay there: .npy, raw numbers, or Parquet.

    Rows are read in order in every pass, and a run needs memory for a few chunks and its batches
    alone. The files must stay as they are while the problem is in use.

    Args:
        path: a file, a list of them whose rows follow each other, a folder with Parquet files, or
            an array of `np.memmap`.
        columns: which numbers of a row are used, and how a sample is made of them. None: all. A
            list of columns gives an array; a dict gives a dict, with a column, a list of them or a
            slice for each name. Columns of Parquet files have names, others numbers.
        dtype: of raw numbers; of .npy and Parquet files it is known.
        shape: of a row of raw numbers.
        offset: bytes before the first row of raw numbers.
        budget: bytes of the small batches of an epoch, up to which they have any rows; beyond it
            they are contiguous blocks. They are held twice.

    Examples:
        >>> np.save("returns.npy", returns)
        >>> rows = mvrc.File("returns.npy", columns=[0, 1])
        >>> stored = mvrc.Composition(problem.inner, problem.outer, rows)
        >>> round(mvrc.minimize(stored, np.zeros(2)).objective, 2)
        -0.08
    """

    @checks.explain_keywords
    def __init__(
        self, path: Any, columns: Any = None, *, dtype: Any = None, shape: Any = None,
        offset: int = 0, budget: int = BUDGET,
    ) -> None:  # fmt: skip
        reader = reader_of(path, columns, dtype, shape, checks.integer("offset", offset, least=0))
        self._begin("path", reader, budget)


class Host(ReadSource):
    """Samples that functions of yours give: from a database, another format, or by computation.

    The functions are called from another thread, one call at a time, and must give the same rows
    for the same numbers. They must not use JAX, which waits for them.

    Args:
        n: how many samples there are.
        chunks: `chunks(start, stop)` gives the samples start, …, stop − 1: an array, or a pytree of
            arrays, with that leading axis. Called with ranges that follow each other in a pass.
        take: `take(numbers)` gives those of an ascending array of numbers. None: they are cut out
            of chunks.
        budget: see `File`.

    Examples:
        >>> rows = mvrc.Host(200, lambda start, stop: returns[start:stop])
        >>> computed = mvrc.Composition(problem.inner, problem.outer, rows)
        >>> round(mvrc.minimize(computed, x0).objective, 2)
        -0.08
    """

    @checks.explain_keywords
    def __init__(
        self, n: int, chunks: Callable[[int, int], Any],
        take: Callable[[np.ndarray], Any] | None = None, *, budget: int = BUDGET,
    ) -> None:  # fmt: skip
        if not callable(chunks):
            raise TypeError(
                f"chunks must be a function chunks(start, stop), not {checks.shown(chunks)}."
            )
        if take is not None and not callable(take):
            raise TypeError(f"take must be a function take(numbers), not {checks.shown(take)}.")
        reader = Made(checks.integer("n", n), chunks, take, "chunks")
        self._begin("n", reader, budget)


def _bytes(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.3g} MiB"
