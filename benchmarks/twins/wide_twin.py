"""The twin of the wide problem in plain NumPy: g(x, a) = tanh(W(a∘x)), derivatives by hand.

g'(x, a) = diag(1 − g²) W diag(a), so a batch's mean Jacobian is W∘((1 − g²)ᵀA)/S and its product
with u is the column sum of (((1 − g²)∘u)W)∘A, over S.
"""

from __future__ import annotations

import numpy as np

from benchmarks.cases.problems import ALPHA, SPARSITY, STEP
from benchmarks.twins.twin import LAM, Twin


def epoch(
    data: np.ndarray,
    mix: np.ndarray,
    matrix: bool,
    state: Twin,
    rng: np.random.Generator,
    batch_size: int,
    period: int,
) -> Twin:
    """One refresh and period − 1 small steps, with the Jacobian as a matrix or free of it."""
    x, y = state
    previous = inner = held = outer = None
    for t in range(period):
        point = (1 - ALPHA) * y + ALPHA * x
        if t == 0:
            inner = _values(data, mix, point).mean(axis=0)
            outer = _outer(inner)
            held = _slope(data, mix, point, None if matrix else outer)
        else:
            rows = _drawn(data, rng, batch_size)
            change = _values(rows, mix, point) - _values(rows, mix, previous)
            inner, before = inner + change.mean(axis=0), outer
            outer = _outer(inner)
            new, old = (None, None) if matrix else (outer, before)
            apart = rows if matrix else _drawn(data, rng, batch_size)  # A', which is A of a matrix
            held = held + _slope(apart, mix, point, new) - _slope(apart, mix, previous, old)
        moved = x - LAM * (outer @ held if matrix else held)
        after = np.sign(moved) * np.maximum(np.abs(moved) - LAM * SPARSITY, 0)
        y = point + (STEP / LAM) * (after - x)
        x, previous = after, point
    return Twin(x, y)


def _drawn(data: np.ndarray, rng: np.random.Generator, size: int) -> np.ndarray:
    """Rows with replacement; a batch of n is every row."""
    return data if size == len(data) else data[rng.integers(0, len(data), size)]


def _values(rows: np.ndarray, mix: np.ndarray, point: np.ndarray) -> np.ndarray:
    """g of each row."""
    return np.tanh((rows * point) @ mix.T)


def _outer(y: np.ndarray) -> np.ndarray:
    """∇f for f(y) = mean of y² − y."""
    return (2 * y - 1) / y.size


def _slope(
    rows: np.ndarray, mix: np.ndarray, point: np.ndarray, cotangent: np.ndarray | None
) -> np.ndarray:
    """The mean Jacobian, or its product with a cotangent."""
    bent = 1 - _values(rows, mix, point) ** 2
    if cotangent is None:
        return mix * (bent.T @ rows) / len(rows)
    return (((bent * cotangent) @ mix) * rows).sum(axis=0) / len(rows)
