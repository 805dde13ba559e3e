"""Daily returns of the 30 and 38 industry portfolios of the Kenneth R. French data library."""

from __future__ import annotations

from pathlib import Path

from mvrc.datasets import files
from mvrc.datasets.download import fetch
from mvrc.datasets.french import read_french
from mvrc.datasets.returns import Returns
from mvrc.support import checks


@checks.explain_keywords
def industry30(
    path: str | Path | None = None,
    days: int | None = None,
    known_hash: str | None = None,
    download: bool = True,
) -> Returns:
    """The 30 industry portfolios, value weighted, in percent per day.

    Searched for in this order: `path`; the folder in the environment variable MVRC_DATA;
    `../shared/data` and `shared/data`; the user's cache; the library itself, from which the
    official zip is downloaded into the cache (needs pooch: pip install 'mvrc[data]').
    Missing values are dropped as `read_french` does.

    Args:
        path: a file, or a folder with industry30_daily.csv or the official zip.
        days: keep only this many days, the last of the file.
        known_hash: sha256 that the file must have, wherever it comes from.
        download: whether to ask the library when the file is nowhere else.

    Examples:
        >>> mvrc.datasets.industry30(days=100).values.shape  # doctest: +SKIP
        (100, 30)
    """
    return _industry(30, path, days, known_hash, download)


@checks.explain_keywords
def industry38(
    path: str | Path | None = None,
    days: int | None = None,
    known_hash: str | None = None,
    download: bool = True,
) -> Returns:
    """The 38 industry portfolios, value weighted, in percent per day.

    Some of them have no returns for many years and are then left out: `dropped` has their names.

    Args:
        path: a file, or a folder with industry38_daily.csv or the official zip; otherwise the file
            is searched for as in `industry30`.
        days: keep only this many days, the last of the file.
        known_hash: sha256 that the file must have, wherever it comes from.
        download: whether to ask the library when the file is nowhere else.

    Examples:
        >>> mvrc.datasets.industry38(days=100).values.shape  # doctest: +SKIP
        (100, 38)
    """
    return _industry(38, path, days, known_hash, download)


def _industry(
    count: int, path: str | Path | None, days: int | None, known_hash: str | None, ask: bool
) -> Returns:
    digits = files.checked_hash(known_hash)
    if days is not None:
        checks.integer("days", days)  # before a download
    archive = f"{count}_Industry_Portfolios_daily_CSV.zip"
    names = (f"industry{count}_daily.csv", archive)
    wanted = files.Wanted(f"industry{count}", names, "simulate_industry")
    file = files.find(wanted, path)
    if file is None and not ask:
        raise files.missing(wanted, "")
    if file is None:
        file = fetch(wanted, archive, digits)
    files.check_hash(file, digits)
    data = read_french(file, days)
    found = len(data.assets) + len(data.dropped)
    if found != count:
        raise ValueError(
            f"{str(file)!r} has {found} portfolios, but industry{count}() reads the file of "
            f"{count}; use read_french for any other."
        )
    return data
