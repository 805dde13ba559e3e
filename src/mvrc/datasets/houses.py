"""House prices for sparse additive models: the Kaggle file "USA Housing" and its simulation."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mvrc.datasets import files
from mvrc.support import checks

_WANTED = files.Wanted("housing", ("usa_housing.csv", "USA_Housing.csv"), "simulate_housing")
_PRICE = "Price"
_FEATURES = (
    "Avg. Area Income",
    "Avg. Area House Age",
    "Avg. Area Number of Rooms",
    "Area Population",
)
# Of the file, each column divided by its mean: standard deviations of the features, and the least
# squares fit of the price. They give R² = 0.918.
_SPREAD = np.array([0.155, 0.166, 0.144, 0.274])
_SLOPES = np.array([1.201, 0.804, 0.690, 0.446])
_RESIDUAL = 0.082


class Housing(NamedTuple):
    """Features and prices, each column with root mean square 1, not centred.

    Examples:
        >>> houses = mvrc.datasets.simulate_housing(n=100)
        >>> round(float((houses.y**2).mean()), 6)  # root mean square 1
        1.0
    """

    X: np.ndarray  # houses × features: the four real ones first, then noise
    y: np.ndarray  # prices
    features: tuple[str, ...]  # their names


@checks.explain_keywords
def housing(path: str | Path | None = None, noise_features: int = 96, seed: int = 0) -> Housing:
    """The price of houses by income, age, rooms and population, and by features of pure noise.

    The file is "USA Housing" of Kaggle, 5,000 houses. It is searched for in `path`, else in the
    folder MVRC_DATA, in `../shared/data` and `shared/data`, and in the user's cache. It is never
    downloaded.

    Args:
        path: the file, or a folder with usa_housing.csv or USA_Housing.csv.
        noise_features: how many standard Gaussian features are added.
        seed: of the noise.

    Examples:
        >>> mvrc.datasets.housing("usa_housing.csv").X.shape  # doctest: +SKIP
        (5000, 100)
    """
    checks.integer("noise_features", noise_features, least=0)
    rng = np.random.default_rng(checks.seed("seed", seed))
    file = files.find(_WANTED, path)
    if file is None:
        raise files.missing(_WANTED, "")
    table = _read(file)
    return _scaled(table[:, :-1], table[:, -1], noise_features, rng)


@checks.explain_keywords
def simulate_housing(n: int = 5000, noise_features: int = 96, seed: int = 0) -> Housing:
    """Houses like those of the file: independent normal features, a linear price with noise.

    With every column in units of its mean, z_j = 1 + s_j ε_j and
    price = 1 + Σ_j b_j (z_j − 1) + s ε, where s_j, b_j and s are those of the file.

    Args:
        n: houses.
        noise_features: how many standard Gaussian features are added.
        seed: of all random numbers.

    Examples:
        >>> mvrc.datasets.simulate_housing(n=100, noise_features=2).X.shape
        (100, 6)
    """
    checks.integer("n", n)
    checks.integer("noise_features", noise_features, least=0)
    rng = np.random.default_rng(checks.seed("seed", seed))
    departures = _SPREAD * rng.standard_normal((n, len(_FEATURES)))
    prices = 1 + departures @ _SLOPES + _RESIDUAL * rng.standard_normal(n)
    return _scaled(1 + departures, prices, noise_features, rng)


def _scaled(
    features: np.ndarray, prices: np.ndarray, noise_features: int, rng: np.random.Generator
) -> Housing:
    noise = rng.standard_normal((len(prices), noise_features))
    names = (*_FEATURES, *(f"noise {k}" for k in range(1, noise_features + 1)))
    return Housing(_unit_rms(np.hstack([features, noise])), _unit_rms(prices), names)


def _unit_rms(columns: np.ndarray) -> np.ndarray:
    return columns / np.sqrt(np.mean(columns**2, axis=0))


def _read(file: Path) -> np.ndarray:
    """The four features and the price; the addresses have line breaks, so lines are not rows."""
    names = (*_FEATURES, _PRICE)
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            rows = [[row[name] for name in names] for row in csv.DictReader(stream)]
        table = np.array(rows, dtype=float)
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise _not_housing(file) from error
    if not table.size or not np.all(np.isfinite(table)):
        raise _not_housing(file)
    return table


def _not_housing(file: Path) -> ValueError:
    columns = ", ".join(repr(name) for name in (*_FEATURES, _PRICE))
    return ValueError(
        f"path {str(file)!r} is not a USA Housing file: it needs the columns {columns} with a "
        f"number in every row."
    )
