"""The Jacobian as a matrix against matrix-free, over p·d: what a step costs, what a run takes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cases.case import Case, build, draw
from benchmarks.children import child
from benchmarks.row import Measured, Row
from benchmarks.timing import Spread

SIZES = ((1, 10), (2, 30), (32, 32))
ALL_SIZES = (
    (1, 1), (2, 2), (1, 10), (2, 10), (1, 30), (2, 30), (4, 30), (8, 30), (32, 32), (2, 1000),
    (128, 128), (30, 1000), (1000, 100),
)  # fmt: skip
FORMS = ("matrix", "free")
SPARSE = 2.0  # most that a step of the sparse additive model may cost with the matrix
GOAL = 1e-6  # of the gradient mapping at x0
LARGEST = 2**12  # p·d of a dense matrix with which whole runs are made
MOST = 300  # passes after which a run is given up
POWERS = np.arange(-9, 2)  # of 2, times 1/L: the steps that are tried


def run(full: bool) -> Iterator[Row | Measured]:
    """tanh(W(a∘x)), the portfolio's own g and the sparse additive model, both forms in turns."""
    wide = [Case("wide", 2_000, d, p, 64) for p, d in (ALL_SIZES if full else SIZES)]
    additive = Case("additive", 5_000, 100, 101, 70)
    cases = [Case(batch=64), additive, *wide]
    forms = [dataclasses.replace(case, jacobian=form) for case in cases for form in FORMS]
    entries = child.measure_all(forms, 20.0 if full else 3.0)
    yield from (Measured("jacobian", **entry | {"memory": None}) for entry in entries)
    steps = [Spread(**entry["step"]["mvrc"]) for entry in entries]
    for case, matrix, free in zip(cases, steps[::2], steps[1::2], strict=True):
        ratio = matrix.over(free)
        title = f"{case.problem}, p·d = {case.p} × {case.d} = {case.p * case.d:,}"
        yield Row(
            f"{title}: a step, matrix / matrix-free", ratio.best, "x",
            most=SPARSE if case == additive else None,
            note=f"a step {matrix.best:.1f} µs and {free.best:.1f} µs (best); "
            f"medians {ratio.median:.2f} x; auto takes {_auto(case)}",
        )  # fmt: skip
        if case == additive or (ratio.best > 1.1 and case.p * case.d <= LARGEST):
            yield from _passes(case, title)


def _auto(case: Case) -> str:
    """The form that "auto" is."""
    from mvrc.estimators import Spider
    from mvrc.estimators.base import chosen

    built = build(case, draw(case))
    with built.problem.precision(built.x0):
        estimator, _ = chosen(Spider(), built.problem.geometry(built.x0))
    words = {"matrix": "the matrix", "free": "the free form"}
    return words[estimator.jacobian]  # type: ignore[attr-defined]


def _passes(case: Case, title: str) -> Iterator[Row]:
    """Passes of both forms, each at its best step, until the gradient mapping has fallen."""
    built = build(case, draw(case))
    x0 = built.x0 if case.problem == "additive" else built.x0 + 1  # 0 is nearly stationary
    found = {form: _best(built.problem, x0, form) for form in FORMS}
    shown = "never" if math.isinf(found["free"]) else f"{found['free']:.0f}"
    yield Row(
        f"{title}: passes to {GOAL:g} of the gradient mapping at x0, matrix", found["matrix"], "",
        note=f"matrix-free {shown}; MVRC with its default batches, θ ≡ 1, each form at the best "
        f"of {len(POWERS)} steps 2^k/L, at most {MOST} passes, one seed",
    )  # fmt: skip


def _best(problem: Any, x0: Any, form: str) -> float:
    import mvrc
    from mvrc.theory.smoothness import default_step_size

    smooth, fewest = 1 / (4 * default_step_size(problem, x0)), math.inf
    for power in POWERS:
        method = mvrc.MVRC(2.0**power / smooth, jacobian=form, epsilon=None)
        most = min(fewest, MOST)
        result = mvrc.minimize(
            problem, x0, method, rtol=GOAL, samples=math.ceil(most * problem.n),
            mapping_step=1 / smooth,
        )  # fmt: skip
        if result.status is mvrc.Status.CONVERGED:
            fewest = min(fewest, result.counts.inner_values / problem.n)
    return fewest
