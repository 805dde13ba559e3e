"""Rows of a reader for running programs: read ahead, picked as a pass goes by, checked once."""

from __future__ import annotations

import collections
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from mvrc.sampling.fed import Feed
from mvrc.sampling.readers import Reader

# Bytes of a chunk: of 1, 2, 4, 8 and 16 MiB the pass of benchmarks/parts/files.py was fastest here.
CHUNK = 2**22
AHEAD = 2  # chunks that are read before they are asked for
KEPT = 2**26  # bytes of picked rows that are kept, as the same ones are asked for in every pass
_PENDING = 8  # passes whose picked rows nobody has asked for

_each = jax.tree_util.tree_map


class Reading(Feed):
    """A reader as a feed.

    Args:
        reader: gives the rows.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader, self.count = reader, reader.count
        leaves = jax.tree_util.tree_leaves(reader.spec)
        wide = any(s.dtype in (np.float64, np.complex128) for s in leaves)
        own = lambda s: jax.ShapeDtypeStruct(s.shape, program_dtype(s, wide))  # noqa: E731
        self.spec = _each(own, reader.spec)
        self.row = sum(s.dtype.itemsize * s.size for s in jax.tree_util.tree_leaves(self.spec))
        rows = max(1, CHUNK // max(1, self.row))
        least = 1 << (self.count - 1).bit_length()  # no more than there are
        self.chunk = min(1 << (rows.bit_length() - 1), least)
        self._lock = threading.Lock()  # of what follows
        self._reading = threading.Lock()  # of the reader
        self._checked = 0  # rows from the first on that were found to be good
        self._ahead: dict[tuple[int, int], Future[Any]] = {}
        self._next: dict[tuple[int, int], Future[Any]] = {}  # blocks
        self._passes: collections.OrderedDict[int, Picking] = collections.OrderedDict()
        self._tokens = 0
        self._kept: collections.OrderedDict[bytes, Any] = collections.OrderedDict()
        self._buffers: list[np.ndarray] = []
        self._thread: ThreadPoolExecutor | None = None

    def __reduce__(self) -> Any:
        return Reading, (self.reader,)

    def cut(self, token: Any, first: Any) -> Any:
        place = int(token), int(first)
        with self._lock:
            if place[1] == 0 and place not in self._ahead:
                self.reader.unchanged()
            found = self._ahead.pop(place, None)
            if found is None:
                self._ahead.clear()
                found = self._begun(place)
            for more in range(1, AHEAD + 1):
                further = place[0], place[1] + more * self.chunk
                if further[1] < self.count and further not in self._ahead:
                    self._ahead[further] = self._begun(further)
        return found.result()

    def pick(self, chosen: Any) -> Any:
        chosen = np.asarray(chosen)
        key = chosen.tobytes() if chosen.size * self.row <= KEPT // 4 else None
        with self._lock:
            if key is not None and key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = self._taken(chosen)
        if key is not None:
            with self._lock:
                self._kept[key] = found
                while sum(map(_bytes, self._kept.values())) > KEPT:
                    self._kept.popitem(last=False)
        return found

    def begin(self, chosen: dict[str, Any]) -> Any:
        with self._lock:
            self.reader.unchanged()
            self._tokens += 1
            self._passes[self._tokens] = Picking(chosen, self.spec)
            while len(self._passes) > _PENDING:
                self._passes.popitem(last=False)
            self._ahead = {(self._tokens, 0): self._begun((self._tokens, 0))}
            return self._tokens

    def block(self, size: int, first: Any, following: Any) -> Any:
        """`size` rows from `first` on, over the end to the beginning; those from `following` on are
        likely to be asked for next."""
        with self._lock:
            found = self._next.pop((size, int(first)), None) or self._begun_block(size, int(first))
            self._next = {(size, int(following)): self._begun_block(size, int(following))}
        return found.result()

    def picked(self, token: Any, role: str, chosen: Any) -> Any:
        with self._lock:
            found = self._passes.get(int(token))
            if found is None or not found.complete:  # no pass went by
                return self._taken(np.asarray(chosen))
            rows = found.rows(role, np.asarray(chosen))
            if not found.wanted:
                del self._passes[int(token)]
        return rows

    def _begun_block(self, size: int, first: int) -> Future[Any]:
        return self._worker().submit(self._turned, size, first)

    def _turned(self, size: int, first: int) -> Any:
        end = min(first + size, self.count)
        rows = self._read(first, end, end - first)
        if end == first + size:
            return rows
        more = self._read(0, size - (end - first), size - (end - first))
        return _each(lambda a, b: np.concatenate([a, b]), rows, more)

    def _begun(self, place: tuple[int, int]) -> Future[Any]:
        return self._worker().submit(self._chunk, *place)

    def _worker(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "mvrc-reader")
        return self._thread

    def _chunk(self, token: int, first: int) -> Any:
        last = min(first + self.chunk, self.count)
        rows = self._read(first, last, self.chunk)
        picking = self._passes.get(token)
        if picking is not None:
            picking.pass_by(first, last, rows)
        return rows

    def _read(self, first: int, last: int, length: int) -> Any:
        """Rows first, …, last − 1, filled up with the first of them."""
        with self._reading:
            size = self.reader.room(length)
            rows = self.reader.read(first, last, self._buffer(size) if size else None)
            if first <= self._checked < last:
                self._check(rows, np.arange(first, last))
                self._checked = last
            elif self._checked < first:
                self._check(rows, np.arange(first, last))
        rows = _each(fitted, rows, self.spec)
        return rows if last - first == length else _each(lambda a: _filled(a, length), rows)

    def _taken(self, chosen: np.ndarray) -> Any:
        ascending, back = np.unique(chosen.ravel(), return_inverse=True)
        with self._reading:
            rows = self.reader.take(ascending)
        self._check(rows, ascending)
        rows = _each(fitted, rows, self.spec)
        return _each(lambda a: a[back].reshape(*chosen.shape, *a.shape[1:]), rows)

    def _buffer(self, size: int) -> np.ndarray:
        """Memory that no array lies in any more."""
        for buffer in self._buffers:
            if sys.getrefcount(buffer) <= _UNUSED and buffer.size >= size:
                return buffer
        self._buffers.append(np.empty(size, np.uint8))
        return self._buffers[-1]

    def _check(self, rows: Any, numbers: np.ndarray) -> None:
        """Refuse numbers that are not finite, or do not fit the program's integers."""
        for array, spec in zip(*map(jax.tree_util.tree_leaves, (rows, self.spec)), strict=True):
            bad, why = bad_row(array, spec.dtype)
            if bad is not None:
                where = self.reader.place(int(numbers[bad]))
                raise ValueError(f"{where}: {why}; mend or leave out such rows.")


