"""Exponents of growth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """k of time ~ sizeᵏ, by least squares on the logarithms."""
    slope, _ = np.polyfit(np.log(sizes), np.log(times), 1)
    return float(slope)
