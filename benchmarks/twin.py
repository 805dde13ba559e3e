"""The twin: MVRC on the portfolio problem in plain NumPy, derivatives written by hand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.problems import ALPHA, RISK, SPARSITY, STEP


class Twin(NamedTuple):
    """The iterates between two epochs."""

    x: np.ndarray
    y: np.ndarray


def epoch(
    data: np.ndarray, state: Twin, rng: np.random.Generator, batch_size: int, period: int
) -> Twin:
    """One refresh and period − 1 small steps, the same arithmetic as `mvrc.MVRC`.

    A step gathers its rows once for both points; the two Jacobians are one matrix product. Rows
    are drawn with replacement, except that a batch of n is every row.
    """
    count = data.shape[0]
    x, y = state
    lam = (1 + ALPHA) * STEP
    weights = np.ones((4, batch_size), data.dtype)  # of the rows in both points' 2 × d Jacobians
    previous = inner = jacobian = None
    for t in range(period):
        point = (1 - ALPHA) * y + ALPHA * x
        if t == 0:
            gains = data @ point
            inner = np.array([gains.sum(), gains @ gains], data.dtype) / count
            jacobian = np.stack([data.sum(axis=0), 2 * (gains @ data)]) / count
        else:
            rows = data
            if batch_size != count:
                rows = data.take(rng.integers(0, count, batch_size), axis=0)
            new, old = rows @ point, rows @ previous
            change = [new.sum() - old.sum(), new @ new - old @ old]
            inner = inner + np.array(change, data.dtype) / batch_size
            weights[1], weights[3] = 2 * new, 2 * old
            both = (weights @ rows) / batch_size
            jacobian = jacobian + (both[:2] - both[2:])
        outer = np.array([-1 - 2 * RISK * inner[0], RISK], data.dtype)
        moved = x - lam * (outer @ jacobian)
        after = np.sign(moved) * np.maximum(np.abs(moved) - lam * SPARSITY, 0)
        y = point + (STEP / lam) * (after - x)
        x, previous = after, point
    return Twin(x, y)
