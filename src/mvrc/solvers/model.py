"""Quadratic models of F: a measured matrix, or secants; their spectrum, their minimum with r."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mvrc.solvers.penalty import Penalty
from mvrc.solvers.trust_region import boundary, damp
from mvrc.support.numerics import extrapolate

STEPS = 500  # most prox of one model problem
EXACT, ROUGH = 1e-10, 1e-3  # tolerances of model problems: undamped (float32: its root), damped
ROUGH_STEPS = 20  # most prox of a damped one
ROUNDING = 8.0  # roundings of u: a prox residual of so many is as good as none
NEWTON = 10  # semismooth Newton steps; steps of FISTA before the first of them, each time doubled


class Spectrum(NamedTuple):
    """Eigenvalues and eigenvectors of D⁻¹BD⁻¹; all that is orthogonal to them has `rest`."""

    values: np.ndarray
    vectors: np.ndarray  # d × k
    rest: float | None  # None: k = d

    @property
    def lowest(self) -> float:
        return float(self.values.min(initial=np.inf if self.rest is None else self.rest))

    @property
    def largest(self) -> float:
        size = np.abs(self.values).max(initial=0.0)
        return float(size if self.rest is None else max(size, abs(self.rest)))

    def apply(self, function: Callable[[np.ndarray], np.ndarray], v: np.ndarray) -> np.ndarray:
        """V function(λ) Vᵀ v, for a function of many eigenvalues."""
        within = self.vectors.T @ v
        found = self.vectors @ (function(self.values) * within)
        if self.rest is None:
            return found
        return found + function(np.array([self.rest]))[0] * (v - self.vectors @ within)

    def matrix(self, delta: float, D: np.ndarray) -> np.ndarray:
        """B + δD²."""
        rest = 0.0 if self.rest is None else self.rest
        scaled = (self.vectors * (self.values - rest)) @ self.vectors.T
        scaled[np.diag_indices(len(D))] += rest + delta
        return D[:, None] * scaled * D[None, :]

    def within(self, slope: np.ndarray, radius: float, floor: float) -> tuple[np.ndarray, float]:
        """argmin ⟨slope, z⟩ + ½⟨z, Bz⟩ over ‖z‖ ≤ radius, and δ."""
        slopes, values = self.vectors.T @ slope, self.values
        if self.rest is None:
            z, delta = boundary(values, slopes, radius, floor)
            return self.vectors @ z, delta
        across = slope - self.vectors @ slopes
        length = float(np.linalg.norm(across))
        z, delta = boundary(np.append(values, self.rest), np.append(slopes, length), radius, floor)
        unit = across / length if length > 0 else across
        return self.vectors @ z[:-1] + z[-1] * unit, delta


def matrix_spectrum(matrix: np.ndarray, D: np.ndarray) -> Spectrum:
    """Of D⁻¹HD⁻¹."""
    scaled = matrix / D[:, None] / D[None, :]
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    return Spectrum(values, vectors, None)


def secant_spectrum(sigma: float, s: np.ndarray, y: np.ndarray, D: np.ndarray) -> Spectrum:
    """Of limited-memory BFGS from σD² and pairs (s, y), one a row, the newest last.

    B = σI − WᵀMW in the coordinates Dx (Byrd, Nocedal & Schnabel 1994).
    """
    if not len(s):
        return Spectrum(np.zeros(0), np.zeros((len(D), 0)), sigma)
    s, y = s * D, y / D
    products = s @ y.T
    lower = np.tril(products, -1)
    corner = np.diag(np.diagonal(products))
    middle = np.linalg.inv(np.block([[sigma * s @ s.T, lower], [lower.T, -corner]]))
    q, r = np.linalg.qr(np.concatenate([sigma * s, y]).T)
    small = sigma * np.eye(len(r)) - r @ middle @ r.T
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    return Spectrum(values, q @ vectors, sigma)


def bfgs(matrix: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """B − Bss'B/s'Bs + yy'/s'y; B itself where either is not positive."""
    image = matrix @ s
    along, observed = float(s @ image), float(s @ y)
    if not (along > 0 and observed > 0):
        return matrix
    return matrix - np.outer(image, image) / along + np.outer(y, y) / observed


def solve_scaled(matrix: np.ndarray, b: np.ndarray, eps: float) -> tuple[np.ndarray, float] | None:
    """M⁻¹b and ½bᵀM⁻¹b, after scaling M to a unit diagonal; None if not surely positive definite.

    With a unit diagonal the error depends on the condition of the scaled matrix alone, not on
    units (van der Sluis 1969). `eps` is the relative error of the entries of M.
    """
    diagonal = np.diagonal(matrix)
    if not np.all(np.isfinite(matrix)) or np.any(diagonal <= 0):
        return None
    e = np.sqrt(diagonal)
    values, vectors, _ = matrix_spectrum(matrix, e)
    if not values[0] > len(b) * eps * values[-1]:  # its sign is rounding
        return None
    c = vectors.T @ (b / e)
    return (vectors @ (c / values)) / e, 0.5 * float(c @ (c / values))


class Minimum(NamedTuple):
    """Of a model problem."""

    u: np.ndarray
    solved: bool  # to the tolerance


def minimise(
    apply: Callable[[np.ndarray], np.ndarray], top: float, g: np.ndarray, x: np.ndarray,
    penalty: Penalty, D: np.ndarray, start: np.ndarray, tolerance: float,
    matrix: np.ndarray | None = None, most: int = STEPS,
) -> Minimum:  # fmt: skip
    """argmin over u of ⟨g, u − x⟩ + ½⟨u − x, B(u − x)⟩ + r(u), B positive definite.

    In the coordinates Du. FISTA with restart (O'Donoghue & Candès 2015) finds the active pieces of
    r; with the matrix, semismooth Newton on u = prox(u − ∇q(u)/L) then ends it.

    Args:
        apply: v ↦ Bv.
        top: a bound of the largest eigenvalue of D⁻¹BD⁻¹.
        start: where to begin, if it is better than x.
        tolerance: of the prox residual, relative to that at x.
        matrix: B, where it is known.
    """
    t = 1 / (top * D * D)

    def forward(u: np.ndarray) -> np.ndarray:
        return penalty.prox(u - t * (g + apply(u - x)), t)

    def size(v: np.ndarray) -> float:
        return float(np.linalg.norm(D * v))

    def rounding(v: np.ndarray) -> float:
        return ROUNDING * np.finfo(float).eps * size(v)

    first_step = forward(x)
    first = size(first_step - x)
    best, best_size, u = first_step, np.inf, first_step
    if not np.array_equal(start, x):
        moved = forward(start)
        if size(moved - start) < size(forward(u) - u):
            u = moved
    if first == 0:
        return Minimum(x, True)
    ahead, momentum, made, row = u, 1.0, 0, NEWTON
    while made < most and best_size > max(tolerance * first, rounding(best)):
        for _ in range(row):
            new = forward(ahead)
            made += 1
            uphill = float((D * (ahead - new)) @ (D * (new - u)))
            ahead, momentum = extrapolate(new, u, momentum, uphill)
            u = new
        if matrix is not None:
            u, more = semismooth(matrix, g, x, penalty, D, t, u)
            made += more
            ahead, momentum, row = u, 1.0, 2 * row  # too few find no active pieces
        image = forward(u)  # feasible, with exact zeros
        now = size(image - u)
        if now >= 0.99 * best_size and matrix is not None:
            break  # as far as rounding lets it come
        if now < best_size:
            best, best_size = image, now
        if matrix is not None:
            ahead = u = image
    return Minimum(best, best_size <= max(max(tolerance, 1e-12) * first, rounding(best)))


def semismooth(
    matrix: np.ndarray, g: np.ndarray, x: np.ndarray, penalty: Penalty, D: np.ndarray,
    t: np.ndarray, u: np.ndarray,
) -> tuple[np.ndarray, int]:  # fmt: skip
    """Newton's method on R(u) = u − prox(u − t∇q(u)) while it falls; and the prox made."""
    before = penalty.calls
    identity = np.eye(len(u))

    def residual(u: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        w = u - t * (g + matrix @ (u - x))
        R = u - penalty.prox(w, t)
        return w, R, float(np.linalg.norm(D * R))

    w, R, size = residual(u)
    anew = False  # after a step that failed
    for _ in range(NEWTON):
        if size == 0:
            break
        J = penalty.derivative(w, t, anew)
        inside = identity - t[:, None] * matrix
        M = identity - (J[:, None] * inside if J.ndim == 1 else J @ inside)
        try:
            du = np.linalg.solve(D[:, None] * M / D[None, :], -(D * R)) / D
        except np.linalg.LinAlgError:
            break
        if not np.all(np.isfinite(du)):
            break
        trial = u + du
        new = residual(trial)
        if new[2] < 0.9 * size:
            u, (w, R, size), anew = trial, new, False
        elif anew or J.ndim == 1:
            break
        else:
            anew = True
    return u, penalty.calls - before


def lowest_with_penalty(
    penalty: Penalty, H: np.ndarray, g: np.ndarray, x: np.ndarray, D: np.ndarray, top: float
) -> float:
    """The lowest eigenvalue of ∇²F + ∇²r on the directions that r leaves free.

    In the coordinates Dx the derivative of the prox is J = (I + R/λ)⁻¹ for the curvature R of r
    and λ = `top`, so that J(H + R)J = JHJ + λ(J − J²).
    """
    t = 1 / (top * D * D)
    J = penalty.derivative(x - t * g, t)
    J = np.diag(J) if J.ndim == 1 else D[:, None] * J / D[None, :]
    J = (J + J.T) / 2
    reduced = J @ (H / D[:, None] / D[None, :]) @ J + top * (J - J @ J)
    return float(np.linalg.eigvalsh((reduced + reduced.T) / 2)[0])


def positive(matrix: np.ndarray, D: np.ndarray, spectrum: Spectrum, eps: float) -> np.ndarray:
    """|λ| for λ in the coordinates Dx, none below the rounding of the largest."""
    floor = len(D) * eps * max(spectrum.largest, np.finfo(float).tiny)
    if spectrum.lowest > floor:
        return matrix
    fixed = spectrum.vectors * np.maximum(np.abs(spectrum.values), floor)
    return D[:, None] * (fixed @ spectrum.vectors.T) * D[None, :]


def within(
    matrix: np.ndarray, spectrum: Spectrum, g: np.ndarray, x: np.ndarray, penalty: Penalty,
    D: np.ndarray, radius: float, eps: float, u: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, float]:  # fmt: skip
    """argmin ⟨g, s⟩ + ½⟨s, Bs⟩ + r(x + s) over ‖Ds‖ ≤ radius: x + s, the B that was used, and δ.

    δ is found by bisection, which sees no sample. `spectrum` is that of the matrix in the
    coordinates Dx; `u` is the undamped minimum, where it is known.
    """
    if penalty.zero:
        floor = len(g) * eps * max(spectrum.largest, np.finfo(float).tiny)
        z, delta = spectrum.within(g / D, radius, floor)
        return x + z / D, matrix, delta
    B = positive(matrix, D, spectrum, eps)
    top = max(spectrum.largest, np.finfo(float).tiny)

    def at(delta: float, start: np.ndarray) -> np.ndarray:
        damped = B + np.diag(delta * D * D)
        given = 1.01 * (top + delta), g, x, penalty, D, start, ROUGH, damped, ROUGH_STEPS
        return minimise(lambda v: damped @ v, *given).u

    def length(u: np.ndarray) -> float:
        return float(np.linalg.norm(D * (u - x)))

    if u is None:
        tolerance = EXACT if eps < 1e-10 else EXACT**0.5
        given = 1.01 * top, g, x, penalty, D, x, tolerance, B
        u = minimise(lambda v: B @ v, *given).u
    if length(u) <= 1.1 * radius:
        return u, B, 0.0
    u, delta = damp(at, length, u, radius, float(np.linalg.norm(g / D)))
    return u, B, delta
