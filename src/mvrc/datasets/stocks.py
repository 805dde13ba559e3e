"""Daily returns of twenty large companies, from the prices that come with skfolio."""

from __future__ import annotations

import csv
import gzip
import importlib.util
from pathlib import Path

import numpy as np

from mvrc.datasets.returns import Returns, last_days
from mvrc.support import checks, extras

_FILE = "datasets/data/sp500_dataset.csv.gz"


@checks.explain_keywords
def sp500(days: int | None = None) -> Returns:
    """Twenty companies of the S&P 500, 1990 to 2022: 100 (p_t / p_{t−1} − 1) for prices p.

    The file is read from the installed package; skfolio itself, which takes seconds to import, is
    not imported.

    Args:
        days: keep only this many days, the last ones.

    Examples:
        >>> mvrc.datasets.sp500(days=100).values.shape
        (100, 20)
    """
    with gzip.open(_installed(), "rt", encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    prices = np.array([row[1:] for row in rows], dtype=float)
    dates = np.array([int(row[0].replace("-", "")) for row in rows[1:]])
    values = 100 * (prices[1:] / prices[:-1] - 1)
    kept = last_days(days, len(values))
    return Returns(values[kept], tuple(header[1:]), dates[kept], ())


def _installed() -> Path:
    """The file in the package, found without an import of it."""
    spec = importlib.util.find_spec("skfolio")
    folders = [] if spec is None else spec.submodule_search_locations or []
    for folder in folders:
        if (file := Path(folder) / _FILE).is_file():
            return file
    raise extras.missing("sp500() needs skfolio, which has the prices", "data")
