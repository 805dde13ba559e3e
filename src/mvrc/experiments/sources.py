"""Where an experiment's data come from: real files where they are, else generators."""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mvrc import datasets
from mvrc.experiments import loading

OF_DATES = 1e7  # a first number as large is a date, yyyymmdd


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """Data of an experiment."""

    name: str
    title: str  # in words
    real: bool
    arrays: tuple[np.ndarray, ...]  # returns; or features and prices; or those of a problem
    code: bytes = b""  # of a problem of the user's

    @property
    def n(self) -> int:
        return len(self.arrays[0])

    @property
    def size(self) -> str:
        """'24,452 × 30'."""
        shape = self.arrays[0].shape
        return f"{self.n:,} × {shape[1]}" if len(shape) > 1 else f"{self.n:,}"

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the numbers, so that a run is never taken for one on other data."""
        digest = hashlib.sha256(self.code)
        for array in self.arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


def find(names: tuple[str, ...], folder: str | Path | None, problem: str = "portfolio") -> Source:
    """The first source that can be had; nothing is downloaded."""
    own = is_own(problem)
    if own and not names:
        return _of_problem(problem)
    for name in names:
        try:
            found = _table(name, problem) if is_file(name) else _SOURCES[name](folder)
            return _with_code(found, problem) if own else found
        except (FileNotFoundError, ImportError):
            if name == names[-1]:
                raise
    raise ValueError("data is empty; an experiment needs at least one source.")


def is_own(name: str) -> bool:
    """Whether a problem or recipe is `module:name`, the user's."""
    return isinstance(name, str) and ":" in name


def is_file(name: str) -> bool:
    return name.endswith(".csv")


def _table(name: str, problem: str) -> Source:
    """A CSV file with a header; a first column of dates is left out. Of spam the last is y."""
    with Path(name).expanduser().open(newline="", encoding="utf-8-sig") as stream:
        header, *rows = [row for row in csv.reader(stream) if row]
    first = 0 if _number(rows[0][0]) and float(rows[0][0]) < OF_DATES else 1
    try:
        values = np.array([[float(cell) for cell in row[first:]] for row in rows])
    except ValueError as error:
        raise ValueError(
            f"{name} must have a header and then rows of numbers, after at most one column of "
            f"dates: {error}."
        ) from None
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} has missing values; drop or fill them.")
    arrays = (values[:, :-1], values[:, -1]) if problem == "spam" else (values,)
    return Source(name, f"{name}: {', '.join(header[first:][:4])}, …", True, arrays)


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _of_problem(problem: str) -> Source:
    """Of a problem that has its data: they and the code are what a run depends on."""
    made, _ = loading.load(problem)
    if made.n is None:
        raise ValueError(f"{problem} has a stream, which no experiment can be; give arrays.")
    leaves = jax.tree_util.tree_leaves((made.inner_data, made.outer_data))
    arrays = tuple(np.asarray(leaf) for leaf in leaves)
    return _with_code(Source(problem, f"data of {problem}", True, arrays), problem)


def _with_code(source: Source, problem: str) -> Source:
    module, _ = loading.find(problem)
    code = Path(module.__file__ or "").read_bytes() if module.__file__ else b""
    return dataclasses.replace(source, code=code)


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
KNOWN = tuple(_SOURCES)
_HOUSES = ("housing", "simulated-housing")
OF_PROBLEM = {  # which data a problem is made of
    "portfolio": tuple(name for name in _SOURCES if name not in _HOUSES),
    "spam": _HOUSES,
}
