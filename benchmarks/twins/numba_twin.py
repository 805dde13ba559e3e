"""The twin in Numba: the same arithmetic as `twin.epoch`, compiled loops written by hand.

A row is read once for both points: its two products and its share of both Jacobians are made while
it lies in the cache. The random generator is Numba's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.cases.problems import ALPHA, RISK, SPARSITY, STEP
from benchmarks.twins.twin import LAM, Twin


def epoch(
    data: np.ndarray, state: Twin, rng: np.random.Generator, batch_size: int, period: int
) -> Twin:
    """One refresh and period − 1 small steps."""
    return Twin(*_compiled()(data, *state, rng, batch_size, period))


@functools.cache
def _compiled() -> Callable[..., Any]:
    """The loops, compiled; Numba is imported here."""
    import numba

    fast = numba.njit(fastmath=True)

    @fast
    def refresh(data, point, inner, jacobian):
        count, width = data.shape
        inner[:] = 0
        jacobian[:] = 0
        for i in range(count):
            gain = data.dtype.type(0)
            for j in range(width):
                gain += data[i, j] * point[j]
            inner[0] += gain
            inner[1] += gain * gain
            for j in range(width):
                jacobian[0, j] += data[i, j]
                jacobian[1, j] += 2 * gain * data[i, j]
        inner /= count
        jacobian /= count

    @fast
    def follow(data, chosen, point, previous, inner, jacobian, change):
        width = data.shape[1]
        first = second = data.dtype.type(0)
        change[:] = 0
        for i in chosen:
            new = old = data.dtype.type(0)
            for j in range(width):
                new += data[i, j] * point[j]
                old += data[i, j] * previous[j]
            first += new - old
            second += new * new - old * old
            weight = 2 * (new - old)
            for j in range(width):
                change[j] += weight * data[i, j]
        inner[0] += first / chosen.size
        inner[1] += second / chosen.size
        for j in range(width):
            jacobian[1, j] += change[j] / chosen.size

    @fast
    def run(data, x, y, rng, batch_size, period):
        count, width = data.shape
        x, y = x.copy(), y.copy()
        point, previous, change = np.empty_like(x), np.empty_like(x), np.empty_like(x)
        inner, jacobian = np.empty(2, data.dtype), np.empty((2, width), data.dtype)
        chosen = np.arange(batch_size)
        for t in range(period):
            for j in range(width):
                point[j] = (1 - ALPHA) * y[j] + ALPHA * x[j]
            if t == 0:
                refresh(data, point, inner, jacobian)
            else:
                if batch_size != count:
                    for i in range(batch_size):
                        chosen[i] = rng.integers(0, count)
                follow(data, chosen, point, previous, inner, jacobian, change)
            slope = -1 - 2 * RISK * inner[0]
            for j in range(width):
                moved = x[j] - LAM * (slope * jacobian[0, j] + RISK * jacobian[1, j])
                after = max(moved - LAM * SPARSITY, 0) - max(-moved - LAM * SPARSITY, 0)
                y[j] = point[j] + (STEP / LAM) * (after - x[j])
                x[j] = after
                previous[j] = point[j]
        return x, y

    return run
