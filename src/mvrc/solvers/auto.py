"""Auto: everything chosen from the problem, every step assessed, nothing to tune."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from mvrc.estimators import Spider, chosen
from mvrc.methods import Method
from mvrc.methods.recipe import About, NamedRecipe, Prepared, Start, recipe, word
from mvrc.methods.spider_admm import SpiderADMM
from mvrc.oracle import Counts, Geometry
from mvrc.problem import Composition
from mvrc.regularizers import Composed
from mvrc.sampling import Sizes
from mvrc.schemes import GuardedScheme
from mvrc.solvers.averaged import AveragedSolver
from mvrc.solvers.passes import CurvatureSample
from mvrc.solvers.penalty import Penalty
from mvrc.solvers.rehearsal import full_passes, rehearse, rehearsed_rows
from mvrc.solvers.secants import SecantSolver
from mvrc.solvers.sizing import curvature_sample, work_of
from mvrc.theory.smoothness import smoothness

EXPENSIVE = 2**15  # samples from which on a pass is expensive
PROJECTIONS = 20  # most that are made of an x0 outside of the constraint set
LONG = 2**17  # from so many samples on, a rehearsal on a part finds the first point
SMALL_STEP = 2**19  # floating-point operations that are worth a step of the momentum
AVERAGED = (
    "Steps of schedule-free Adam (adapted to each coordinate, averaged) on a tracked mean of g; "
    "the step size is found by a race of short runs on 8,192 samples, and Φ is checked on all."
)
ONLINE = {"refresh": 8192, "batch": 256, "period": 33}


@recipe
class Auto(NamedRecipe):
    """Chooses by itself, and goes back when a step was none. The default of `minimize`.

    With few unknowns (d ≤ 256) the curvature of F is measured, and every step is a proximal Newton
    step on one full pass; with more, it is learnt from secants (limited-memory BFGS). Lengths are
    measured in the curvature that each unknown has, so units of x do not matter. With many unknowns
    and many samples, and for streams, it makes accelerated MVRC momentum steps on small batches,
    and hands over to secants where these stall. A step that does not lower Φ is rejected and
    shortened. `result.explain()` says what was chosen and why, and what happened.

    Args:
        steps: "auto", or one of the three kinds: "newton", "secant", "momentum".
    """

    about: ClassVar[About] = About(
        title="Auto",
        reference="after Lee, Sun & Saunders, Proximal Newton-type Methods, 2014, and Chen & Zhou, "
        "Momentum with Variance Reduction for Nonconvex Composition Optimization, 2020",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any",
        epoch="n (newton, secant), n + 2S(τ−1) (momentum)",
        memory="d² (newton), 20d (secant), 2(p·d + 4d) (momentum)",
        complexity="–",
    )

    steps: str = word("auto", ("auto", "newton", "secant", "momentum"))

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        method = self.prepare(problem, geometry, start).method
        if method is None:
            raise TypeError("Auto makes full passes on this problem, which is no Method.")
        return method

    def prepare(self, problem: Composition, geometry: Geometry, start: Start) -> Prepared:
        moved = _feasible(problem, geometry, start.x)
        x0 = start.x if moved is None else moved
        notes = []
        if moved is not None:
            notes.append("x0 is outside of the constraint set; the run starts at its projection.")
        kind, why, sample = self._kind(problem, geometry)
        notes.append(why)
        if kind == "momentum":
            return self._small_steps(problem, geometry, start, x0, moved, notes)
        counts, seconds, first, step_size = Counts(), 0.0, None, None
        n = problem.n
        assert n is not None
        if n >= LONG:
            rehearsed = rehearse(problem, geometry, x0, sample)
            first, counts, seconds, step_size = rehearsed
            notes.append(
                f"With {n:,} samples a pass is expensive: the first point was found on "
                f"{rehearsed_rows(n):,} of them, for {counts.inner_values / n:.2f} passes."
            )
        solver = full_passes(problem, geometry, sample, tuple(notes), first, step_size)
        return Prepared(None, solver.notes, counts, seconds, moved, solver)

    def _small_steps(
        self, problem: Composition, geometry: Geometry, start: Start, x0: Any, moved: Any,
        notes: list[str],
    ) -> Prepared:  # fmt: skip
        """Momentum on small batches; of finite sums handed over to secants where it stalls."""
        if isinstance(problem.regularizer, Composed):
            notes[-1] = (
                "The regulariser is r(Ax), which has no prox in closed form, and small steps cannot"
                " bear a numeric one: SPIDER with ADMM at its default step, which nothing guards."
            )
            method = SpiderADMM().resolve(problem, geometry, start)
            return Prepared(method, (*notes, *method.notes))
        if problem.finite and geometry.seeds == 1 and self.steps == "auto":
            notes += [AVERAGED, "Where halving the steps no longer helps, secant steps go on."]
            flat = np.asarray(geometry.x.flatten(x0))
            solver = AveragedSolver(problem, geometry, flat, start.seed, tuple(notes))
            return Prepared(None, tuple(notes), Counts(), 0.0, moved, solver)
        curvature, rows = smoothness(problem, geometry, geometry.x.flatten(x0))
        notes.append(
            f"The curvature of F at x0 is about {curvature:.3g}, by power iteration on {rows:,} "
            f"samples."
        )
        method = _momentum(problem, geometry, curvature, work_of(problem, geometry), notes)
        method = method.resolve(problem, geometry, start)
        counts = Counts(inner_values=rows, inner_jacobians=rows)
        second = None
        if problem.finite and geometry.seeds == 1:
            notes.append("Where it stalls, secant steps on full passes go on.")
            second = SecantSolver(problem, geometry)
        return Prepared(method, tuple(notes), counts, x0=moved, second=second)

    def _kind(
        self, problem: Composition, geometry: Geometry
    ) -> tuple[str, str, CurvatureSample | None]:
        """Which steps, why, and the samples of the curvature."""
        n, d = problem.n, geometry.x.size
        if n is None or problem.N is None:
            if self.steps in ("newton", "secant"):
                raise ValueError(
                    f"steps is {self.steps!r}, which needs full passes, and this problem is "
                    f"{problem.kind} (a Stream); it may be 'auto' or 'momentum'."
                )
            return (
                "momentum",
                "Samples come from a stream, so there are no full passes: momentum steps on small "
                "batches between large ones, assessed by their standard error.",
                None,
            )
        asked = f"{self.steps.capitalize()} steps were asked for."
        if self.steps in ("secant", "momentum"):
            return self.steps, asked, None
        sample = curvature_sample(problem, geometry)
        if self.steps == "newton":
            if isinstance(sample, str):
                raise ValueError(
                    f"steps is 'newton', but {sample}; it may be 'auto', 'secant' or 'momentum'."
                )
            return "newton", asked, sample
        if isinstance(sample, CurvatureSample):
            part = (
                "from all samples" if sample.rows == n else f"at first from {sample.rows:,} samples"
            )
            return (
                "newton",
                f"With d = {d} unknowns the curvature of F can be measured ({part}): proximal "
                f"Newton steps, each one full pass.",
                sample,
            )
        because = sample[0].upper() + sample[1:]
        if n >= EXPENSIVE:
            return (
                "momentum",
                f"{because}, and a pass over {n:,} samples is expensive: small batches.",
                None,
            )
        return (
            "secant",
            f"{because}: it is learnt from how the gradient changes (limited-memory BFGS), each "
            f"step one full pass.",
            None,
        )


def _momentum(
    problem: Composition, geometry: Geometry, curvature: float, work: float, notes: list[str]
) -> Method:
    n, N = problem.n, problem.N
    finite = n is not None and N is not None
    batch, period, between = ONLINE["batch"], ONLINE["period"], ""
    if n is not None:
        batch = int(np.clip(2 ** round(math.log2(SMALL_STEP / work)), 64, 256))
        batch = max(1, min(batch, n // 8))
        period = math.ceil(n / batch)
    if not finite:
        between = f" of {ONLINE['refresh']:,} samples"
    outer = None
    if problem.two_level:
        outer = batch if N is None else max(1, min(batch, N // 4))
    refresh = Sizes(
        ONLINE["refresh"] if n is None else None, None, ONLINE["refresh"] if N is None else None
    )
    notes.append(
        f"A sample costs about {work:,.0f} floating-point operations, so a step evaluates {batch} "
        f"samples and {period} steps are made from a refresh{between} to the next; the first step "
        f"size is {1 / (2 * curvature):.3g}."
    )
    estimator, free = chosen(Spider(), geometry)
    notes.extend(free)
    scheme = GuardedScheme(1 / (2 * curvature), noisy=not finite)
    return Method(estimator, scheme, Sizes(batch, None, outer), refresh, period, "auto")


def _feasible(problem: Composition, geometry: Geometry, x: Any) -> Any:
    """The projection of an x0 outside of the constraint set; None for one inside."""
    penalty = Penalty(problem.regularizer, geometry.x)
    flat = np.asarray(geometry.x.flatten(x)).astype(np.float64)
    if np.isfinite(penalty.value(flat)):
        return None
    for _ in range(PROJECTIONS):  # of r(Ax) each is numeric, and comes closer
        flat = penalty.prox(flat, np.ones_like(flat))
        if np.isfinite(penalty.value(flat)):
            return geometry.x.unflatten(flat.astype(geometry.x.dtype))
    raise ValueError(
        "x0 is outside of the constraint set and no projection to it was found; give an x0 inside."
    )
