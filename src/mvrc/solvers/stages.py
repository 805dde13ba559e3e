"""Newton's method for streams: one step on each of a row of growing batches of fresh samples.

Longer than other files: one solver, whose stages, model and test for noise belong together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from mvrc.oracle import Counts, Geometry, add_counts
from mvrc.problem import Composition
from mvrc.solvers.decisions import ACCEPTED, BROKEN, LONGER, REJECTED
from mvrc.solvers.full_state import arrays, direction, plain
from mvrc.solvers.model import matrix_spectrum, within
from mvrc.solvers.passes import Evaluation, Passes
from mvrc.solvers.penalty import Penalty
from mvrc.solvers.result import Status
from mvrc.solvers.solver import CoreSolver, End, Info
from mvrc.solvers.trust_region import TrustRegion
from mvrc.support.threads import one_thread

LEAST, PER_UNKNOWN = 256, 4  # samples of the first stage: at least, and for each unknown
GROWTH, FASTEST = 2, 4  # a stage has 1/GROWTH of all samples before it, FASTEST times the last
BLOCKS = 6  # of slopes, each about as large as all before it: what is older is forgotten
ENOUGH = 64  # samples for each unknown from which on ∇²F is known well enough
NEARER = 4  # times as many samples as at the last measurement: x is so much closer, measure again
RISE = 4.0  # standard errors beyond which Φ has risen
MORE = 3.0  # times the decrease that noise alone promises: a step that promises more is none
SAMPLES = 2**19  # of a run that nothing limits


class StagesState(NamedTuple):
    """Where a run stands; all numbers are float64."""

    epoch: Any  # stages made
    x: Any  # where the next stage is evaluated; the solution unless it is far
    drawn: Any  # samples so far
    size: Any  # samples of the next stage
    base: Any  # the last accepted point
    objective: Any  # Φ there, by its stage; ∞ before the first
    error: Any  # its standard error
    predicted: Any  # decrease from base to x by the model
    excess: Any  # N times what Φ(x) is above its minimum by noise: tr(H⁻¹V)/2
    length: Any  # ‖D(x − base)‖
    damped: Any  # whether the radius shortened that step
    share: Any  # of the undamped step: λ/(λ + δ) along it
    far: Any  # whether it is more than noise
    matrix: Any  # H ≈ ∇²F
    rows: Any  # samples that it was measured from
    measured: Any  # `drawn` at its last measurement
    squares: Any  # D², the largest curvature that each unknown has had
    radius: Any
    scale: Any  # the size of the terms of Φ at x0
    sizes: Any  # samples of each block, the newest first
    slopes: Any  # Σ m·v of the stages in it; m·(v − Hₖx) of those with a curvature of their own
    points: Any  # Σ m·x of the others
    decision: Any  # place in DECISIONS
    rejected: Any  # stages rejected in a row
    lost: Any  # whether Φ was −∞ or no number was found


class StagesSolver(CoreSolver):
    """A stage draws m fresh samples, has v = g_Aᵀ∇f(g_A) at x from them, and goes to the minimum of

        ⟨v̄, x⟩ + ½⟨x, Hx⟩ + r(x),   v̄ = Σ mₖ(vₖ − Hₖxₖ)/Σ mₖ

    over the stages of the last six blocks: for r = 0 the mean of the Newton points xₖ − H⁻¹vₖ,
    weighted by their samples, which near a minimum is as good as the minimum over all samples.
    ∇²F is measured on a part of a stage. While a step promises more than noise does, tr(H⁻¹V)/2m,
    stages stay small and only the newest counts; then each has half as many samples as all before.
    A rise of Φ by four standard errors from one stage to the next is rejected, and where x is the
    minimum of a few samples, by more than what these miss of it.

    Args:
        problem, geometry: with a stream inside, outside or both.
        seed: of the draws.
        notes: what was chosen and why.
        rows: most samples that ∇²F is measured from at once.
    """

    on_host, keeps_best = True, False
    epochs, samples = 1000, SAMPLES

    def __init__(
        self, problem: Composition, geometry: Geometry, seed: int, notes: tuple[str, ...],
        rows: int,
    ) -> None:  # fmt: skip
        self.problem, self.geometry, self.seed, self.notes = problem, geometry, seed, notes
        self.penalty = Penalty(problem.regularizer, geometry.x)
        self.region = TrustRegion()
        self.eps = float(np.finfo(geometry.x.dtype).eps)
        self.least = max(LEAST, PER_UNKNOWN * geometry.x.size)
        self.most_rows = rows
        self.step_size = 1.0
        self._counts, self._compiling = Counts(), 0.0

    def init(self, x0: Any) -> tuple[StagesState, Info]:
        x = np.asarray(x0).astype(np.float64)
        d, nothing = len(x), np.zeros_like(x)
        blocks = np.zeros((BLOCKS, d))
        return arrays(StagesState(
            epoch=0, x=x, drawn=0, size=self.least, base=x, objective=np.inf, error=0.0,
            predicted=0.0, excess=0.0, length=0.0, damped=False, share=1.0, far=True,
            matrix=np.zeros((d, d)), rows=0, measured=0, squares=nothing, radius=np.inf, scale=0.0,
            sizes=np.zeros(BLOCKS), slopes=blocks, points=blocks, decision=0, rejected=0,
            lost=False,
        )), Info(Counts(), True)  # fmt: skip

    def compile(self, state: StagesState) -> None:
        passes = self._passes(0, self.least)
        passes.compile()
        passes.compile_noise()

    def step(self, state: StagesState) -> tuple[StagesState, Info]:
        self._counts, self._compiling = Counts(), 0.0
        self.penalty.calls = 0
        state = _plain(state)
        with np.errstate(all="ignore"), one_thread():
            state = self._after(state, self._passes(state.epoch, state.size))
        self._add(Counts(0, 0, 0, self.penalty.calls))
        known = np.isfinite(state.objective) or state.objective == -np.inf
        info = Info(self._counts, bool(known), self._compiling)
        return arrays(state._replace(epoch=state.epoch + 1)), info

    def _passes(self, stage: int, rows: int) -> Passes:
        return Passes(staged(self.problem, self.seed, stage, rows), self.geometry)

    def _after(self, state: StagesState, passes: Passes) -> StagesState:
        """After the stage at x: accepted or not, and the next point."""
        found, counts = passes.full(state.x)
        self._add(counts)
        objective = found.value + self.penalty.value(state.x)
        state = state._replace(drawn=state.drawn + state.size)
        if objective == -np.inf or objective < -state.scale / self.eps < 0:
            return state._replace(base=state.x, objective=objective, lost=True)
        finite = np.isfinite(objective) and bool(np.all(np.isfinite(found.gradient)))
        error, slopes = self._noise(state, passes, found) if finite else (np.inf, None)
        noise = RISE * np.hypot(error, state.error) + 4 * self.eps * found.scale
        if not state.far:  # x is the minimum of so many samples, and so much above that of all
            noise += MORE * state.excess / state.sizes.sum()
        first = not np.isfinite(state.objective)
        if finite and (first or objective <= state.objective + noise):
            state = self._accepted(state, passes, found, objective, error, noise, slopes)
        elif first:
            state = state._replace(decision=BROKEN)
        else:
            share = self.region.poor if finite else self.region.least
            state = state._replace(
                decision=REJECTED if finite else BROKEN, rejected=state.rejected + 1,
                radius=share * state.length,
            )  # fmt: skip
            state = self._proposed(state, None)
        self._compiling += passes.compiling
        return state

    def _accepted(
        self, state: StagesState, passes: Passes, found: Evaluation, objective: float,
        error: float, noise: float, slopes: Any,
    ) -> StagesState:  # fmt: skip
        """With what the stage says of x; the radius, where the step was not noise."""
        radius, decision = state.radius, ACCEPTED
        if state.damped:
            ratio = (state.objective - objective) / state.predicted
            if state.predicted <= noise or ratio >= self.region.good:
                close = state.predicted > noise and abs(ratio - 1) <= self.region.close
                growth = self.region.first_growth if close else self.region.growth
                radius, decision = growth * state.length, LONGER
            elif ratio < self.region.poor:
                radius = self.region.most * state.length
        state = state._replace(
            base=state.x, objective=objective, error=error, radius=radius, decision=decision,
            scale=state.scale or found.scale,
        )  # fmt: skip
        state, own = self._measured(state, passes, found)
        state = _with_slope(state._replace(rejected=0), found.gradient, own)
        state = self._proposed(state, slopes)
        size = state.size
        if not state.far:
            size = min(max(size, state.drawn // GROWTH), FASTEST * size)
        return state._replace(size=size)

    def _measured(
        self, state: StagesState, passes: Passes, found: Evaluation
    ) -> tuple[StagesState, np.ndarray | None]:
        """∇²F at x, joined with earlier measurements unless x has come far since; and by itself,
        where it is that of the whole stage."""
        enough = state.rows >= ENOUGH * len(state.x)
        if not state.far and enough and state.drawn < NEARER * state.measured:
            return state, None
        rows = max(1, min(state.size, self.most_rows))
        (matrix, diagonal), counts = passes.curvature_of(state.x, found.inner, found.outer, rows, 0)
        self._add(counts)
        if not np.all(np.isfinite(matrix)):
            return state, None
        kept = 0 if state.far else state.rows // 2 if enough else state.rows
        squares = np.maximum(state.squares, diagonal)
        if not np.any(state.squares):
            top = matrix_spectrum(matrix, np.ones(len(matrix))).largest
            self.step_size = 1 / top if top > 0 else 1.0
        return state._replace(
            matrix=(kept * state.matrix + rows * matrix) / (kept + rows), rows=kept + rows,
            squares=squares, measured=state.drawn,
        ), matrix if rows == state.size and not enough else None  # fmt: skip

    def _proposed(self, state: StagesState, slopes: Any) -> StagesState:
        """The minimum of the model around the last accepted point, unless it is more than noise
        within the radius; `slopes` are those of a few samples, None after a rejection."""
        x, H = state.base, state.matrix
        top = state.squares.max()
        D = np.sqrt(
            self.penalty.common(np.where(state.squares > 0, state.squares, top if top > 0 else 1.0))
        )
        total = state.sizes.sum()
        g = state.slopes.sum(axis=0) / total + H @ (x - state.points.sum(axis=0) / total)
        radius = state.radius
        if not np.isfinite(radius):
            radius = float(max(np.linalg.norm(D * x), np.linalg.norm(g / D)))
        spectrum = matrix_spectrum(H, D)
        far, excess = True, state.excess
        if slopes is not None:
            floor = len(x) * self.eps * max(spectrum.largest, np.finfo(float).tiny)
            along = (slopes / D) @ spectrum.vectors
            each = along**2 / np.maximum(np.abs(spectrum.values), floor)
            excess = 0.5 * float(each.sum()) / (len(slopes) - 1)
            u, B, delta = within(H, spectrum, g, x, self.penalty, D, np.inf, self.eps)
            nothing = max(MORE * excess / state.size, self.eps**0.75 * abs(state.objective))
            far = not self._decrease(g, u, x, B) <= nothing  # no number without a minimum
        if far:
            u, B, delta = within(H, spectrum, g, x, self.penalty, D, radius, self.eps)
        s, decrease = u - x, self._decrease(g, u, x, B)
        along, length = float(s @ (B @ s)), float(np.linalg.norm(D * s))
        whole = along + delta * length**2
        return state._replace(
            x=u, predicted=max(decrease, 0.0), excess=excess, length=length, damped=delta > 0,
            radius=radius, far=far, share=along / whole if whole > 0 else 1.0,
        )  # fmt: skip

    def _decrease(self, g: np.ndarray, u: np.ndarray, x: np.ndarray, B: np.ndarray) -> float:
        """What the model predicts from x to u."""
        s = u - x
        smooth = -float(g @ s) - 0.5 * float(s @ (B @ s))
        return smooth - self.penalty.value(u) + self.penalty.value(x)

    def _noise(
        self, state: StagesState, passes: Passes, found: Evaluation
    ) -> tuple[float, np.ndarray]:
        """The standard error of Φ, and what a few samples say of ∇F."""
        noise, counts = passes.noise(state.x, found.inner, found.outer)
        self._add(counts)
        return float(noise.values.std() / np.sqrt(state.size)), noise.slopes

    def _add(self, counts: Counts) -> None:
        self._counts = add_counts(self._counts, counts)

    # What the loop asks.

    def point(self, state: StagesState) -> Any:
        x = state.base if state.far else state.x  # a step that is more than noise is to be seen
        return np.asarray(x).astype(self.geometry.x.dtype)

    def told(self, state: StagesState) -> tuple[Any, Any] | None:
        return state.share, state.decision

    def ahead(self, state: StagesState) -> float:
        return float(state.size) * max(1, int(state.epoch)) / max(1, int(state.drawn))

    def end(self, state: StagesState, tolerance_given: bool) -> End | None:
        if not state.lost:
            return None
        return End(Status.UNBOUNDED, f"It falls along x + t·({direction(state.x - state.base)}).")


def staged(problem: Composition, seed: int, stage: int, rows: int) -> Composition:
    """The problem with so many fresh samples in the place of each stream."""
    inside, outside = (
        np.random.SeedSequence([seed, stage, side]).generate_state(2, np.uint32) for side in (0, 1)
    )
    outer = problem.outer_source
    sources = (
        problem.inner_source.stage(inside, rows),
        None if outer is None else outer.stage(outside, rows),
    )
    return eqx.tree_at(
        lambda p: (p.inner_source, p.outer_source), problem, sources,
        is_leaf=lambda a: a is None,
    )  # fmt: skip


def _with_slope(state: StagesState, slope: np.ndarray, own: np.ndarray | None) -> StagesState:
    """With the slope at x among the blocks; of far steps only this one.

    With the stage's `own` curvature its model is that of its samples, whatever H is: with few
    samples for each unknown H is far from ∇²F.
    """
    sizes, slopes, points, x = state.sizes, state.slopes, state.points, state.x
    if state.far:
        sizes, slopes, points = (np.zeros_like(a) for a in (sizes, slopes, points))
    elif sizes[0] >= sizes[1:].sum():  # the newest is as large as all before it: a new one
        sizes, slopes, points = (
            np.concatenate([np.zeros_like(a[:1]), a[:-1]]) for a in (sizes, slopes, points)
        )
    newest = np.eye(1, BLOCKS)[0]
    return state._replace(
        sizes=sizes + newest * state.size,
        slopes=slopes + np.outer(newest, state.size * (slope if own is None else slope - own @ x)),
        points=points + np.outer(newest, state.size * (x if own is None else 0 * x)),
    )


def _plain(state: StagesState) -> StagesState:
    return StagesState(*map(plain, state))
