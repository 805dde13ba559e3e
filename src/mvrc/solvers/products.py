"""What products with ∇²F tell, where no matrix is kept: steps, and the metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Truncated(NamedTuple):
    """What conjugate gradients on the true curvature found."""

    step: np.ndarray
    predicted: float  # decrease: a lower bound, exact when solved
    minimum: bool  # no direction of negative curvature was met
    solved: bool
    products: int


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], solve: Callable[[np.ndarray], np.ndarray],
    g: np.ndarray, D: np.ndarray, eps: float, most: int, share: float = 1e-2,
) -> Truncated:  # fmt: skip
    """argmin ⟨g, s⟩ + ½⟨s, Hs⟩, preconditioned by `solve`, until a `share` of gᵀM⁻¹g is left."""
    s, residual = np.zeros_like(g), -g
    z = solve(residual)
    p, rz = z, float(residual @ z)
    begin, predicted = rz, 0.0
    for k in range(most):
        if not rz > share * begin:
            return Truncated(s, predicted, True, True, k)
        image = product(p)
        curvature = float(p @ image)
        if not curvature > len(g) * eps * float((D * p) @ (D * p)):
            return Truncated(s if k else p, max(predicted, rz), False, False, k + 1)
        a = rz / curvature
        s, residual = s + a * p, residual - a * image
        predicted += 0.5 * a * rz
        z = solve(residual)
        rz, old = float(residual @ z), rz
        p = z + (rz / old) * p
    return Truncated(s, predicted, True, rz <= share * begin, most)


def equilibrate(
    product: Callable[[np.ndarray], np.ndarray], d: int, start: np.ndarray | None,
    rounds: int = 4, probes: int = 2,
) -> np.ndarray:  # fmt: skip
    """D² such that the rows of D⁻¹HD⁻¹ are of equal norm, from products with random signs; 0 of
    rows that are 0: with a D that is next to nothing they would hide all others.

    After Ruiz 2001 and Bradley & Murray 2011. From D = 1 the norms have Dᵢ in them once: the first
    round takes them whole, the others by their root. With a `start` there is one round, in which
    unknowns without one take no part, and have the norm of their row of HD⁻¹. Where H is 0, or no
    number, D² is 0 without a start: 1 would be a unit of x.
    """
    rng = np.random.default_rng(0)
    begun = start is not None and bool(np.any(start))
    known = start > 0 if start is not None and begun else np.ones(d, bool)
    D = np.ones(d) if start is None else np.sqrt(np.where(known & begun, start, 1.0))
    there = known
    for k in range(1 if begun else rounds):
        square = np.zeros(d)
        for _ in range(probes):
            square += (product(there * rng.choice([-1.0, 1.0], d) / D) / D) ** 2
        norm = np.sqrt(square / probes)
        top = norm[known].max()
        if not (np.isfinite(top) and top > 0):
            there = there & (k > 0 or begun)
            break
        whole = k == 0 and not begun
        there = np.where(known, there & (norm > 1e-30 * top), norm > 0)
        norm = np.where(known, np.maximum(norm, top * (1e-30 if whole else 1e-12)), norm)
        scaled = norm / np.sqrt(top) if whole else np.sqrt(norm)
        D = np.where(there, D * np.where(known, scaled, norm), D)
    return there * D * D
