"""Newton's method: the curvature of F is measured, from part of the samples where they are many.

Longer than other files: one solver, whose model, step and confirmation belong together.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.solvers.full_pass import NOISE, TOLERANCE, FullPassSolver
from mvrc.solvers.full_state import Assessment, FullPassState, Trial
from mvrc.solvers.model import (
    EXACT,
    ROUGH,
    ROUGH_STEPS,
    STEPS,
    Spectrum,
    bfgs,
    lowest_with_penalty,
    matrix_spectrum,
    minimise,
    positive,
    semismooth,
    solve_scaled,
    within,
)
from mvrc.solvers.passes import CurvatureSample
from mvrc.solvers.products import conjugate_gradients

# Share of the gradient's change, in the norm of D⁻¹, above which a learnt model is measured anew:
# of 0.3, 0.5 and 0.7 the one with the fewest passes on the instances of docs/comparison.md.
SECANT_ERROR = 0.3
KINKED = 4  # short steps in a row along which ∇²F did not foresee the gradient
SHORT = 1e-3  # of ‖Dx‖ or √S: a step along which a smooth gradient is foreseen,
LITTLE = 1e-3  # if sᵀy is at most this share of S
CONFIRMING = 10  # most products with the curvature of all samples before CONVERGED


class Matrix(NamedTuple):
    """B, and where it comes from."""

    matrix: Any
    diagonal: Any  # |Aᵢᵢ| + |Bᵢᵢ| when it was measured
    gauss_newton: Any  # the form that is tried in its place; zeros when it is not
    tried: Any  # whether it is
    age: Any  # points accepted since it was measured; −1: to be measured
    measured: Any  # how often it was
    pieces: Any  # of the samples, from which it was; of the next measurement
    unforeseen: Any  # short steps in a row along which ∇²F did not foresee the gradient


class NewtonSolver(FullPassSolver):
    """B is ∇²F. Between two measurements, where they are expensive, it is updated by BFGS.

    Where ∇²F has no minimum and r = 0 the Gauss–Newton form A + Σₖ ∂ₖf·E[∇gₖ∇gₖᵀ/2gₖ] is tried,
    if it exists and is positive definite; after a rejection ∇²F again.

    Args:
        problem, geometry, notes, first, step_size: see `FullPassSolver`.
        sample: the samples of a measurement.
        lazy: whether it is measured again only when it did not foresee a change of the gradient.
    """

    kind: ClassVar[str] = "newton"

    def __init__(
        self, problem: Composition, geometry: Geometry, sample: CurvatureSample, lazy: bool,
        notes: tuple[str, ...] = (), first: np.ndarray | None = None,
        step_size: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(problem, geometry, notes, first, step_size)
        self.sample, self.lazy = sample, lazy
        self._spectrum: tuple[bytes, Spectrum] | None = None

    def first_model(self, d: int) -> Matrix:
        zeros = np.zeros((d, d))
        return Matrix(zeros, np.zeros(d), zeros, False, -1, 0, self.sample.first, 0)

    def learn(
        self, state: FullPassState, s: np.ndarray, y: np.ndarray, accepted: bool, ratio: float
    ) -> Matrix:
        model = state.model
        used = model.gauss_newton if model.tried else model.matrix
        D = self.metric(state.squares)
        change = float(np.linalg.norm(y / D))
        error = float(np.linalg.norm((y - used @ s) / D)) / change if change > 0 else 0.0
        if model.age == 0 and not model.tried and not self._kinked(model):
            far = max(float(np.linalg.norm(D * state.x)), np.sqrt(state.scale))
            # Far away D may still be next to 0: what the step was seen to change counts, too.
            little = abs(float(s @ y)) <= LITTLE * state.scale
            short = float(np.linalg.norm(D * s)) <= SHORT * far and little
            poor = ratio < self.region.poor  # where a minimum is only flat, steps keep their word
            if error > SECANT_ERROR and short and poor:
                model = model._replace(unforeseen=model.unforeseen + 1)
            elif error <= SECANT_ERROR and short and np.any(model.matrix):
                model = model._replace(unforeseen=0)
        if self._kinked(model):
            return self._learn_at_kinks(model, s, y, D)
        if not accepted:
            if model.age > 0:
                return model._replace(age=-1)
            return model._replace(tried=False)  # where Gauss–Newton failed ∇²F is next
        foreseen = error <= SECANT_ERROR and ratio >= self.region.poor and float(s @ y) > 0
        if self.lazy and foreseen:
            return model._replace(matrix=bfgs(used, s, y), tried=False, age=model.age + 1)
        pieces = model.pieces
        if not foreseen and model.age == 0:  # new, and wrong all the same: from too few samples
            pieces = self.sample.most
        return model._replace(age=-1, pieces=pieces)

    def kinked(self, state: FullPassState) -> bool:
        return self._kinked(state.model)

    def _kinked(self, model: Matrix) -> bool:
        """Whether F has kinks: where it is smooth, ∇²F foresees the gradient along short steps."""
        return bool(model.unforeseen >= KINKED)

    def _learn_at_kinks(self, model: Matrix, s: np.ndarray, y: np.ndarray, D: np.ndarray) -> Matrix:
        """BFGS from every pair, also of rejected steps: they see the kinks, ∇²F does not.

        On functions with kinks it does well where nothing is proved (Lewis & Overton 2013).
        """
        observed, length = float(s @ y), float((D * s) @ (D * s))
        if not observed > 0:
            return model
        matrix = model.matrix
        if not float(s @ (matrix @ s)) > self.eps * observed:
            matrix = matrix + np.diag(observed / length * D * D)
        matrix = bfgs(matrix, s, y)
        try:
            np.linalg.cholesky(matrix / D[:, None] / D[None, :])
        except np.linalg.LinAlgError:  # rounding has made it indefinite
            matrix = bfgs(np.diag(observed / length * D * D), s, y)
        return model._replace(matrix=matrix, tried=False, age=model.age + 1)

    def renew(self, state: FullPassState) -> FullPassState:
        model = state.model
        if model.age >= 0:
            return state
        return self._measure(state, model.pieces)

    def _measure(self, state: FullPassState, pieces: int) -> FullPassState:
        model = state.model
        found, counts = self.passes.curvature(
            state.x, state.inner, state.outer, self.sample, pieces, 7919 * model.measured
        )
        self._add(counts)
        matrix, diagonal = found
        if not np.all(np.isfinite(matrix)):  # the metric in its place, of which nothing is said
            diagonal = np.where(np.isfinite(diagonal), diagonal, 0.0)
            squares = self.widened(state, diagonal)
            matrix = np.diag(np.where(squares > 0, squares, 1.0))
        squares = self.widened(state, diagonal)
        if not model.measured:
            self.keep_step_size(matrix_spectrum(matrix, np.ones(len(matrix))).largest)
        tried, form = False, np.zeros_like(matrix)
        if self.penalty.zero and solve_scaled(matrix, state.gradient, self.eps) is None:
            form, tried = self._gauss_newton(state, form)
        new = Matrix(matrix, diagonal, form, tried, 0, model.measured + 1, pieces, model.unforeseen)
        return state._replace(model=new, squares=squares)

    def _gauss_newton(self, state: FullPassState, nothing: np.ndarray) -> tuple[np.ndarray, bool]:
        """The form, if it has a minimum and predicts more than the stopping threshold."""
        found, counts = self.passes.gauss_newton(state.x, state.inner, state.outer)
        self._add(counts)
        solved = None if found is None else solve_scaled(found, -state.gradient, self.eps)
        noise = NOISE * self.eps * state.scale
        threshold = max(self.eps**TOLERANCE * abs(state.objective), noise)
        if found is None or solved is None or solved[1] <= threshold:
            return nothing, False
        return found, True

    def diagonal(self, state: FullPassState) -> np.ndarray:
        return state.model.diagonal

    def assess(self, state: FullPassState, D: np.ndarray) -> Assessment:
        g, H, eps = state.gradient, state.model.matrix, self.eps
        if self.penalty.zero:
            solved = solve_scaled(H, -g, eps)  # in the scaling of H itself, without a floor
            if solved is not None:
                return Assessment(solved[1], solved[0], True, True)
        spectrum = self._scaled(H, D)
        floor = len(g) * eps * max(spectrum.largest, 1.0)
        if self.penalty.zero:
            c = spectrum.vectors.T @ (g / D)
            z = -c / np.maximum(np.abs(spectrum.values), floor)
            # Below the floor a sign is not known: level if the slope is rounding, too, as
            # |gᵢ| ≤ Dᵢ√2S, and a rounding of x changes it by up to eps‖Dx‖.
            null = np.abs(spectrum.values) <= floor
            size = max(np.sqrt(2 * state.scale), float(np.linalg.norm(D * state.x)))
            level = np.all(np.abs(c[null]) <= 2 * eps * size)
            minimum = bool(spectrum.lowest >= -floor and level)
            return Assessment(-0.5 * float(c @ z), (spectrum.vectors @ z) / D, minimum, False)
        B = positive(H, D, spectrum, eps)
        tolerance, most = EXACT if eps < 1e-10 else EXACT**0.5, STEPS
        if self.kinked(state):
            tolerance, most = ROUGH, ROUGH_STEPS  # nothing is said of it
        top = 1.01 * max(spectrum.largest, floor)
        start = state.x + state.newton if np.any(state.newton) else state.x
        found = minimise(
            lambda v: B @ v, top, g, state.x, self.penalty, D, start, tolerance, B, most
        )
        u = found.u
        s = u - state.x
        decrease = -float(g @ s) - 0.5 * float(s @ (B @ s))
        decrease -= self.penalty.value(u) - self.penalty.value(state.x)
        lowest = spectrum.lowest
        if lowest < -floor:  # on the free directions only, from the derivative of the prox
            lowest = lowest_with_penalty(self.penalty, H, g, state.x, D, spectrum.largest)
            if lowest >= -floor:  # and what is left of F and r themselves, not of |λ|
                t = 1 / (top * D * D)
                u, _ = semismooth(H, g, state.x, self.penalty, D, t, u)
                v = u - state.x
                more = -float(g @ v) - 0.5 * float(v @ (H @ v))
                decrease = max(decrease, more - self.penalty.value(u) + self.penalty.value(state.x))
        # A minimum of the model is no higher than x itself.
        lower = decrease >= -NOISE * eps * state.scale
        minimum = bool(found.solved and lower and lowest >= -floor)
        return Assessment(max(decrease, 0.0), s, minimum, bool(lowest > floor), found.u)

    def confirm(
        self, state: FullPassState, D: np.ndarray, found: Assessment
    ) -> tuple[FullPassState, Assessment, bool]:
        model = state.model
        if self._kinked(model):  # far away it may have seemed so: is the point smooth, and done?
            smooth = state._replace(model=model._replace(unforeseen=0))
            smooth = self._measure(smooth, self.sample.most)
            measured = self.assess(smooth, self.metric(smooth.squares))
            if measured.sure and self._nothing_left(smooth, measured):
                return smooth, measured, False
            return state, found._replace(minimum=False), False
        if model.age > 0:
            return self._measure(state, model.pieces), found, True
        if not found.minimum:
            return state, found, False
        if self.penalty.zero and not found.sure and not self._level_along_null(state, D):
            return state, found._replace(minimum=False), False
        if model.pieces * self.sample.rows >= self.passes.n:
            return state, found, False
        if self._holds_for_all(state, D, found):
            return state, found, False
        if self.sample.most > model.pieces:
            return self._measure(state, self.sample.most), found, True
        return state, found._replace(minimum=False), False

    def _level_along_null(self, state: FullPassState, D: np.ndarray) -> bool:
        """Whether Φ stays the same far along the directions without curvature, to both sides.

        Unknowns that say the same have such directions, and then every point of them is a minimum.
        Where Φ changes, rounding hides the curvature, and a minimum cannot be told from a saddle.
        """
        spectrum = self._scaled(state.model.matrix, D)
        floor = len(D) * self.eps * max(spectrum.largest, 1.0)
        null = spectrum.vectors[:, np.abs(spectrum.values) <= floor]
        signs = np.random.default_rng(0).choice([-1.0, 1.0], null.shape[1])
        far = (null @ signs) / D / max(float(np.linalg.norm(null @ signs)), np.finfo(float).tiny)
        far = far * max(float(np.linalg.norm(D * state.x)), np.sqrt(state.scale))
        for side in (1, -1):
            found = self.evaluate(state.x + side * far)
            # A rounding of x changes each term by up to about eps·√S‖Dx‖.
            scale = max(state.scale, found.scale)
            size = max(np.sqrt(scale), float(np.linalg.norm(D * state.x)))
            noise = NOISE * self.eps * np.sqrt(scale) * size
            if not abs(found.value - state.objective) <= 10 * noise:
                return False
        return True

    def _holds_for_all(self, state: FullPassState, D: np.ndarray, found: Assessment) -> bool:
        """Whether curvature from part of the samples predicts no less than that of all would.

        r = 0: conjugate gradients with the curvature of all samples, preconditioned by that of the
        part. Else the curvature of all samples along the step of the model.
        """
        H, g, s = state.model.matrix, state.gradient, found.step
        if not np.any(s):
            return True
        if self.penalty.zero:
            solve = lambda b: solve_scaled(H, b, self.eps)  # noqa: E731
            if solve(g) is None:
                return False
            checked = conjugate_gradients(
                lambda v: self.product(state, v), lambda b: solve(b)[0],  # type: ignore[index]
                g, D, self.eps, CONFIRMING,
            )  # fmt: skip
            return checked.minimum and checked.solved and checked.predicted <= 4 * found.decrease
        observed, model = float(s @ self.product(state, s)), float(s @ (H @ s))
        return observed >= 0.25 * model

    def propose(self, state: FullPassState, D: np.ndarray, found: Assessment) -> Trial:
        model, g, radius = state.model, state.gradient, state.radius
        B = model.gauss_newton if model.tried else model.matrix
        if not self.penalty.zero:
            return self._propose_with_penalty(state, D, found)
        s: np.ndarray | None = None
        delta = 0.0
        solved = (found.step, found.decrease) if found.sure and not model.tried else None
        if solved is None:
            solved = solve_scaled(B, -g, self.eps)
        if solved is not None and np.linalg.norm(D * solved[0]) <= 1.1 * radius:
            s = solved[0]
        else:
            spectrum = self._scaled(B, D)
            floor = len(g) * self.eps * max(spectrum.largest, np.finfo(float).tiny)
            z, delta = spectrum.within(g / D, radius, floor)
            again = solve_scaled(B + np.diag(delta * D * D), -g, self.eps)
            s = z / D
            if again is not None and 0.5 <= np.linalg.norm(D * again[0]) / radius <= 1.5:
                s = again[0]
        return self.trial_at(state, state.x + s, D, float(s @ (B @ s)), delta, delta > 0)

    def _propose_with_penalty(
        self, state: FullPassState, D: np.ndarray, found: Assessment
    ) -> Trial:
        """The proximal step within the radius."""
        x, matrix = state.x, state.model.matrix
        u, B, delta = within(
            matrix, self._scaled(matrix, D), state.gradient, x, self.penalty, D, state.radius,
            self.eps, x + found.step if found.point is None else found.point,
        )  # fmt: skip
        s = u - x
        return self.trial_at(state, u, D, float(s @ (B @ s)), delta, delta > 0)

    def _scaled(self, matrix: np.ndarray, D: np.ndarray) -> Spectrum:
        """Eigenvalues are asked for more than once."""
        key = matrix.tobytes() + D.tobytes()
        if self._spectrum is None or self._spectrum[0] != key:
            self._spectrum = (key, matrix_spectrum(matrix, D))
        return self._spectrum[1]
