"""What an evaluation costs, and from how many samples the curvature is measured."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.regularizers import Composed
from mvrc.sampling import Samples
from mvrc.solvers.passes import CurvatureSample, Passes
from mvrc.solvers.stages import staged
from mvrc.support.partition import partition

WIDEST = 256  # the largest d whose curvature is kept as a matrix
# Passes that a first measurement may take, a column counting as a Jacobian. 4, 8 and 16 took 71, 62
# and 59 passes and 693, 535 and 706 Jacobians on 11 instances of docs/comparison.md; on its 13 that
# had no part in the choice 84, 81 and 86 passes and 993, 932 and 1,031 Jacobians.
FIRST_PASSES = 8
LEAST_ROWS = 16  # times d: samples below which a measurement says too little
MOST_ROWS = 2**16  # of a first measurement
MAX_PASSES = 32  # passes that a measurement may take, and min(p, d) of its Jacobian
WORK = 2e9  # floating-point operations that a measurement may take
STAGE_WIDEST, STAGE_WORK = 512, 2e10  # the same of a stage of a stream, which has fewer of them


def _once(function: Callable[[Composition, Geometry], Any]) -> Callable[..., Any]:
    """Remember what depends on shapes and functions alone."""
    known: dict[Any, Any] = {}

    @functools.wraps(function)
    def remembered(problem: Composition, geometry: Geometry) -> Any:
        numbers, static = partition(problem.packed(geometry), geometry.x.dtype)
        key = (static, geometry, tuple((np.shape(a), a.dtype) for a in numbers))
        if key not in known:
            if len(known) > 64:
                known.clear()
            known[key] = function(problem, geometry)
        return known[key]

    return remembered


@_once
def work_of(problem: Composition, geometry: Geometry) -> float:
    """Floating-point operations of g and its pullback at one sample, as XLA counts them."""
    outer = geometry.y.size
    functions = problem.functions(geometry)

    def one(x: Any, u: Any, sample: Any) -> Any:
        return jax.vjp(lambda x: functions.value_sum(x, sample), x)[1](u)

    x = jax.ShapeDtypeStruct((geometry.x.size,), geometry.x.dtype)
    u = jax.ShapeDtypeStruct((outer,), geometry.y.dtype)
    eight = lambda s: jax.ShapeDtypeStruct((8, *s.shape), s.dtype)  # noqa: E731
    sample = Samples(jax.tree_util.tree_map(eight, problem.inner_source.spec()))
    try:
        found = jax.jit(one).lower(x, u, sample).cost_analysis()
        flops = float(found["flops"]) / 8  # type: ignore[index]
    except Exception:  # not every platform counts
        flops = 0.0
    return max(flops, 2.0 * (geometry.x.size + outer))


def curvature_sample(problem: Composition, geometry: Geometry) -> CurvatureSample | str:
    """The samples of a measurement of the curvature, or why there is none."""
    n, d, p = problem.n, geometry.x.size, geometry.y.size
    assert n is not None
    too_many = f"with d = {d:,} unknowns and p = {p:,} the curvature is too expensive to measure"
    if d > WIDEST:  # before anything is traced
        return too_many
    work = work_of(problem, geometry)
    least = min(n, 8 * d)
    most = min(n, int(WORK / (3 * work * d)), max(MAX_PASSES * n // d, least))
    expensive = most < least or (n > least and min(p, d) > MAX_PASSES)
    if p * d > 2**22 or expensive:
        return too_many
    first = min(n, max(FIRST_PASSES * n // d, LEAST_ROWS * d), MOST_ROWS, most)
    rows = math.ceil(n / max(1, round(n / first)))
    pieces = math.ceil(n / rows) if most == n else most // rows
    sample = CurvatureSample(rows, 1, max(1, pieces))
    if not Passes(problem, geometry).has_curvature(sample):
        return "f or g cannot be differentiated twice, so the curvature cannot be measured"
    return sample


def stage_rows(problem: Composition, geometry: Geometry) -> int | str:
    """The most samples that a stage of a stream measures the curvature from, or why none."""
    d, p = geometry.x.size, geometry.y.size
    too_many = f"with d = {d:,} unknowns and p = {p:,} the curvature is too expensive to measure"
    if isinstance(problem.regularizer, Composed):
        return "r(Ax) has no prox in closed form"
    if d > STAGE_WIDEST or p * d > 2**22:
        return too_many
    rows = int(STAGE_WORK / (3 * work_of(problem, geometry) * d))
    if rows < LEAST_ROWS * d:
        return too_many
    sample = CurvatureSample(1, 1, 1)
    if not Passes(staged(problem, 0, 0, 2), geometry).has_curvature(sample):
        return "f or g cannot be differentiated twice"
    return rows
