"""The Jacobian as a matrix against matrix-free, over p·d: whether "auto" switches where it pays."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from benchmarks import child
from benchmarks.case import Case
from benchmarks.row import Measured, Row
from benchmarks.timing import Spread

SIZES = ((1, 10), (2, 30), (32, 32))
ALL_SIZES = (
    (1, 1), (2, 2), (1, 10), (2, 10), (1, 30), (2, 30), (4, 30), (8, 30), (32, 32), (2, 1000),
    (128, 128), (30, 1000), (1000, 100),
)  # fmt: skip
FORMS = ("matrix", "free")
LOSS = 1.2  # of "auto" against the faster form


def run(full: bool) -> Iterator[Row | Measured]:
    """g(x, a) = tanh(W(a∘x)) and the portfolio's own g, batch 64; both forms in turns."""
    found: list[tuple[int, Spread, str]] = []  # p, matrix / free, title
    wide = [Case("wide", 2_000, d, p, 64) for p, d in (ALL_SIZES if full else SIZES)]
    cases = [Case(batch=64), *wide]
    forms = [dataclasses.replace(case, jacobian=form) for case in cases for form in FORMS]
    entries = child.measure_all(forms, 20.0 if full else 2.0)
    yield from (Measured("jacobian", **entry | {"memory": None}) for entry in entries)
    steps = [Spread(**entry["step"]["mvrc"]) for entry in entries]
    for case, matrix, free in zip(cases, steps[::2], steps[1::2], strict=True):
        ratio = matrix.over(free)
        title = f"{case.problem}, p·d = {case.p} × {case.d} = {case.p * case.d:,}"
        found.append((case.p, ratio, title))
        yield Row(
            f"{title}: matrix / matrix-free", ratio.best, "x",
            note=f"a step {matrix.best:.1f} µs and {free.best:.1f} µs (best); "
            f"medians {ratio.median:.2f} x",
        )  # fmt: skip
    yield from _switch(found)


def _switch(found: list[tuple[int, Spread, str]]) -> Iterator[Row]:
    """Where the matrix-free form wins for good, and what `auto` loses by its limit."""
    from mvrc.estimators.base import MATRIX_ROWS

    losing = [p for p, ratio, _ in found if ratio.best < 1]
    winning = [p for p in sorted(p for p, _, _ in found) if p > max(losing, default=0)]
    start = winning[0] if winning else float("nan")
    losses = {
        title: 1 / ratio.best if p > MATRIX_ROWS else ratio.best for p, ratio, title in found
    }  # fmt: skip
    worst = max(losses, key=lambda title: losses[title])
    yield Row(
        "matrix-free is faster from this p on", start, "",
        note=f"of the sizes measured; auto keeps the matrix up to p = {MATRIX_ROWS}",
    )  # fmt: skip
    yield Row(
        "the form that auto takes / the faster form, at worst", max(1.0, losses[worst]), "x",
        most=LOSS, note=worst,
    )  # fmt: skip
