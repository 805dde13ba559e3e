"""Steps on full passes, each accepted or rejected at the pass that follows; on the host.

    s = argmin ⟨∇F, s⟩ + ½⟨s, Bs⟩ + r(x + s)  over  ‖Ds‖ ≤ Δ.

D is the root of the largest curvature that each unknown has had (Moré 1978), so that a run on
Φ(diag(c)·x) is the run on Φ(x). `NewtonSolver` measures B, `SecantSolver` learns it.

Longer than other files: the loop of a trust region, which is read as a whole.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import jax
import numpy as np

from mvrc.oracle import Counts, Geometry, add_counts
from mvrc.oracle.exact import gradient_mapping
from mvrc.problem import Composition
from mvrc.solvers.decisions import ACCEPTED, BROKEN, LONGER, REJECTED
from mvrc.solvers.full_state import (
    CONVERGED,
    GOING,
    NOT_FINITE,
    PLATEAU,
    PRECISION,
    STALLED,
    UNBOUNDED,
    Assessment,
    FullPassState,
    Trial,
    arrays,
    explained,
    plain,
)
from mvrc.solvers.passes import Evaluation, Passes
from mvrc.solvers.penalty import Penalty
from mvrc.solvers.solver import CoreSolver, End, Info
from mvrc.solvers.trust_region import TrustRegion
from mvrc.support.threads import one_thread

PATIENCE = 3  # trials within rounding before a run gives up; steps to infinity before it says so
REJECTIONS = 30  # in a row, after which no step is short enough
TOLERANCE = 0.75  # CONVERGED: the predicted decrease is at most eps^TOLERANCE of |Φ|
NOISE = 4.0  # times eps and the size of the terms of Φ: what of Φ is rounding
KINKED_PASSES, KINKED_FALL = 50, 1e-7  # at kinks: less than this share of Φ in so many is nothing
CLOSE = 1e3  # times that noise: a predicted decrease that rounding may have made up


class FullPassSolver(CoreSolver):
    """Evaluate the trial, accept or reject it, bring the model up to date, assess, propose.

    Args:
        problem, geometry: finite sums.
        notes: what was chosen and why.
        first: the first trial; x0 when None.
        step_size: λ of the gradient mapping; by default one over the curvature at x0.
    """

    draws, on_host, keeps_best, epochs = False, True, True, 1000  # an epoch is a pass
    kind: ClassVar[str]

    def __init__(
        self, problem: Composition, geometry: Geometry, notes: tuple[str, ...] = (),
        first: np.ndarray | None = None, step_size: float | None = None,
    ) -> None:  # fmt: skip
        self.passes = Passes(problem, geometry)
        self.penalty = Penalty(problem.regularizer, geometry.x)
        self.region = TrustRegion()
        self.dtype = geometry.x.dtype
        self.eps = float(np.finfo(self.dtype).eps)
        self.notes, self.first = notes, first
        self._given = step_size
        self.step_size = 1.0 if step_size is None else step_size
        self._inner = np.zeros(geometry.y.size, geometry.y.dtype)
        self._counts = Counts()

    # What the two kinds of model do.

    @abc.abstractmethod
    def first_model(self, d: int) -> Any:
        """Before anything is known."""

    @abc.abstractmethod
    def learn(self, state: FullPassState, s: np.ndarray, y: np.ndarray, accepted: bool,
              ratio: float) -> Any:  # fmt: skip
        """The model after a step s along which the gradient changed by y."""

    @abc.abstractmethod
    def renew(self, state: FullPassState) -> FullPassState:
        """With a model of x as it is now, and D² of it."""

    @abc.abstractmethod
    def assess(self, state: FullPassState, D: np.ndarray) -> Assessment:
        """What is left to gain, as far as the model tells."""

    @abc.abstractmethod
    def confirm(
        self, state: FullPassState, D: np.ndarray, found: Assessment
    ) -> tuple[FullPassState, Assessment, bool]:
        """The same from curvature measured here from all samples; and whether to begin anew."""

    @abc.abstractmethod
    def propose(self, state: FullPassState, D: np.ndarray, found: Assessment) -> Trial:
        """The next trial."""

    @abc.abstractmethod
    def diagonal(self, state: FullPassState) -> np.ndarray:
        """The curvature of each unknown at x."""

    def kinked(self, state: FullPassState) -> bool:
        """Whether F was seen to have kinks, where no model tells what is left."""
        return False

    # The loop.

    def compile(self, state: FullPassState) -> None:
        self.passes.compile()

    def blank(self, x0: Any) -> FullPassState:
        """The state before the first pass."""
        x = np.asarray(x0).astype(np.float64)
        trial = Trial(x if self.first is None else self.first, 0.0, 0.0, 0.0, False, 1.0)
        nothing = np.zeros_like(x)
        return arrays(FullPassState(
            epoch=0, x0=x, x=x, objective=np.inf, gradient=nothing, scale=0.0, inner=self._inner,
            outer=self._inner, squares=nothing, radius=np.inf, model=self.first_model(len(x)),
            trial=trial, decrease=np.inf, newton=nothing, end=GOING, decision=0, level=0,
            rejected=0, rejections=0, runaway=0, unsure=True, first_scale=0.0,
            first_decrease=-1.0, mark=np.inf,
        ))  # fmt: skip

    def init(self, x0: Any) -> tuple[FullPassState, Info]:
        """Φ, ∇F and the model at x0; where a rehearsal found the first trial, nothing yet."""
        self._reset()
        state = self.blank(x0)
        if self.first is None:
            state = arrays(self._next(jax.tree_util.tree_map(plain, state)))
        return state, Info(self._counts, True, self.passes.compiling)

    def step(self, state: FullPassState) -> tuple[FullPassState, Info]:
        self._reset()
        state = jax.tree_util.tree_map(plain, state)
        state = self._next(state._replace(end=GOING, epoch=state.epoch + 1))
        finite = state.end != NOT_FINITE
        return arrays(state), Info(self._counts, finite, self.passes.compiling)

    def _reset(self) -> None:
        self._counts = Counts()
        self.penalty.calls, self.passes.compiling = 0, 0.0

    def _next(self, state: FullPassState) -> FullPassState:
        """Evaluate the trial, decide, and prepare the next one."""
        with np.errstate(all="ignore"), one_thread():  # what overflows is found by its value
            found = self.evaluate(state.trial.point)
            objective = found.value + self.penalty.value(state.trial.point)
            if np.isfinite(state.objective):
                state = self._assess(state, found, objective)
            else:
                state = self._begin(state, found, objective)
            if state.end == GOING and np.isfinite(state.objective):
                state = self._prepare(state)
        self._add(Counts(0, 0, 0, self.penalty.calls))
        return state

    def evaluate(self, point: np.ndarray) -> Evaluation:
        """A counted full pass."""
        found, counts = self.passes.full(point)
        self._add(counts)
        return found

    def product(self, state: FullPassState, v: np.ndarray) -> np.ndarray:
        """A counted product with ∇²F(x)."""
        found, counts = self.passes.product(state.x, state.inner, state.outer, v)
        self._add(counts)
        return found

    def _add(self, counts: Counts) -> None:
        self._counts = add_counts(self._counts, counts)

    def _begin(self, state: FullPassState, found: Evaluation, objective: float) -> FullPassState:
        """After the first pass."""
        if not _finite(found, objective):
            if np.array_equal(state.trial.point, state.x0):
                return state._replace(end=NOT_FINITE, decision=BROKEN)
            return state._replace(  # from where a rehearsal led back to x0
                trial=state.trial._replace(point=state.x0), decision=BROKEN
            )
        state = self._at(state, state.trial.point, found, objective)
        return state._replace(decision=ACCEPTED, first_scale=state.scale)

    def _at(
        self, state: FullPassState, x: np.ndarray, found: Evaluation, objective: float
    ) -> FullPassState:
        return state._replace(
            x=x, objective=objective, gradient=found.gradient, inner=found.inner,
            outer=found.outer, scale=found.scale + abs(objective - found.value),
        )  # fmt: skip

    def _assess(self, state: FullPassState, found: Evaluation, objective: float) -> FullPassState:
        """After the pass at a trial: accepted or rejected, and the radius."""
        trial, noise = state.trial, NOISE * self.eps * state.scale
        if objective == -np.inf:
            return state._replace(end=UNBOUNDED, decision=BROKEN)
        finite = _finite(found, objective)
        actual = state.objective - objective if finite else -np.inf
        around = noise
        if finite:
            around = min(max(noise, NOISE * self.eps * found.scale), 10 * noise)
        level = finite and abs(actual) <= around and trial.predicted <= 10 * around
        if level:  # Φ cannot tell: the gradient in the metric does
            ratio = float(actual > 0)
            if self.penalty.zero:
                D = self.metric(state.squares)
                ratio = float(np.linalg.norm(found.gradient / D)
                              < np.linalg.norm(state.gradient / D))  # fmt: skip
        else:
            ratio = actual / trial.predicted if trial.predicted > 0 else -1.0
        accepted = finite and ratio >= self.region.accept
        radius = self.region.radius(
            state.radius, trial.length, ratio, actual, trial.slope, trial.damped,
            state.rejections > 0,
        )  # fmt: skip
        model = state.model
        if finite:
            s, y = trial.point - state.x, found.gradient - state.gradient
            model = self.learn(state, s, y, accepted, ratio)
        to_boundary = accepted and trial.damped and ratio >= self.region.good
        state = state._replace(
            radius=radius, model=model,
            level=state.level + 1 if level else 0 if accepted else state.level,
            rejected=0 if accepted else state.rejected + 1,
            rejections=state.rejections + (not accepted),
            runaway=state.runaway + 1 if to_boundary and state.unsure else 0,
        )  # fmt: skip
        if not accepted:
            return state._replace(decision=REJECTED if finite else BROKEN)
        if state.first_decrease < 0:
            state = state._replace(first_decrease=max(actual, 0.0))
        grew = trial.damped and radius > trial.length * 1.5
        state = self._at(state, trial.point, found, objective)
        return state._replace(decision=LONGER if grew else ACCEPTED)

    def _prepare(self, state: FullPassState) -> FullPassState:
        """Model, assessment and next trial at x; or the end."""
        ended = self._limits(state)
        if state.epoch % KINKED_PASSES == 0:
            state = state._replace(mark=state.objective)
        if ended is not None and ended != STALLED:
            return state._replace(end=ended)
        for _ in range(3):  # a model that was learnt is measured before anything is said of it
            state = self.renew(state)
            D = self.metric(state.squares)
            if not np.isfinite(state.radius):
                start = (np.linalg.norm(D * state.x), np.linalg.norm(state.gradient / D))
                state = state._replace(radius=float(max(start)))
            found = self.assess(state, D)
            small, again = self._nothing_left(state, found), False
            if small:
                state, found, again = self.confirm(state, D, found)
                small = self._nothing_left(state, found)
            if again:
                continue
            trial = self.propose(state, D, found)
            stuck = np.array_equal(trial.point, state.x) or not np.isfinite(trial.predicted)
            if (stuck or ended == STALLED) and not small:
                state, found, again = self.confirm(state, D, found)
                small = self._nothing_left(state, found)
                if again:
                    continue
            break
        state = state._replace(
            trial=trial, newton=found.step, decrease=found.decrease if found.minimum else np.inf,
            unsure=not (found.minimum and (found.sure or self.penalty.zero)),
        )  # fmt: skip
        if small:
            return state._replace(end=PLATEAU if self._flat(state, D, found) else CONVERGED)
        if stuck or ended == STALLED:
            short = np.all(np.abs(found.step) <= self.eps**0.5 * np.abs(state.x))
            close = found.decrease <= CLOSE * NOISE * self.eps * state.scale
            near = close or short or self._vanished(state, found)
            if not near or self.kinked(state):
                return state._replace(end=STALLED)
            return state._replace(end=PLATEAU if self._flat(state, D, found) else PRECISION)
        return state

    def _limits(self, state: FullPassState) -> int | None:
        """UNBOUNDED; or STALLED, when nothing moves any more."""
        base = max(state.first_scale, state.first_decrease, np.finfo(float).tiny)
        share = self.eps if state.runaway < PATIENCE else self.eps**0.5
        if state.objective < -base / share:
            return UNBOUNDED
        if state.level >= PATIENCE or state.rejected >= REJECTIONS:
            return STALLED
        if state.epoch % KINKED_PASSES == 0 and self.kinked(state):
            fallen = state.mark - state.objective
            if fallen <= KINKED_FALL * abs(state.objective):
                return STALLED
        return None

    def _nothing_left(self, state: FullPassState, found: Assessment) -> bool:
        """What is left is nothing against Φ or its rounding, or changes no digit of x."""
        if not found.minimum:
            return False
        noise, size = NOISE * self.eps * state.scale, abs(state.objective)
        if noise > self.eps**0.25 * (size + max(state.first_decrease, 0.0)):
            noise = 0.0  # rounding that hides Φ itself says nothing of what is left
        unmoved = np.all(np.abs(found.step) <= 2 * self.eps * np.abs(state.x))
        little = found.decrease <= max(self.eps**TOLERANCE * size, noise)
        return bool(little or unmoved or self._vanished(state, found))

    def _vanished(self, state: FullPassState, found: Assessment) -> bool:
        """Whether every term, and what is left to gain, is so near 0 that derivatives underflow.

        Where all are 0 at the minimum, each step gains nearly all of Φ, and would do so for ever.
        """
        least = float(np.finfo(self.dtype).tiny) / self.eps**2
        return bool(max(state.scale, found.decrease) <= min(least, self.eps**2 * state.first_scale))

    def _flat(self, state: FullPassState, D: np.ndarray, found: Assessment) -> bool:
        """Whether an unknown has lost the curvature that it had: a plateau."""
        lost = self.diagonal(state) <= self.eps * D * D
        far = np.maximum(np.abs(state.x), np.abs(state.x - state.x0))
        if self._vanished(state, found):  # the curvature has underflowed
            return False
        return bool(np.any(lost & ((np.abs(found.step) > 1e-2 * far) | (not found.sure))))

    def metric(self, squares: np.ndarray) -> np.ndarray:
        """D; an unknown without any curvature gets the largest of the others."""
        top = squares.max()
        return np.sqrt(self.penalty.common(np.where(squares > 0, squares, top if top > 0 else 1.0)))

    def widened(self, state: FullPassState, diagonal: np.ndarray) -> np.ndarray:
        """D² after a look at the curvature of each unknown.

        Where there never was any beyond rounding, as far out on a branch of log cosh, it is the
        bound from the slope.
        """
        squares, instead = np.maximum(state.squares, diagonal), self.bound(state)
        return np.where(squares > self.eps * instead, squares, instead)

    def bound(self, state: FullPassState) -> np.ndarray:
        """gᵢ²/2S, a lower bound of Gauss and Newton's curvature (Cauchy–Schwarz), in its units: a
        step gᵢ/Dᵢ² along one unknown promises no more than S."""
        return state.gradient**2 / (2 * state.scale) if state.scale > 0 else 0.0 * state.gradient

    def keep_step_size(self, curvature: float) -> None:
        """λ = 1/curvature, from the first measurement."""
        if self._given is None and np.isfinite(curvature) and curvature > 0:
            self.step_size = float(np.clip(1 / curvature, np.finfo(self.dtype).tiny,
                                           np.finfo(self.dtype).max))  # fmt: skip

    def trial_at(
        self, state: FullPassState, u: np.ndarray, D: np.ndarray, curvature: float, delta: float,
        damped: bool,
    ) -> Trial:  # fmt: skip
        """The trial u, in x's precision; `curvature` is sᵀBs for the step s to it."""
        point = u.astype(self.dtype).astype(np.float64)
        s = point - state.x
        length = float(np.linalg.norm(D * s))
        slope = float(state.gradient @ s)
        slope += self.penalty.value(point) - self.penalty.value(state.x)
        share = curvature / (curvature + delta * length**2) if curvature > 0 and delta > 0 else 1.0
        return Trial(point, -(slope + 0.5 * curvature), slope, length, damped, share)

    # What a run wants to know.

    def point(self, state: FullPassState) -> Any:
        return np.asarray(state.x).astype(self.dtype)

    def measured(self, state: FullPassState, step: float | None) -> tuple[Any, Any] | None:
        if not np.isfinite(state.objective):
            return None
        mapping = self._mapping(np.asarray(state.x), np.asarray(state.gradient), step)
        return np.asarray(state.objective), mapping

    def measure(self, point: Any, step: float | None) -> tuple[Any, Any]:
        x = np.asarray(point).astype(np.float64)
        found, _ = self.passes.full(x)
        objective = found.value + self.penalty.value(x)
        return np.asarray(objective), self._mapping(x, found.gradient, step)

    def _mapping(self, x: np.ndarray, v: np.ndarray, step: float | None) -> np.ndarray:
        """‖𝒢‖ at x, where ∇F is v."""
        if not self.penalty.zero:

            def prox(point: np.ndarray, step: Any) -> np.ndarray:
                return self.penalty.prox(point, np.full(len(point), step)).astype(self.dtype)

            at = self.dtype.type(step or self.step_size)
            with np.errstate(all="ignore"):
                narrow = (x.astype(self.dtype), v.astype(self.dtype))
                v = gradient_mapping(*narrow, at, prox, _while)
        return np.asarray(np.linalg.norm(v), float)

    def told(self, state: FullPassState) -> tuple[Any, Any] | None:
        return np.asarray(float(state.trial.share)), np.asarray(state.decision)

    def stalled(self, state: FullPassState, tolerance_given: bool) -> Any:
        return np.asarray(self.end(state, tolerance_given) is not None)

    def end(self, state: FullPassState, tolerance_given: bool) -> End | None:
        code = int(state.end)
        if code == GOING or (code in (CONVERGED, PLATEAU) and tolerance_given and not
                             self._exhausted(state)):  # fmt: skip
            return None
        if tolerance_given and code in (CONVERGED, PLATEAU):
            code = PRECISION
        return explained(code, state, NOISE * self.eps * float(state.scale))

    def _exhausted(self, state: FullPassState) -> bool:
        """Whether steps below a converged point no longer move."""
        return bool(state.level >= PATIENCE or np.array_equal(state.trial.point, state.x))


def _finite(found: Evaluation, objective: float) -> bool:
    return bool(np.isfinite(objective) and np.all(np.isfinite(found.gradient)))


def _while(condition: Any, body: Any, carry: Any) -> Any:
    while condition(carry):
        carry = body(carry)
    return carry
