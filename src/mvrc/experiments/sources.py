"""Where an experiment's data come from: real files where they are, else generators."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from mvrc import datasets


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """Data of an experiment."""

    name: str
    title: str  # in words
    real: bool
    arrays: tuple[np.ndarray, ...]  # returns; or features and prices

    @property
    def n(self) -> int:
        return len(self.arrays[0])

    @property
    def size(self) -> str:
        """'24,452 × 30'."""
        return f"{self.n:,} × {self.arrays[0].shape[1]}"

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the numbers, so that a run is never taken for one on other data."""
        digest = hashlib.sha256()
        for array in self.arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


def find(names: tuple[str, ...], folder: str | Path | None) -> Source:
    """The first source that can be had; nothing is downloaded."""
    for name in names:
        try:
            return _SOURCES[name](folder)
        except (FileNotFoundError, ImportError):
            if name == names[-1]:
                raise
    raise ValueError("data is empty; an experiment needs at least one source.")


def _industry(count: int, days: int) -> Any:
    def load(folder: str | Path | None) -> Source:
        reader = datasets.industry30 if count == 30 else datasets.industry38
        data = reader(folder, download=False)
        if len(data.values) > days:  # first cut, then drop what is mostly missing
            data = reader(folder, days, download=False)
        values = data.values
        dropped = f", {len(data.dropped)} mostly missing dropped" if data.dropped else ""
        title = (
            f"{count} industry portfolios of the French library, daily "
            f"{data.dates[-len(values)]}–{data.dates[-1]}{dropped}"
        )
        return Source(f"industry{count}", title, True, (values,))

    return load


def _simulated_industry(count: int, days: int) -> Any:
    def load(folder: str | Path | None) -> Source:
        data = datasets.simulate_industry(n=days, d=count)
        title = "simulated industry returns at the paper's size"
        return Source(f"simulated-industry{count}", title, False, (data.values,))

    return load


def _housing(folder: str | Path | None) -> Source:
    data = datasets.housing(folder)
    title = "USA Housing: four real features and 96 of noise"
    return Source("housing", title, True, (data.X, data.y))


def _simulated_housing(folder: str | Path | None) -> Source:
    data = datasets.simulate_housing()
    title = "simulated house prices: four features that matter and 96 of noise"
    return Source("simulated-housing", title, False, (data.X, data.y))


def _sp500(folder: str | Path | None) -> Source:
    data = datasets.sp500()
    title = f"20 stocks of the S&P 500, daily {data.dates[0]}–{data.dates[-1]}"
    return Source("sp500", title, True, (data.values,))


_SOURCES = {
    "industry30": _industry(30, 24_452),
    "industry38": _industry(38, 10_000),
    "simulated-industry30": _simulated_industry(30, 24_452),
    "simulated-industry38": _simulated_industry(38, 10_000),
    "housing": _housing,
    "simulated-housing": _simulated_housing,
    "sp500": _sp500,
}
_HOUSES = ("housing", "simulated-housing")
OF_PROBLEM = {  # which data a problem is made of
    "portfolio": tuple(name for name in _SOURCES if name not in _HOUSES),
    "spam": _HOUSES,
}
