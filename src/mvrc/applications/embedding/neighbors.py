"""Who is whose neighbour in the data, with what probability."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from mvrc.support import checks
from mvrc.support.numerics import divide


class Neighbors(NamedTuple):
    """For each point k its neighbours i ≠ k, nearest first, and p_{i|k}, which sums to 1."""

    nearest: np.ndarray  # n × kept, the indices i
    probability: np.ndarray  # n × kept


def neighbors(
    data: Any, perplexity: float | None = None, sigma: float = 1.0, keep: int | None = None
) -> Neighbors:
    """p_{i|k} = s(zᵢ, zₖ)/Σ_{j≠k} s(zⱼ, zₖ), over the `keep` nearest."""
    points = _check_points(data)
    n = len(points)
    kept = n - 1 if keep is None else min(checks.integer("keep", keep), n - 1)
    index, square = _nearest(points, kept)
    if perplexity is None:
        log_weight = -square / (2 * checks.positive("sigma", sigma) ** 2)
        probability = _softmax(log_weight)
    else:
        if not 1 < checks.positive("perplexity", perplexity) < kept:
            raise ValueError(
                f"perplexity must lie between 1 and the number of neighbours, {kept}, not "
                f"{perplexity}."
            )
        _refuse_copies(points, perplexity)
        probability = calibrate(square, perplexity)
    kind = points.dtype if points.dtype == np.float32 else np.float64
    return Neighbors(index.astype(np.int32), probability.astype(kind))


def calibrate(square: np.ndarray, perplexity: float, rounds: int = 64) -> np.ndarray:
    """Probabilities ∝ exp(−b d²) row by row, with b by bisection on the entropy log(perplexity)."""
    # Relative to the nearest, so that a point far from all others is like any other.
    square = square - square[:, :1]
    spread = square.mean(axis=1)
    low = np.zeros(len(square))
    high = np.full(len(square), np.inf)
    b = divide(1.0, spread, 1.0)
    for _ in range(rounds):
        p = _softmax(-b[:, None] * square)
        entropy = -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=1)
        wide = entropy > np.log(perplexity)
        low, high = np.where(wide, b, low), np.where(wide, high, b)
        b = np.where(np.isinf(high), 2 * b, (low + high) / 2)
        if np.all(np.abs(entropy - np.log(perplexity)) < 1e-10):
            break
        b = np.minimum(b, 1e300)  # rows of equal distances have one entropy for every b
    return p


def _nearest(points: np.ndarray, kept: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices and squared distances of each point's nearest others, in blocks of rows.

    The distances are Σ(a − b)² in float64. ‖a‖² + ‖b‖² − 2aᵀb, where a matrix product does the
    work, loses the distances inside of clusters that are far apart: it only finds candidates, and
    where its rounding errors leave a doubt all distances of a row are taken.
    """
    n = len(points)
    index = np.empty((n, kept), np.int64)
    square = np.empty((n, kept))
    centred = np.asarray(points, np.float64) - points.mean(axis=0, dtype=np.float64)
    norms = np.sum(centred**2, axis=1)
    error = 4 * np.finfo(np.float64).eps * (points.shape[1] + 4) * norms.max()
    some = min(2 * kept + 8, n - 1)
    for start in range(0, n, 1024):
        rows = np.arange(start, min(start + 1024, n))
        about = norms - 2 * (centred[rows] @ centred.T)  # less ‖a‖²
        about[np.arange(len(rows)), rows] = np.inf  # not its own neighbour
        chosen = np.argpartition(about, some - 1, axis=1)[:, :some]
        last = norms[rows] + np.take_along_axis(about, chosen, 1).max(axis=1)
        found = np.empty(chosen.shape)
        for i, row in enumerate(rows):
            found[i] = cdist(points[row : row + 1], points[chosen[i]], "sqeuclidean")[0]
        order = np.argsort(found, axis=1)[:, :kept]
        index[rows] = np.take_along_axis(chosen, order, 1)
        square[rows] = np.take_along_axis(found, order, 1)
        # Those that were not chosen are at least as far as the last, up to the error.
        if some < n - 1:
            _compare_all(points, rows[~(square[rows, -1] < last - error)], index, square)
    return index, square


def _compare_all(points: np.ndarray, rows: np.ndarray, index: Any, square: Any) -> None:
    """The same by all distances, for some rows, written into the tables."""
    kept = index.shape[1]
    for few in np.array_split(rows, -(-len(rows) // 1024) or 1):
        block = cdist(points[few], points, "sqeuclidean")
        block[np.arange(len(few)), few] = np.inf
        nearest = np.argpartition(block, kept - 1, axis=1)[:, :kept]
        order = np.argsort(np.take_along_axis(block, nearest, 1), axis=1)
        index[few] = np.take_along_axis(nearest, order, 1)
        square[few] = np.take_along_axis(block, index[few], 1)


def _refuse_copies(points: np.ndarray, perplexity: float) -> None:
    """A point with m duplicates has them at distance 0, so a perplexity of at least m."""
    copies = int(np.unique(points + 0.0, axis=0, return_counts=True)[1].max())  # −0 is 0
    if copies - 1 > perplexity:
        raise ValueError(
            f"data has a point in {copies} copies, so {copies - 1} others at distance 0, more "
            f"than the perplexity, {perplexity:g}: no bandwidth gives it; remove duplicates, for "
            f"instance by np.unique(data, axis=0), or raise perplexity."
        )


def _softmax(log_weight: np.ndarray) -> np.ndarray:
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def _check_points(data: Any) -> np.ndarray:
    points = np.asarray(data)
    if points.dtype.kind not in "iuf" or points.ndim != 2:
        raise ValueError(
            f"data must be a table of numbers, points × coordinates, not an array of dtype "
            f"{points.dtype} and shape {points.shape}."
        )
    if len(points) < 4:
        raise ValueError(f"data must have at least four points, and has n_samples = {len(points)}.")
    points = points if points.dtype == np.float32 else points.astype(float)
    if not np.isfinite(points).all():
        raise ValueError("data contains NaN or inf; remove or fill those points first.")
    return points
