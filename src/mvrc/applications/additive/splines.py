"""B-splines of one feature, centred and orthonormal on the data they were made from."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.interpolate import BSpline

_RANK = 1e-7  # singular values below this are rounding: basis functions lie in [0, 1]
_ROUNDING = 1e-13  # a column whose range is a smaller share of its size is constant


@dataclasses.dataclass(frozen=True)
class SplineBasis:
    """Functions b_1, …, b_k of one feature x with mean b = 0 and mean b bᵀ = I on the data.

    b(x) = (φ(x) − mean φ) T, φ the B-splines of the degree with knots at quantiles of the data,
    T = V S⁻¹ from the singular values of the centred φ. Directions without variation are left
    out, so k is smaller for a feature with few distinct values, and 0 for a constant one. Outside
    of the data's range the functions keep their value at its end.
    """

    knots: np.ndarray  # with the ends repeated, as BSpline wants them
    degree: int
    means: np.ndarray  # of φ
    transform: np.ndarray  # T, one column for each function

    @classmethod
    def of(cls, x: np.ndarray, n_knots: int, degree: int) -> tuple[SplineBasis, np.ndarray]:
        """The basis for the numbers x, and its values there: len(x) rows, k columns."""
        inside = np.unique(np.quantile(x, np.linspace(0, 1, n_knots)))
        low, high = inside[0], inside[-1]
        if high - low <= _ROUNDING * max(abs(low), abs(high)):
            empty = cls(inside[:1], degree, np.zeros(0), np.zeros((0, 0)))
            return empty, np.zeros((len(x), 0))
        knots = np.concatenate([[low] * degree, inside, [high] * degree])
        raw = cls(knots, degree, np.zeros(0), np.zeros((0, 0)))._splines(x)
        means = raw.mean(axis=0)
        centred = raw - means
        _, sizes, directions = np.linalg.svd(centred / np.sqrt(len(x)), full_matrices=False)
        kept = sizes > _RANK
        transform = directions[kept].T / sizes[kept]
        return cls(knots, degree, means, transform), centred @ transform

    @property
    def size(self) -> int:
        """k, the number of functions."""
        return self.transform.shape[1]

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest number of the data."""
        return float(self.knots[0]), float(self.knots[-1])

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The functions at the numbers x: len(x) rows, k columns."""
        if self.size == 0:
            return np.zeros((len(x), 0))
        return (self._splines(x) - self.means) @ self.transform

    def _splines(self, x: np.ndarray) -> np.ndarray:
        inside = np.clip(np.asarray(x, float), *self.range)
        return BSpline.design_matrix(inside, self.knots, self.degree).toarray()
