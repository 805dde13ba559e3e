"""Readers: rows that lie in files, or that a function of the user's makes, by their number."""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mvrc.support import checks

# Rows that are wanted one by one are read together where what lies between them is less than this:
# a disk reads a page and its neighbours in the same time.
GAP = 2**14


class Reader(abc.ABC):
    """Rows by number: some in order, or some here and there. Asked by one thread at a time."""

    count: int  # of rows
    spec: Any  # shapes and dtypes of one row
    words: str  # what it reads, for a run that goes on to compare

    @abc.abstractmethod
    def read(self, start: int, stop: int, buffer: np.ndarray | None = None) -> Any:
        """Rows start, …, stop − 1: a pytree of arrays.

        They may lie in `buffer`, so many bytes as `room` says or more.
        """

    def take(self, chosen: np.ndarray) -> Any:
        """The rows of these numbers, which ascend."""
        row = sum(s.dtype.itemsize * s.size for s in jax.tree_util.tree_leaves(self.spec))
        ends = np.flatnonzero(np.diff(chosen) * row > GAP) + 1
        runs = np.split(chosen, ends)
        found = []
        for run in runs:
            rows = self.read(int(run[0]), int(run[-1]) + 1)
            found.append(jax.tree_util.tree_map(lambda a, own=run - run[0]: a[own], rows))
        return jax.tree_util.tree_map(lambda *parts: np.concatenate(parts), *found)

    def room(self, rows: int) -> int:
        """Bytes of a buffer for so many rows; 0 where none is used."""
        return 0

    def place(self, row: int) -> str:
        """Where a row is, for a sentence."""
        return f"row {row}"

    def unchanged(self) -> None:  # noqa: B027 (others do not change)
        """Refuse data that are not those of the first pass."""


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Rows of a file that lie one after another."""

    path: Path
    offset: int  # bytes before the first
    first: int  # its number among the rows of all files
    rows: int
    stamp: tuple[int, int]  # size and time of the last change


def stamp(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


class Changing:
    """The check that files are those that were opened."""

    stretches: Sequence[Stretch]

    def unchanged(self) -> None:
        for part in self.stretches:
            try:
                now = stamp(part.path)
            except OSError as error:
                raise ValueError(
                    f"{part.path} cannot be read any more ({error.strerror}), where rows "
                    f"{part.first} to {part.first + part.rows - 1} are."
                ) from None
            if now != part.stamp:
                was, size = part.stamp[0], now[0]
                how = f"it has {size:,} bytes, and had {was:,}" if was != size else "it was written"
                raise ValueError(
                    f"{part.path} has changed since the problem was made ({how}), from row "
                    f"{part.first} on; a run needs the same rows in every pass. Make the problem "
                    f"anew."
                )


class FixedRows(Changing, Reader):
    """Files in which every row has the same bytes: .npy, and raw numbers.

    Args:
        stretches: where the rows are, in order.
        dtype, shape: of a row.
        columns: what of it is used, see `columns_of`.
    """

    def __init__(
        self, stretches: Sequence[Stretch], dtype: np.dtype, shape: tuple[int, ...], columns: Any
    ) -> None:
        self.stretches, self.dtype, self.shape = stretches, dtype, shape
        self.count = sum(part.rows for part in stretches)
        self._row = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        self._columns, self._chosen = columns, columns_of(columns, dtype, shape)
        self._firsts = np.array([part.first for part in stretches])
        self._open: dict[Path, int] = {}
        one = self._chosen(np.zeros((1, *shape), dtype))
        self.spec = spec_of(one)
        names = ", ".join(f"{part.path.name}: {part.rows} rows" for part in stretches)
        self.words = f"{names}, {dtype.str}{list(shape)}, columns {columns!r}"

    def __reduce__(self) -> Any:
        return FixedRows, (self.stretches, self.dtype, self.shape, self._columns)

    def __del__(self) -> None:
        for handle in getattr(self, "_open", {}).values():
            os.close(handle)

    def room(self, rows: int) -> int:
        return rows * self._row

    def read(self, start: int, stop: int, buffer: np.ndarray | None = None) -> Any:
        size = (stop - start) * self._row
        memory = np.empty(size, np.uint8) if buffer is None else buffer[:size]
        into, at = memoryview(memory), 0  # type: ignore[arg-type]
        number = int(np.searchsorted(self._firsts, start, "right")) - 1
        while at < size:
            part = self.stretches[number]
            row = start + at // self._row - part.first
            length = min(size - at, (part.rows - row) * self._row)
            self._fill(part, part.offset + row * self._row, into[at : at + length])
            at, number = at + length, number + 1
        raw = memory.view(self.dtype).reshape(stop - start, *self.shape)
        return self._chosen(raw)

    def _fill(self, part: Stretch, offset: int, into: memoryview) -> None:
        handle = self._open.get(part.path)
        if handle is None:
            handle = self._open[part.path] = os.open(part.path, os.O_RDONLY)
        done = 0
        while done < len(into):
            got = os.preadv(handle, [into[done:]], offset + done)
            if not got:
                row = part.first + (offset + done - part.offset) // self._row
                raise ValueError(
                    f"{part.path} ends in row {row - part.first}, and had {part.rows} rows when "
                    f"the problem was made; it was truncated."
                )
            done += got

    def place(self, row: int) -> str:
        part = self.stretches[int(np.searchsorted(self._firsts, row, "right")) - 1]
        return f"{part.path}, row {row - part.first}"


class Made(Reader):
    """Rows that functions of the user's give.

    Args:
        count: how many there are.
        chunks: `chunks(start, stop)` gives rows start, …, stop − 1, a pytree of arrays.
        some: `take(chosen)`, those of some numbers; None: by chunks.
        name: the argument that they come from.
    """

    def __init__(
        self, count: int, chunks: Callable[[int, int], Any],
        some: Callable[[np.ndarray], Any] | None, name: str,
    ) -> None:  # fmt: skip
        self.count, self._chunks, self._some, self._name = count, chunks, some, name
        first = jax.tree_util.tree_map(np.asarray, chunks(0, 1))
        leaves, self._tree = jax.tree_util.tree_flatten(first)
        if not leaves or any(a.ndim == 0 or len(a) != 1 for a in leaves):
            raise ValueError(
                f"{name}(0, 1) returned shapes {[a.shape for a in leaves]}; every array must have "
                f"one row, that of number 0."
            )
        self.spec = spec_of(first)
        rows = [f"{s.dtype}{list(s.shape)}" for s in jax.tree_util.tree_leaves(self.spec)]
        self.words = f"{count} rows of {' '.join(rows)}"

    def __reduce__(self) -> Any:
        return Made, (self.count, self._chunks, self._some, self._name)

    def read(self, start: int, stop: int, buffer: np.ndarray | None = None) -> Any:
        given = self._chunks(start, stop)
        return self._checked(given, stop - start, f"{self._name}({start}, {stop})")

    def take(self, chosen: np.ndarray) -> Any:
        if self._some is None:
            return super().take(chosen)
        said = f"take of {len(chosen)} numbers from {chosen[0]} to {chosen[-1]}"
        return self._checked(self._some(chosen), len(chosen), said)

    def _checked(self, given: Any, rows: int, said: str) -> Any:
        leaves, tree = jax.tree_util.tree_flatten(given)
        leaves = [np.asarray(a) for a in leaves]
        wanted = [(rows, *s.shape) for s in jax.tree_util.tree_leaves(self.spec)]
        if str(tree) != str(self._tree) or [a.shape for a in leaves] != wanted:
            raise ValueError(
                f"{said} returned shapes {[a.shape for a in leaves]}; they must be {wanted}, as "
                f"of row 0."
            )
        return jax.tree_util.tree_unflatten(tree, leaves)

    def place(self, row: int) -> str:
        return f"row {row} of {self._name}"


def columns_of(columns: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Callable[[Any], Any]:
    """What makes samples of rows: all of a row, a list of its columns, or a dict of names, each
    with a column, a list of columns or a slice; fields of structured rows are columns, too."""
    if dtype.names:
        wanted = {name: name for name in dtype.names} if columns is None else columns
        names = wanted.values() if isinstance(wanted, dict) else wanted
        unknown = [name for name in names if name not in dtype.names]
        if unknown:
            raise ValueError(
                f"columns has {checks.shown(unknown[0])}, and the fields of the rows are "
                f"{', '.join(dtype.names)}."
            )
        if isinstance(wanted, dict):
            return lambda raw: {key: raw[name] for key, name in wanted.items()}
        return lambda raw: np.stack([raw[name] for name in wanted], axis=-1)
    if columns is None:
        return lambda raw: raw
    if len(shape) != 1:
        raise ValueError(
            f"columns is given, and a row has shape {shape}; it is for rows of one axis."
        )
    parts = columns.values() if isinstance(columns, dict) else [columns]
    for part in parts:
        places = np.arange(shape[0])
        try:
            found = places[part if isinstance(part, slice) else np.asarray(part)]
            right = np.asarray(part).dtype.kind in "iu" or isinstance(part, slice)
        except (IndexError, TypeError, ValueError):
            right = False
        if not right or not found.size:
            raise ValueError(
                f"columns has {checks.shown(part)}, and a row has {shape[0]} columns, 0 to "
                f"{shape[0] - 1}; give numbers of columns, or a dict of names with such."
            )
    if isinstance(columns, dict):
        return lambda raw: {name: raw[:, part] for name, part in columns.items()}
    return lambda raw: raw[:, columns]


def spec_of(rows: Any) -> Any:
    """Shapes and dtypes of one of them, or a sentence where they are no numbers."""
    for a in jax.tree_util.tree_leaves(rows):
        if a.dtype.kind not in "iufcb" or a.dtype.itemsize > (16 if a.dtype.kind == "c" else 8):
            raise TypeError(
                f"rows are of dtype {a.dtype}; they must be numbers that JAX computes with."
            )
    one = lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype)  # noqa: E731
    return jax.tree_util.tree_map(one, rows)
