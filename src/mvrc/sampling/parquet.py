"""Rows of Parquet files, by PyArrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mvrc.sampling.readers import Changing, Reader, Stretch, spec_of, stamp
from mvrc.support import checks, extras

_GROUPS = 2  # row groups that are kept, as the next rows are likely to be in one of them


class Parquet(Changing, Reader):
    """Tables in files, one after another; a row is the numbers of its columns.

    Args:
        paths: the files, in order.
        columns: names in order; a dict of names, each with a column or a list of them; None: all.
    """

    def __init__(self, paths: Sequence[Path], columns: Any) -> None:
        self._pyarrow, self._columns = _pyarrow(), columns
        self.stretches: list[Stretch] = []
        self._groups: list[tuple[int, int]] = []  # the file and the place in it of each
        firsts, first = [], 0
        names: list[str] = []
        for number, path in enumerate(paths):
            file = self._file(path)
            there = file.schema_arrow.names
            names = names or there
            self._parts = _parts(columns, names)
            missing = [name for name in self._wanted() if name not in there]
            if missing:
                raise ValueError(
                    f"{path} has no column {missing[0]!r}, which {paths[0]} has; its columns are "
                    f"{checks.cut(', '.join(there))}."
                )
            begun = first
            for group in range(file.metadata.num_row_groups):
                firsts.append(first)
                self._groups.append((number, group))
                first += file.metadata.row_group(group).num_rows
            self.stretches.append(Stretch(path, 0, begun, first - begun, stamp(path)))
        self.count, self._firsts = first, np.array([*firsts, first])
        self._kept: dict[int, Any] = {}
        if not first:
            raise ValueError(f"{paths[0]} is empty (0 rows); give at least one row.")
        self.spec = spec_of({k: a[:1] for k, a in self._group(0).items()})
        if self._alone:
            self.spec = self.spec[""]
        sizes = ", ".join(f"{part.path.name}: {part.rows} rows" for part in self.stretches)
        self.words = f"{sizes}, columns {columns!r}"

    def __reduce__(self) -> Any:
        return Parquet, ([part.path for part in self.stretches], self._columns)

    @property
    def _alone(self) -> bool:
        return list(self._parts) == [""]

    def read(self, start: int, stop: int, buffer: np.ndarray | None = None) -> Any:
        number = int(np.searchsorted(self._firsts, start, "right")) - 1
        parts = []
        while start < stop:
            first, last = self._firsts[number], min(stop, self._firsts[number + 1])
            rows = self._group(number)
            parts.append({k: a[start - first : last - first] for k, a in rows.items()})
            start, number = int(last), number + 1
        return self._joined(parts)

    def take(self, chosen: np.ndarray) -> Any:
        parts, ends = [], np.searchsorted(chosen, self._firsts)
        for number in np.flatnonzero(np.diff(ends)):
            own = chosen[ends[number] : ends[number + 1]] - self._firsts[number]
            parts.append({k: a[own] for k, a in self._group(int(number)).items()})
        return self._joined(parts)

    def place(self, row: int) -> str:
        part = next(p for p in self.stretches if row < p.first + p.rows)
        return f"{part.path}, row {row - part.first}"

    def _joined(self, parts: list[dict[str, np.ndarray]]) -> Any:
        rows = {k: np.concatenate([p[k] for p in parts]) for k in self._parts}
        return rows[""] if self._alone else rows

    def _group(self, number: int) -> dict[str, np.ndarray]:
        """The samples of a row group."""
        if number not in self._kept:
            while len(self._kept) >= _GROUPS:
                del self._kept[next(iter(self._kept))]
            self._kept[number] = self._decoded(number)
        return self._kept[number]

    def _decoded(self, number: int) -> dict[str, np.ndarray]:
        place, group = self._groups[number]
        path = self.stretches[place].path if place < len(self.stretches) else None
        assert path is not None
        try:
            table = self._file(path).read_row_group(group, columns=self._wanted())
        except (OSError, self._pyarrow.lib.ArrowException) as error:
            raise ValueError(
                f"{path} cannot be read from row {self._firsts[number]} on "
                f"({checks.cut(str(error))}); it was truncated, or is damaged."
            ) from None
        columns = {}
        for name in self._wanted():
            column = table.column(name)
            if column.null_count:
                at = np.flatnonzero(column.is_null().to_numpy())[0]
                row = int(self._firsts[number] + at) - self.stretches[place].first
                raise ValueError(
                    f"{path}, row {row}: column {name!r} is empty there; fill or leave out such "
                    f"rows."
                )
            columns[name] = column.to_numpy()
            if columns[name].dtype.kind not in "iufb":
                raise TypeError(
                    f"{path}: column {name!r} is of type {column.type}; columns must be numbers: "
                    f"name those that are in columns=."
                )
        return {
            key: columns[part] if isinstance(part, str) else _stacked([columns[c] for c in part])
            for key, part in self._parts.items()
        }

    def _wanted(self) -> list[str]:
        parts = self._parts.values()
        names = [name for part in parts for name in ([part] if isinstance(part, str) else part)]
        return list(dict.fromkeys(names))

    def _file(self, path: Path) -> Any:
        try:
            return self._pyarrow.parquet.ParquetFile(path, memory_map=False)
        except (OSError, self._pyarrow.lib.ArrowException) as error:
            raise ValueError(f"{path} is not a Parquet file ({checks.cut(str(error))}).") from None


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise extras.missing("Parquet files need PyArrow", "parquet") from error
    return pyarrow


def _parts(columns: Any, names: list[str]) -> dict[str, Any]:
    """The columns of each part of a sample; a sample that is an array is the part ""."""
    parts = columns if isinstance(columns, dict) else {"": names if columns is None else columns}
    for part in parts.values():
        for name in [part] if isinstance(part, str) and isinstance(columns, dict) else part:
            if name not in names:
                raise ValueError(
                    f"columns has {checks.shown(name)}{checks.nearest(name, names)}, and the file "
                    f"has {checks.cut(', '.join(names))}."
                )
    return {key: part if isinstance(part, str) else list(part) for key, part in parts.items()}


def _stacked(columns: list[np.ndarray]) -> np.ndarray:
    """Side by side, in the dtype that holds all of them."""
    dtype = np.result_type(*columns)
    out = np.empty((len(columns[0]), len(columns)), dtype)
    for i, column in enumerate(columns):
        out[:, i] = column
    return out
