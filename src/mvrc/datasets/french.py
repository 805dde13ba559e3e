"""Industry portfolios of the Kenneth R. French data library: its zip, its CSV or a plain CSV."""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path

import numpy as np

from mvrc.datasets import files
from mvrc.datasets.returns import Returns, last_days
from mvrc.support import checks

_MISSING = (-99.99, -999.0)  # the library's codes
BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


@checks.explain_keywords
def read_french(path: str | Path, days: int | None = None, most_missing: float = 0.1) -> Returns:
    """The first (value-weighted) block of a file of the library.

    −99.99 and −999 are missing values, never returns. An asset that misses more than the share
    `most_missing` of the days is dropped, then every day on which one of the rest is missing.

    Args:
        path: the official zip or CSV, with its preamble, blocks and footer, or a plain CSV.
        days: keep only this many days, the last of the file.
        most_missing: share of missing days above which an asset is dropped.

    Examples:
        >>> mvrc.datasets.read_french("30_Industry_Portfolios_Daily.csv")  # doctest: +SKIP
    """
    checks.fraction("most_missing", most_missing)
    header, rows = _first_block(_text(files.checked_path(path)))
    try:
        table = np.array(rows, dtype=float)
    except ValueError:  # a cell that is no number, or lines of different lengths
        table = np.empty((0, 0))
    if not table.size or len(header) != table.shape[1]:
        raise ValueError(
            f"path {str(path)!r} is not a daily file of the French library: it needs a line of "
            f"names and lines of as many numbers that begin with a date yyyymmdd."
        )
    table = table[last_days(days, len(table))]
    dates, values, assets = table[:, 0].astype(int), table[:, 1:], header[1:]
    values = np.where(np.isin(values, _MISSING) | ~np.isfinite(values), np.nan, values)
    kept = np.isnan(values).mean(axis=0) <= most_missing
    complete = ~np.isnan(values[:, kept]).any(axis=1)
    if not kept.any() or not complete.any():
        raise ValueError(
            f"path {str(path)!r} has no day with a return of every asset that misses at most the "
            f"share {most_missing:g} of the days."
        )
    return Returns(
        values[complete][:, kept],
        tuple(name for name, keep in zip(assets, kept, strict=True) if keep),
        dates[complete],
        tuple(name for name, keep in zip(assets, kept, strict=True) if not keep),
    )


def _first_block(text: str) -> tuple[list[str], list[list[str]]]:
    """The line of names and the lines of numbers, as cells."""
    header: list[str] = []
    rows: list[list[str]] = []
    for line in text.splitlines():
        cells = [cell.strip().strip('"').strip() for cell in line.split(",")]
        if re.fullmatch(r"\d{8}", cells[0]):
            rows.append(cells)
        elif rows:
            break  # the next block or the footer
        elif len(cells) > 1 and any(cells[1:]):
            header = cells
    return header, rows


def _text(path: Path) -> str:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"path {str(path)!r} {what}; give a CSV or zip file.")
    if not zipfile.is_zipfile(path):
        return path.read_text(encoding="latin-1")
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(archive.namelist()[0]).decode("latin-1")
    except (*BROKEN_ZIP, IndexError) as error:
        raise ValueError(f"path {str(path)!r} is a damaged zip file; get it again.") from error
