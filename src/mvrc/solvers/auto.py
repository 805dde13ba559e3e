"""Auto: everything chosen from the problem, every step assessed, nothing to tune."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mvrc.methods import SOX, Method
from mvrc.methods.recipe import About, NamedRecipe, Prepared, Start, recipe, word
from mvrc.methods.spider_admm import SpiderADMM
from mvrc.oracle import Counts, Geometry
from mvrc.problem import Composition, Coupled
from mvrc.regularizers import Composed
from mvrc.solvers.averaged import AveragedSolver
from mvrc.solvers.passes import CurvatureSample
from mvrc.solvers.penalty import Penalty
from mvrc.solvers.rehearsal import full_passes, rehearse, rehearsed_rows
from mvrc.solvers.sizing import curvature_sample, stage_rows
from mvrc.solvers.solver import CoreSolver
from mvrc.solvers.stages import StagesSolver

EXPENSIVE = 2**15  # samples from which on a pass is expensive
PROJECTIONS = 20  # most that are made of an x0 outside of the constraint set
PAIRS = 2**31  # of a coupled problem, from which on it is too expensive
LONG = 2**17  # from so many samples on, a rehearsal on a part finds the first point
STEPS = ("auto", "newton", "secant", "averaged")
AVERAGED = (
    "Steps of schedule-free Adam (adapted to each coordinate, averaged) on a tracked mean of g; "
    "the step size is found by a race of short runs on 8,192 samples, and Φ is checked on all."
)
ONLINE = (
    "Steps of Adam on a tracked mean of g, averaged; the step size is found by a race of short "
    "runs on 2,048 samples."
)


@recipe
class Auto(NamedRecipe):
    """Chooses its steps, and rejects those that make no progress. The default of `minimize`.

    With few unknowns (d ≤ 256) the curvature of F is measured, and every step is a proximal Newton
    step on one full pass, of a stream on a stage of fresh samples; with more, it is learnt from
    secants (limited-memory BFGS). Lengths are measured in the curvature that each unknown has, so
    units of x do not matter. With many unknowns and many samples, or a stream, it makes averaged
    steps of Adam on small batches, and of finite sums hands over to secants where these stall.
    A step that does not lower Φ is rejected and shortened. `result.explain()` says what was chosen
    and why, and what happened.

    Args:
        steps: "auto", or one of the three kinds: "newton", "secant", "averaged".

    Examples:
        >>> result = mvrc.minimize(problem, x0, mvrc.Auto(steps="secant"))
        >>> result.status.name, round(result.objective, 4)
        ('CONVERGED', -0.0825)
    """

    about: ClassVar[About] = About(
        title="Auto",
        reference="after Lee, Sun & Saunders, Proximal Newton-type Methods, 2014, and Defazio et "
        "al., The Road Less Scheduled, 2024",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any",
        epoch="n (newton, secant), 6n (averaged); of a stream a stage",
        memory="d² (newton), 20d (secant), p + 4d (averaged)",
        complexity="–",
    )

    steps: str = word("auto", STEPS)

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        method = self.prepare(problem, geometry, start).method
        if method is None:
            raise TypeError("Auto makes steps of its own on this problem, which are not a Method.")
        return method

    def prepare(self, problem: Composition, geometry: Geometry, start: Start) -> Prepared:
        moved = _feasible(problem, geometry, start.x)
        x0 = start.x if moved is None else moved
        notes = []
        if moved is not None:
            notes.append("x0 is outside the constraint set; the run starts at its projection.")
        if isinstance(problem, Coupled):
            return self._coupled(problem, geometry, start, x0, moved, notes)
        kind, why, sample = self._kind(problem, geometry)
        notes.append(why)
        if not problem.finite or kind == "averaged":
            return self._drawn(problem, geometry, start, x0, moved, kind, notes)
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

    def _coupled(
        self, problem: Coupled, geometry: Geometry, start: Start, x0: Any, moved: Any,
        notes: list[str],
    ) -> Prepared:  # fmt: skip
        """Full passes over all pairs, or where these are too many an average for each k."""
        if self.steps == "averaged":
            raise ValueError(
                "steps is 'averaged', which is not for Coupled problems; it may be 'auto', "
                "'newton' or 'secant', or method 'sox' or 'msvr'."
            )
        pairs, inside = problem.evaluations[0], problem.coupling.source.inside
        if inside.drawn:
            notes.append(
                f"Inner samples come from a simulator: Φ, and the status, are those of "
                f"{inside.most():,} fixed draws for each outer sample."
            )
        if pairs > PAIRS and self.steps == "auto":
            notes.append(
                f"A pass over {pairs:,} pairs is expensive: an average of g for each outer sample "
                f"(SOX) at its default step, without a safeguard; it ends at a limit."
            )
            method = SOX().resolve(problem, geometry, start)
            return Prepared(method, (*notes, *method.notes), Counts(), 0.0, moved)
        kind, why, sample = self._kind(problem, geometry)
        if kind == "averaged":
            kind, why = "secant", (
                "The curvature is too expensive to measure: it is learnt from how the gradient "
                "changes (limited-memory BFGS), each step one full pass."
            )  # fmt: skip
        notes.append(why)
        solver = full_passes(problem, geometry, sample, tuple(notes), None, None)
        return Prepared(None, solver.notes, Counts(), 0.0, moved, solver)

    def _drawn(
        self, problem: Composition, geometry: Geometry, start: Start, x0: Any, moved: Any,
        kind: str, notes: list[str],
    ) -> Prepared:  # fmt: skip
        """Steps on samples that are drawn."""
        if isinstance(problem.regularizer, Composed):
            notes[-1] = (
                "The regulariser is r(Ax), which has no prox in closed form, and a numeric one is "
                "too expensive for small steps: SPIDER with ADMM at its default step, without a "
                "safeguard."
            )
            method = SpiderADMM().resolve(problem, geometry, start)
            return Prepared(method, (*notes, *method.notes))
        flat = np.asarray(geometry.x.flatten(x0))
        solver: CoreSolver
        if kind == "newton":
            rows = stage_rows(problem, geometry)
            assert isinstance(rows, int)
            solver = StagesSolver(problem, geometry, start.seed, tuple(notes), rows)
        else:
            notes.append(AVERAGED if problem.finite else ONLINE)
            if problem.finite:
                notes.append("Where halving the steps no longer helps, secant steps take over.")
            solver = AveragedSolver(problem, geometry, flat, start.seed, tuple(notes))
        return Prepared(None, tuple(notes), Counts(), 0.0, moved, solver)

    def _kind(
        self, problem: Composition, geometry: Geometry
    ) -> tuple[str, str, CurvatureSample | None]:
        """Which steps, why, and the samples of the curvature."""
        if not problem.finite:
            return (*self._kind_online(problem, geometry), None)
        n, d = problem.n, geometry.x.size
        assert n is not None
        asked = f"{self.steps.capitalize()} steps were asked for."
        if self.steps in ("secant", "averaged"):
            return self.steps, asked, None
        sample = curvature_sample(problem, geometry)
        if isinstance(sample, str):
            if self.steps == "newton":
                raise ValueError(
                    f"steps is 'newton', but {sample}; it may be 'auto', 'secant' or 'averaged'."
                )
            because = sample[0].upper() + sample[1:]
            if n >= EXPENSIVE:
                why = f"{because}, and a pass over {n:,} samples is expensive: small batches."
                return "averaged", why, None
            return (
                "secant",
                f"{because}: it is learnt from how the gradient changes (limited-memory BFGS), "
                f"each step one full pass.",
                None,
            )
        if self.steps == "newton":
            return "newton", asked, sample
        part = "from all samples" if sample.rows == n else f"at first from {sample.rows:,} samples"
        return (
            "newton",
            f"With d = {d} unknowns the curvature of F can be measured ({part}): proximal Newton "
            f"steps, each one full pass.",
            sample,
        )

    def _kind_online(self, problem: Composition, geometry: Geometry) -> tuple[str, str]:
        """The same where samples come from a stream."""
        if self.steps == "secant":
            raise ValueError(
                f"steps is 'secant', which needs full passes, and this problem is {problem.kind} "
                f"(a Stream); it may be 'auto', 'newton' or 'averaged'."
            )
        if self.steps == "averaged":
            return "averaged", "Averaged steps were asked for."
        rows = stage_rows(problem, geometry)
        if isinstance(rows, int):
            return (
                "newton",
                "Samples come from a stream, and the curvature of F can be measured: Newton steps, "
                "each on a larger batch of fresh samples, and their mean.",
            )
        if self.steps == "newton":
            raise ValueError(f"steps is 'newton', but {rows}; it may be 'auto' or 'averaged'.")
        return "averaged", f"Samples come from a stream, and {rows}: small batches."


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
        "x0 is outside the constraint set and no projection onto it was found; give an x0 inside."
    )
