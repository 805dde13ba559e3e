"""The metric of the projected Bellman residual: features whitened, once, by linear algebra."""

from __future__ import annotations

import numpy as np

# A direction in which features of equal size spread by less than this many roundings is a linear
# dependence that rounding has hidden. Rounding the d columns moves a singular value by at most
# √d/2 roundings of the largest (Weyl); columns that were computed have a few more.
_ROUNDINGS = 10


def column_scales(features: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """1/√Σ_s ω_s φ_sj², which gives the columns equal size; 1 for a column of zeros."""
    size = np.sqrt(shares @ features**2)
    return np.divide(1, size, out=np.ones_like(size), where=size > 0)


def whitening(features: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """W, d × m, for which ψ = Wᵀφ has Σ_s ω_s ψ_sψ_sᵀ = I; m is the rank of the features.

    Then ‖Σ_s ω_s ψ_s y_s‖² = bᵀC⁺b for b = Σ_s ω_s φ_s y_s and C = Σ_s ω_s φ_sφ_sᵀ. From Φ itself,
    as C has the square of its condition number.

    Args:
        features: Φ, S × d, in the precision in which they were given.
        shares: ω in float64, which sum to one.
    """
    scale = column_scales(features, shares)
    upper = np.linalg.qr(np.sqrt(shares)[:, None] * features * scale, mode="r")
    _, spread, axes = np.linalg.svd(upper, full_matrices=False)
    rounding = np.finfo(features.dtype).eps
    kept = spread > _ROUNDINGS * rounding * np.sqrt(len(scale)) * spread[0]
    kept[0] = True  # of nothing but zeros one direction is left, in which nothing happens
    inverse = np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0)
    return np.asarray(scale[:, None] * (inverse[kept, None] * axes[kept]).T)
