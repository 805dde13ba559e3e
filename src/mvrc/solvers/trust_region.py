"""The trust region: how long a step may be, which steps are accepted, the step on its boundary.

Lengths are ‖Ds‖ in the metric D, so nothing here depends on the units of x.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class TrustRegion:
    """Accept or reject a step by its ratio ρ = actual / predicted decrease, and set the radius.

    Attributes:
        accept: least ρ of a step that is taken (Moré 1978, lmder).
        poor: ρ below which the radius shrinks (lmder).
        good: ρ from which on it grows (lmder).
        least, most: factors between which it shrinks, by the parabola through Φ and its slope at x
            and Φ at the trial (lmder); without a finite Φ it is the least.
        growth: radius over the length of a good step (lmder).
        first_growth: the same until the first rejection, where ρ is within `close` of 1. It was
            chosen on the NIST regressions: x0 may be far away, and its units say little.
        close: see first_growth.
    """

    accept: float = 1e-4
    poor: float = 0.25
    good: float = 0.75
    least: float = 0.1
    most: float = 0.5
    growth: float = 2.0
    first_growth: float = 10.0
    close: float = 0.1

    def radius(
        self, radius: float, length: float, ratio: float, actual: float, slope: float,
        damped: bool, rejected_before: bool,
    ) -> float:  # fmt: skip
        """The radius after a step of that length; `slope` is the derivative of Φ along it."""
        if length == 0:  # x stays, and nothing was learnt
            return radius
        shrinking = min(radius, length / self.least)
        if not np.isfinite(actual):
            return self.least * shrinking
        if ratio < self.poor:
            curvature = -actual - slope
            factor = self.most
            if actual < 0 and curvature > 0:
                factor = float(np.clip(-slope / (2 * curvature), self.least, self.most))
            return factor * shrinking
        if ratio >= self.good or not damped:
            first = not rejected_before and abs(ratio - 1) <= self.close
            return (self.first_growth if first else self.growth) * length
        return radius


def boundary(
    values: np.ndarray, slopes: np.ndarray, radius: float, floor: float
) -> tuple[np.ndarray, float]:
    """argmin cᵀz + ½Σλᵢzᵢ² over ‖z‖ ≤ radius, for eigenvalues λ (the least first) of any sign.

    After Moré & Sorensen, Computing a Trust Region Step, 1983: z = −c/(λ + δ) with δ ≥ 0, by
    Newton's method on 1/‖z‖, safeguarded. Returns z and δ. `floor` is the rounding of λ.
    """
    radius = max(radius, float(np.finfo(float).tiny))
    lowest = float(values.min())
    low = max(0.0, -lowest) + (floor if lowest <= floor else 0.0)

    def step(delta: float) -> np.ndarray:
        return -slopes / (values + delta)

    def length(delta: float) -> float:
        return float(np.linalg.norm(step(delta)))

    if length(low) <= radius:
        z = step(low)
        if lowest < -floor:  # the hard case: to the boundary along the lowest eigenvector
            at = int(values.argmin())
            left = np.sqrt(max(radius**2 - float(z @ z), 0.0))
            z[at] += -left if slopes[at] > 0 else left
        return z, low
    high = max(low, float(np.linalg.norm(slopes)) / radius) + floor
    while length(high) > radius:
        high *= 4
    delta = low
    for _ in range(100):
        z = step(delta)
        size = float(np.linalg.norm(z))
        if abs(size - radius) <= 0.1 * radius:
            break
        low, high = (delta, high) if size > radius else (low, delta)
        turn = float(np.sum(z * z / (values + delta)))
        further = (size - radius) / radius * size**2
        delta = delta + further / turn if turn > 0 else np.inf  # 0: squares that underflow
        if not low < delta < high:
            delta = max(float(np.sqrt(max(low, 1e-3 * high) * high)), low + (high - low) * 1e-3)
    return step(delta), delta


def damp(
    at: Any, length: Any, u: np.ndarray, radius: float, slope: float
) -> tuple[np.ndarray, float]:
    """u(δ) with a length of 0.7 to 1.1 times the radius.

    From δ = ‖D⁻¹∇F‖/radius, which is too long at most because of r, by factors of 8, then by
    bisection on log δ. `u` is u(0), which is too long.
    """
    least = float(np.finfo(float).tiny)
    low, high, delta = 0.0, np.inf, max(slope / max(radius, least), least)
    found = u
    for _ in range(40):
        u = at(delta, u)
        size = length(u)
        if size > 1.1 * radius:
            low = delta
        else:
            found, high = u, delta
            if size >= 0.7 * radius:
                break
        if high < np.inf and low > 0:
            if high <= 1.2 * low:
                break
            delta = float(np.sqrt(low * high))
        else:
            delta = 8 * delta if high == np.inf else delta / 8
    return found, delta if high == np.inf else high
