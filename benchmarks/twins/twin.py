"""The twin: MVRC on the portfolio problem in plain NumPy, derivatives written by hand.

Two versions of one algorithm. `epoch` is tuned for speed;
`read_epoch` is plain: written as the formulas read, and what the demand is judged against.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.cases.problems import ALPHA, RISK, SPARSITY, STEP

LAM = (1 + ALPHA) * STEP


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
        after, y = _move(x, point, inner, jacobian)
        x, previous = after, point
    return Twin(x, y)


def read_epoch(
    data: np.ndarray, state: Twin, rng: np.random.Generator, batch_size: int, period: int
) -> Twin:
    """The same as `epoch`, as the formulas read."""
    count = data.shape[0]
    x, y = state
    previous = inner = jacobian = None
    for t in range(period):
        point = (1 - ALPHA) * y + ALPHA * x
        if t == 0:
            inner, jacobian = _moments(data, point)
        else:
            rows = data if batch_size == count else data[rng.integers(0, count, batch_size)]
            new, new_jacobian = _moments(rows, point)
            old, old_jacobian = _moments(rows, previous)
            inner = inner + new - old
            jacobian = jacobian + new_jacobian - old_jacobian
        after, y = _move(x, point, inner, jacobian)
        x, previous = after, point
    return Twin(x, y)


def _moments(rows: np.ndarray, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """g_A and g'_A."""
    gains = rows @ point
    value = np.array([gains.mean(), (gains**2).mean()])
    return value, np.stack([rows.mean(axis=0), 2 * (gains @ rows) / len(rows)])


def _move(
    x: np.ndarray, point: np.ndarray, inner: np.ndarray, jacobian: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of f, proximal step, momentum: the next x and y."""
    outer = np.array([-1 - 2 * RISK * inner[0], RISK], x.dtype)
    moved = x - LAM * (outer @ jacobian)
    after = np.sign(moved) * np.maximum(np.abs(moved) - LAM * SPARSITY, 0)
    return after, point + (STEP / LAM) * (after - x)
