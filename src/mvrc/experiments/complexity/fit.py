"""Exponents with confidence intervals from the seeds."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
# Quantiles 0.975 of Student's t for 1, 2, … degrees of freedom; beyond the last, the normal's.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
      2.145, 2.131)  # fmt: skip


class Estimate(NamedTuple):
    """A mean over the seeds and half the width of its 95 % interval."""

    value: float
    half: float
    seeds: int

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half

    def text(self) -> str:
        """'0.51 ± 0.02'; a dash where there is none."""
        if not math.isfinite(self.value):
            return "–"
        return f"{self.value:.2f}" + (f" ± {self.half:.2f}" if math.isfinite(self.half) else "")


NONE = Estimate(math.nan, math.nan, 0)


def jackknife(values: np.ndarray) -> Estimate:
    """A number from all seeds, then the same without one of them each (Efron & Stein, 1981).

    With k seeds the standard error is √((k−1)/k Σ(θᵢ − θ̄)²); the interval has Student's t.
    """
    rest, count = values[1:], len(values) - 1
    if not np.all(np.isfinite(values)):
        return NONE
    if count < 2:
        return Estimate(float(values[0]), 0.0, 1)
    error = math.sqrt((count - 1) / count * float(np.sum((rest - rest.mean()) ** 2)))
    t = _T[count - 2] if count - 2 < len(_T) else 1.96
    return Estimate(float(values[0]), t * error, count)


def exponent(at: np.ndarray, samples: np.ndarray) -> Estimate:
    """The slope of log samples over log `at`, by least squares.

    Args:
        at: n, N, v or 1/ε, one for each point.
        samples: points × (all seeds, then without one of them); a point that is not reached makes
            no exponent.
    """
    if len(at) < 2 or not np.all(np.isfinite(samples)) or np.any(samples <= 0):
        return NONE
    x = np.log(at) - np.mean(np.log(at))
    return jackknife(x @ np.log(samples) / np.sum(x**2))