class Picking:
    """The rows of an epoch's small batches, picked as a pass goes by.

    Args:
        chosen: numbers of rows by role, of any shape.
        spec: shapes and dtypes of one row.
    """

    def __init__(self, chosen: dict[str, Any], spec: Any) -> None:
        self.wanted: list[tuple[str, np.ndarray, int]] = []  # with where they begin
        parts, first = [], 0
        for role, found in chosen.items():
            found = np.asarray(found)
            for own in found.reshape(-1, *found.shape[-2:]):  # of every seed
                self.wanted.append((role, own, first))
                parts.append(own.ravel())
                first += own.size
        flat = np.concatenate(parts)
        self._order = np.argsort(flat, kind="stable")
        self._ascending = flat[self._order]
        self._done = 0
        self._out = _each(lambda s: np.empty((len(flat), *s.shape), s.dtype), spec)

    @property
    def complete(self) -> bool:
        return self._done == len(self._order)

    def pass_by(self, first: int, last: int, rows: Any) -> None:
        low, high = np.searchsorted(self._ascending, (first, last))
        if low != self._done:  # an earlier pass has been here, or none was at what is before
            return
        own, to = self._ascending[low:high] - first, self._order[low:high]
        for out, a in zip(*map(jax.tree_util.tree_leaves, (self._out, rows)), strict=True):
            out[to] = a[own]
        self._done = int(high)

    def rows(self, role: str, chosen: np.ndarray) -> Any:
        """Those of one role and seed, once."""
        place = next(
            i
            for i, (name, own, _) in enumerate(self.wanted)
            if name == role and np.array_equal(own, chosen)
        )
        _, own, start = self.wanted.pop(place)
        return _each(
            lambda a: a[start : start + own.size].reshape(*own.shape, *a.shape[1:]), self._out
        )


def _references() -> int:
    buffers = [np.empty(1, np.uint8)]
    return min(sys.getrefcount(buffer) for buffer in buffers)


_UNUSED = _references()  # of a buffer of a list


def program_dtype(spec: Any, wide: bool) -> np.dtype:
    """As of arrays in memory: integers of 64 bits stay beside floating-point numbers of 64."""
    dtype = spec.dtype.newbyteorder("=")
    if dtype.itemsize == 8 and dtype.kind in "iu" and not wide:
        return np.dtype(f"{dtype.kind}4")
    return dtype


def fitted(array: np.ndarray, spec: Any) -> np.ndarray:
    return array if array.dtype == spec.dtype else array.astype(spec.dtype)


def _filled(array: np.ndarray, length: int) -> np.ndarray:
    full = np.empty((length, *array.shape[1:]), array.dtype)
    full[: len(array)], full[len(array) :] = array, array[0]
    return full


def bad_row(array: np.ndarray, dtype: np.dtype) -> tuple[int | None, str]:
    """The first row that a program cannot have, and why."""
    if array.dtype.kind in "fc":
        if np.isfinite(array.sum()):  # of what is not finite no sum is
            return None, ""
        wrong, why = ~np.isfinite(array), "it has NaN or infinite values"
    elif array.dtype.kind in "iu" and array.dtype.itemsize > dtype.itemsize:
        bounds = np.iinfo(dtype)
        wrong = (array < bounds.min) | (array > bounds.max)
        why = f"it has integers that do not fit JAX's {dtype}; give them as float64"
    else:
        return None, ""
    rows = np.flatnonzero(wrong.reshape(len(array), -1).any(axis=1))
    return (int(rows[0]) if rows.size else None), why


def _bytes(rows: Any) -> int:
    return sum(a.nbytes for a in jax.tree_util.tree_leaves(rows))
