"""Files as readers: what kind they are, what is in them, and why they are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from mvrc.sampling.parquet import Parquet
from mvrc.sampling.readers import FixedRows, Reader, Stretch, stamp
from mvrc.support import checks


def reader_of(path: Any, columns: Any, dtype: Any, shape: Any, offset: int) -> Reader:
    """The reader of what is given as `path` of a `File`."""
    if isinstance(path, np.memmap):
        return _mapped(path, columns)
    many = isinstance(path, list | tuple)
    paths = [_there(entry) for entry in (path if many else [path])]
    if not paths:
        raise ValueError("path is an empty list; give at least one file.")
    if not many and paths[0].is_dir():
        folder = paths[0]
        paths = sorted(folder.rglob("*.parquet"))
        if not paths:
            raise ValueError(f"path is the folder {str(folder)!r}, in which no .parquet file is.")
    kinds = {_kind(entry) for entry in paths}
    if len(kinds) > 1:
        raise ValueError(f"path has files of several kinds ({', '.join(sorted(kinds))}); give one.")
    kind = kinds.pop()
    if kind != "raw" and (dtype is not None or shape is not None or offset):
        raise ValueError(
            f"dtype, shape and offset are for raw numbers, and {paths[0].name} is a {kind} file, "
            f"which has its own; leave them out."
        )
    if kind == "Parquet":
        return Parquet(paths, columns)
    own = (dtype, shape, offset)
    opened = [_npy(entry) if kind == ".npy" else _raw(entry, *own) for entry in paths]
    _, first_dtype, first_shape, _ = opened[0]
    stretches, first = [], 0
    for entry, (begin, own_dtype, own_shape, rows) in zip(paths, opened, strict=True):
        if (own_dtype, own_shape) != (first_dtype, first_shape):
            raise ValueError(
                f"{entry} has rows of {own_dtype}{list(own_shape)}, and {paths[0]} of "
                f"{first_dtype}{list(first_shape)}; all files must have the same."
            )
        if rows:
            stretches.append(Stretch(entry, begin, first, rows, stamp(entry)))
        first += rows
    if not first:
        raise ValueError(f"{paths[0]} is empty (0 rows); give at least two rows.")
    return FixedRows(stretches, first_dtype, first_shape, columns)


def _there(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"path must be a file, a list of files, a folder or an np.memmap, not "
            f"{checks.shown(path)}; arrays in memory are data as they are."
        )
    found = Path(path).expanduser().absolute()
    if not found.exists():
        raise FileNotFoundError(f"path {str(path)!r} does not exist.")
    return found


def _kind(path: Path) -> str:
    if path.is_dir():
        raise ValueError(f"path has the folder {str(path)!r} in a list; give its files.")
    return {".npy": ".npy", ".parquet": "Parquet", ".pq": "Parquet"}.get(path.suffix, "raw")


def _npy(path: Path) -> tuple[int, np.dtype, tuple[int, ...], int]:
    """Where the rows begin, of which dtype and shape they are, and how many."""
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, by_columns, dtype = read(file)
            begin = file.tell()
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f"{path} is not a .npy file ({checks.cut(str(error))}).") from None
    if not shape:
        raise ValueError(f"{path} has one number; it must be an array whose first axis is samples.")
    if by_columns and len(shape) > 1:
        raise ValueError(
            f"{path} is in Fortran order, column by column; save np.ascontiguousarray of it."
        )
    if dtype.hasobject:
        raise TypeError(f"{path} has Python objects; its rows must be numbers.")
    row = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
    there = os.stat(path).st_size - begin
    if there < shape[0] * row:
        raise ValueError(
            f"{path} is truncated: its header says {shape[0]:,} rows of {row} bytes, and it ends "
            f"in row {there // max(1, row):,}."
        )
    return begin, dtype, shape[1:], shape[0]


def _raw(
    path: Path, dtype: Any, shape: Any, offset: int
) -> tuple[int, np.dtype, tuple[int, ...], int]:
    if dtype is None or shape is None:
        raise ValueError(
            f"{path} is neither .npy nor .parquet, so dtype and shape of a row are required, as in "
            f"File({path.name!r}, dtype='float32', shape=(40,))."
        )
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise TypeError(
            f"dtype must be that of a NumPy array, not {checks.shown(dtype)}."
        ) from None
    axes = (shape,) if isinstance(shape, int) else tuple(shape)
    axes = tuple(checks.integer("shape", axis) for axis in axes)
    row = kind.itemsize * int(np.prod(axes, dtype=np.int64))
    there = os.stat(path).st_size - offset
    if there <= 0 or there % row:
        raise ValueError(
            f"{path} has {there:,} bytes after an offset of {offset}, which are not whole rows of "
            f"{row} bytes ({kind}{list(axes)}): it ends in row {max(0, there) // row:,}."
        )
    return offset, kind, axes, there // row


def _mapped(array: np.memmap, columns: Any) -> Reader:
    path = getattr(array, "filename", None)
    whole = isinstance(array.base, np.memmap) is False
    if path is None or not array.flags.c_contiguous or array.ndim == 0 or not whole:
        raise ValueError(
            "path is a part or a view of an np.memmap; give the memmap itself, or its file."
        )
    entry = Path(path)
    part = Stretch(entry, array.offset, 0, len(array), stamp(entry))
    return FixedRows([part], array.dtype, array.shape[1:], columns)
