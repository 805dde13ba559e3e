"""Industry portfolios of the Kenneth R. French data library: its zip, its CSV or a plain CSV."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mvrc import checks

_MISSING = (-99.99, -999.0)  # the library's codes


class Returns(NamedTuple):
    """Daily returns in percent."""

    values: np.ndarray  # days × assets
    assets: tuple[str, ...]
    dates: np.ndarray  # yyyymmdd
    dropped: tuple[str, ...]  # assets left out because they were mostly missing


@checks.explain_keywords
def read_french(path: str | Path, days: int | None = None, most_missing: float = 0.1) -> Returns:
    """The first (value-weighted) block of a file of the library.

    −99.99 and −999 are missing values, never returns. An asset that misses more than the share
    `most_missing` of the days is dropped, then every day on which one of the rest is missing.

    Args:
        path: the official zip or CSV, with its preamble, blocks and footer, or a plain CSV.
        days: keep only the last so many days.
        most_missing: share of missing days from which on an asset is dropped.
    """
    checks.fraction("most_missing", most_missing)
    lines = iter(_text(Path(path)).splitlines())
    header: list[str] = []
    rows: list[list[str]] = []
    for line in lines:
        cells = [cell.strip().strip('"').strip() for cell in line.split(",")]
        if re.fullmatch(r"\d{8}", cells[0]):
            rows.append(cells)
        elif rows:
            break  # the next block or the footer
        elif len(cells) > 2 and any(cells[1:]):
            header = cells
    if not rows or len(header) != len(rows[0]):
        raise ValueError(
            f"path {str(path)!r} is no daily file of the French library: it needs a line of names "
            f"and lines that begin with a date yyyymmdd."
        )
    table = np.array([[float(cell) for cell in row] for row in rows])
    dates, values, assets = table[:, 0].astype(int), table[:, 1:], np.array(header[1:])
    if days is not None:
        dates, values = dates[-checks.whole("days", days) :], values[-days:]
    values = np.where(np.isin(values, _MISSING), np.nan, values)
    kept = np.isnan(values).mean(axis=0) <= most_missing
    complete = ~np.isnan(values[:, kept]).any(axis=1)
    return Returns(
        values[complete][:, kept], tuple(assets[kept]), dates[complete], tuple(assets[~kept])
    )


def _text(path: Path) -> str:
    if not path.exists():
        raise FileNotFoundError(f"path {str(path)!r} does not exist; give a CSV or zip file.")
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return archive.read(archive.namelist()[0]).decode("latin-1")
    return path.read_text(encoding="latin-1")
