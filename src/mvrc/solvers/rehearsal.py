"""Full passes on all samples or, to find a first point, on a part of them."""

from __future__ import annotations

import time
from typing import Any

import equinox as eqx
import numpy as np

from mvrc.oracle import Counts, Geometry, add_counts
from mvrc.problem import Composition
from mvrc.solvers.full_pass import FullPassSolver
from mvrc.solvers.newton import NewtonSolver
from mvrc.solvers.passes import CurvatureSample
from mvrc.solvers.secants import SecantSolver

REHEARSAL = 2**16  # at most so many samples
REHEARSED, ROUGHLY = 30, 1e-3  # most passes of it, and the share of the gradient mapping it ends at
CHEAP = 2**17  # n·d up to which the curvature is measured at every point


def full_passes(
    problem: Composition, geometry: Geometry, sample: CurvatureSample | None,
    notes: tuple[str, ...] = (), first: np.ndarray | None = None, step_size: float | None = None,
) -> FullPassSolver:  # fmt: skip
    """Newton's method where the curvature can be measured, secants elsewhere."""
    if sample is None:
        return SecantSolver(problem, geometry, notes, first, step_size)
    n, d = problem.n, geometry.x.size
    assert n is not None
    lazy = sample.rows < n or n * d > CHEAP
    return NewtonSolver(problem, geometry, sample, lazy, notes, first, step_size)


def rehearsed_rows(n: int) -> int:
    return min(n // 16, REHEARSAL)


def rehearse(
    problem: Composition, geometry: Geometry, x0: Any, sample: CurvatureSample | None
) -> tuple[np.ndarray, Counts, float, float]:
    """A rough minimum on a part of the samples, what it took, and λ there."""
    n = problem.n
    assert n is not None
    part = rehearsed_rows(n)
    source = problem.inner_source.thinned(part)
    problem = eqx.tree_at(lambda p: p.inner_source, problem, source)
    if sample is not None:
        rows = min(sample.rows, part)
        sample = CurvatureSample(rows, 1, max(1, part // rows))
    solver = full_passes(problem, geometry, sample)
    start = time.perf_counter()
    state, info = solver.init(geometry.x.flatten(x0))
    counts, compiling = info.counts, info.compiling
    first = solver.measured(state, None)
    for _ in range(REHEARSED):
        now = solver.measured(state, None)
        if first is None or now is None or solver.end(state, False) is not None:
            break
        if now[1] <= ROUGHLY * first[1]:
            break
        state, info = solver.step(state)
        counts, compiling = add_counts(counts, info.counts), compiling + info.compiling
    seconds = time.perf_counter() - start - compiling
    return np.asarray(state.x), counts, seconds, solver.step_size
