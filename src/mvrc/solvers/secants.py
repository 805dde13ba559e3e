"""Secant steps: the curvature of F is learnt from how the gradient changes; for many unknowns."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.solvers.full_pass import FullPassSolver
from mvrc.solvers.full_state import Assessment, FullPassState, Trial
from mvrc.solvers.model import Spectrum, minimise, secant_spectrum
from mvrc.solvers.products import conjugate_gradients, equilibrate
from mvrc.solvers.trust_region import damp
from mvrc.support.numerics import power_step

MEMORY = 10  # pairs that are kept (Liu & Nocedal 1989 advise 3 to 20)
PRODUCTS = 50  # most products with ∇²F before CONVERGED is said; else more steps are made
AGE = 20  # points after which, with a rejection among them, the metric is measured again
LEAST_CURVATURE = 1e-8  # least sᵀy of a pair that is kept, relative to ‖Ds‖‖D⁻¹y‖
EXACT, ROUGH = 1e-6, 1e-3  # tolerances of model problems
# Unknowns up to which a model problem with r is solved with the matrix B, by Newton's method: an
# iteration then takes d³/3 operations and a derivative of the prox, which is d more prox where r
# couples unknowns. On 12 random problems (a box, groups) that took 3.2 × less time.
DENSE, DENSE_COUPLED = 256, 64


class Secants(NamedTuple):
    """The last pairs, one a row, the newest last; rows of zeros: none yet."""

    s: Any
    y: Any
    count: Any  # of pairs
    sigma: Any  # of the first matrix σD²
    diagonal: Any  # D² as it was measured last
    age: Any  # points accepted since; −1: never measured
    rejected: Any  # whether a trial was rejected since
    forced: Any  # a truncated Newton step that is to be tried; zeros: none
    curvature: Any  # its curvature sᵀ∇²F s


class SecantSolver(FullPassSolver):
    """B is limited-memory BFGS (Liu & Nocedal 1989) in the coordinates Dx.

    D is found by equilibration from products with ∇²F. Before CONVERGED is said, conjugate
    gradients (with r: FISTA) on ∇²F itself say what is left; if it is more, their step is the next.

    Args:
        problem, geometry, notes, first, step_size: see `FullPassSolver`.
    """

    kind: ClassVar[str] = "secant"

    def __init__(
        self, problem: Composition, geometry: Geometry, notes: tuple[str, ...] = (),
        first: np.ndarray | None = None, step_size: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(problem, geometry, notes, first, step_size)
        self.twice = self.passes.has_products()  # else they are differences of gradients
        self._spectrum: tuple[Any, Spectrum] | None = None

    def first_model(self, d: int) -> Secants:
        none, nothing = np.zeros((MEMORY, d)), np.zeros(d)
        return Secants(none, none, 0, 1.0, nothing, -1, False, nothing, 0.0)

    def learn(
        self, state: FullPassState, s: np.ndarray, y: np.ndarray, accepted: bool, ratio: float
    ) -> Secants:
        model = state.model._replace(forced=np.zeros_like(s), curvature=0.0)
        model = model._replace(age=model.age + accepted, rejected=model.rejected or not accepted)
        D = self.metric(state.squares)
        lengths = float(np.linalg.norm(D * s)) * float(np.linalg.norm(y / D))
        if not float(s @ y) > LEAST_CURVATURE * lengths:
            # Φ falls as predicted, without upward curvature: longer steps.
            straight = accepted and ratio >= self.region.good
            return model._replace(sigma=model.sigma / 10 if straight else model.sigma)
        return model._replace(
            s=np.concatenate([model.s[1:], s[None]]), y=np.concatenate([model.y[1:], y[None]]),
            count=min(model.count + 1, MEMORY),
            sigma=float(np.linalg.norm(y / D) / np.linalg.norm(D * s)),
        )  # fmt: skip

    def renew(self, state: FullPassState) -> FullPassState:
        model = state.model
        first = model.age < 0
        if not first and not (model.age >= AGE and model.rejected):
            return state
        start = None if first else model.diagonal
        diagonal = equilibrate(lambda v: self._hessian(state, v), len(state.x), start)
        if first:
            slope = float(np.linalg.norm(state.gradient))
            if slope > 0:
                image = self._hessian(state, state.gradient / slope)
                self.keep_step_size(float(np.linalg.norm(image)))
        return state._replace(
            model=model._replace(diagonal=diagonal, age=0, rejected=False),
            squares=np.maximum(self.widened(state, diagonal), self.bound(state)),
        )

    def _hessian(self, state: FullPassState, v: np.ndarray) -> np.ndarray:
        if self.twice:
            found = self.product(state, v)
            return np.where(np.isfinite(found), found, 0.0)
        # Central differences: the third root of eps balances rounding and the next term.
        size = float(np.linalg.norm(v))
        if size == 0:
            return np.zeros_like(v)
        h = self.eps ** (1 / 3) * max(float(np.linalg.norm(state.x)), 1.0) / size
        ahead, behind = (self.evaluate(state.x + sign * h * v).gradient for sign in (1, -1))
        return (ahead - behind) / (2 * h)

    def diagonal(self, state: FullPassState) -> np.ndarray:
        return state.model.diagonal

    def _model(self, state: FullPassState, D: np.ndarray) -> Spectrum:
        model = state.model
        key = (model.s.tobytes(), float(model.sigma), D.tobytes())
        if self._spectrum is None or self._spectrum[0] != key:
            s, y = model.s[MEMORY - model.count :], model.y[MEMORY - model.count :]
            try:
                found = secant_spectrum(model.sigma, s, y, D)
            except np.linalg.LinAlgError:
                found = secant_spectrum(model.sigma, s[:0], y[:0], D)
            self._spectrum = (key, found)
        return self._spectrum[1]

    def assess(self, state: FullPassState, D: np.ndarray) -> Assessment:
        spectrum, g = self._model(state, D), state.gradient
        if self.penalty.zero:
            z = -spectrum.apply(lambda values: 1 / np.maximum(values, self._floor(spectrum)), g / D)
            return Assessment(-0.5 * float((g / D) @ z), z / D, True, True)
        u = self._minimise(state, spectrum, 0.0, D, state.x, EXACT)
        return self._with_penalty(state, self._operator(spectrum, D), u)

    def _with_penalty(self, state: FullPassState, apply: Any, u: np.ndarray) -> Assessment:
        s = u - state.x
        decrease = -float(state.gradient @ s) - 0.5 * float(s @ apply(s))
        decrease -= self.penalty.value(u) - self.penalty.value(state.x)
        return Assessment(max(decrease, 0.0), s, True, True, u)

    def confirm(
        self, state: FullPassState, D: np.ndarray, found: Assessment
    ) -> tuple[FullPassState, Assessment, bool]:
        """What is left according to ∇²F itself."""
        product = lambda v: self._hessian(state, v)  # noqa: E731
        if self.penalty.zero:
            spectrum, floor = self._model(state, D), self._floor(self._model(state, D))

            def solve(b: np.ndarray) -> np.ndarray:
                return spectrum.apply(lambda values: 1 / np.maximum(values, floor), b / D) / D

            cg = conjugate_gradients(product, solve, state.gradient, D, self.eps, PRODUCTS)
            checked = Assessment(cg.predicted, cg.step, cg.minimum and cg.solved, cg.minimum)
        else:
            top = self._largest(state, D)
            u = minimise(
                product, 1.1 * top, state.gradient, state.x, self.penalty, D, state.x, 1e-2,
                most=PRODUCTS,
            )  # fmt: skip
            checked = self._with_penalty(state, product, u.u)._replace(minimum=u.solved)
        if self._nothing_left(state, checked):  # and what it is of each unknown, for a plateau
            diagonal = equilibrate(product, len(state.x), state.model.diagonal)
            state = state._replace(model=state.model._replace(diagonal=diagonal))
        else:
            curvature = float(checked.step @ product(checked.step))
            forced = state.model._replace(forced=checked.step, curvature=curvature)
            state = state._replace(model=forced)
        return state, checked, False

    def _largest(self, state: FullPassState, D: np.ndarray) -> float:
        """The largest eigenvalue of D⁻¹∇²F D⁻¹, by a few steps of power iteration."""
        unit, _ = power_step(state.gradient / D, np.zeros_like(D))
        size = 0.0
        for _ in range(6):
            unit, length = power_step(self._hessian(state, unit / D) / D, unit)
            size = max(size, float(length))
        return max(size, self._model(state, D).largest, np.finfo(float).tiny)

    def propose(self, state: FullPassState, D: np.ndarray, found: Assessment) -> Trial:
        model, radius, x = state.model, state.radius, state.x
        if np.any(model.forced):
            length = float(np.linalg.norm(D * model.forced))
            share = min(1.0, max(radius, 1e-3 * length) / length)
            u = x + share * model.forced
            if not self.penalty.zero:
                u = self.penalty.prox(u, 1e-300 * np.ones_like(u))
            return self.trial_at(state, u, D, share**2 * model.curvature, 0.0, length > radius)
        spectrum = self._model(state, D)
        if self.penalty.zero:
            s, delta = found.step, 0.0
            if np.linalg.norm(D * s) > 1.1 * radius:
                z, delta = spectrum.within(state.gradient / D, radius, self._floor(spectrum))
                s = z / D
            u = x + s
        else:
            u, delta = x + found.step if found.point is None else found.point, 0.0
            if np.linalg.norm(D * found.step) > 1.1 * radius:

                def at(delta: float, start: np.ndarray) -> np.ndarray:
                    return self._minimise(state, spectrum, delta, D, start, ROUGH)

                slope = float(np.linalg.norm(state.gradient / D))
                u, delta = damp(at, lambda u: float(np.linalg.norm(D * (u - x))), u, radius, slope)
        s = u - x
        curvature = float(s @ self._operator(spectrum, D)(s))
        return self.trial_at(state, u, D, curvature, delta, delta > 0)

    def _minimise(
        self, state: FullPassState, spectrum: Spectrum, delta: float, D: np.ndarray,
        start: np.ndarray, tolerance: float,
    ) -> np.ndarray:  # fmt: skip
        matrix = None
        if len(D) <= (DENSE if self.penalty.separable else DENSE_COUPLED):
            matrix = spectrum.matrix(delta, D)
        top = 1.01 * (spectrum.largest + delta)
        given = state.gradient, state.x, self.penalty, D, start, tolerance, matrix
        return minimise(self._operator(spectrum, D, delta), top, *given).u

    def _operator(self, spectrum: Spectrum, D: np.ndarray, delta: float = 0.0) -> Any:
        return lambda v: D * spectrum.apply(lambda values: values + delta, D * v)

    def _floor(self, spectrum: Spectrum) -> float:
        return self.eps * max(spectrum.largest, np.finfo(float).tiny)
