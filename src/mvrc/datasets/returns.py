"""What every loader and generator of returns gives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mvrc.support import checks, extras


class Returns(NamedTuple):
    """Daily returns in percent.

    Examples:
        >>> mvrc.datasets.simulate_industry(n=100, d=4).assets
        ('asset 1', 'asset 2', 'asset 3', 'asset 4')
    """

    values: np.ndarray  # days × assets
    assets: tuple[str, ...]
    dates: np.ndarray  # yyyymmdd
    dropped: tuple[str, ...]  # assets left out because they were mostly missing

    def to_pandas(self) -> Any:
        """The values as a pandas DataFrame: the days as index, the assets as columns."""
        try:
            import pandas
        except ImportError as error:
            raise extras.missing("to_pandas() needs pandas", "pandas") from error
        days = pandas.to_datetime(self.dates.astype(str), format="%Y%m%d")
        return pandas.DataFrame(self.values, index=days, columns=list(self.assets))


def last_days(days: int | None, available: int) -> slice:
    """The rows of the last so many days; None is all. More than there are is refused."""
    if days is None:
        return slice(None)
    if checks.integer("days", days) > available:
        raise ValueError(f"days must be at most {available}, the days of the file, not {days}.")
    return slice(available - int(days), None)
