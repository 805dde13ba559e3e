"""Two cases in turns in one process: ten million rows against ten thousand, dtypes, seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from benchmarks.cases.case import Case
from benchmarks.children import child
from benchmarks.row import Row
from benchmarks.timing import Spread


def run(full: bool) -> Iterator[Row]:
    """The rows of this part."""
    base = Case()
    vary = dataclasses.replace
    seconds = 8.0 if full else 3.0
    many, few = (vary(base, n=n, dtype="float32") for n in (10**7, 10**4))
    yield _row(
        "step with n = 10⁷ / with n = 10⁴, float32", many, few, seconds, most=2,
        more="the small data lie in the cache; rows of the large are fetched from memory ahead",
    )  # fmt: skip
    double, single = (vary(base, d=1000, dtype=dtype) for dtype in ("float64", "float32"))
    yield _row("step at d = 1,000: float64 / float32", double, single, seconds, least=1.5)
    one = vary(base, whole=True)
    for seeds in (10, 32) if full else (32,):
        for sampling in ("replacement", "reshuffled") if full else ("replacement",):
            lanes = vary(one, seeds=seeds, sampling=sampling)
            yield _row(
                f"{seeds} vmapped seeds / one, {sampling}", lanes, vary(one, sampling=sampling),
                seconds, most=seeds if sampling == "replacement" else None,
                more="epochs with their full pass",
            )  # fmt: skip


def _row(
    name: str, first: Case, second: Case, seconds: float, *,
    least: float | None = None, most: float | None = None, more: str = "",
) -> Row:  # fmt: skip
    """The ratio of the best times, with the medians in the note."""
    entries = child.measure_all([first, second], seconds)
    a, b = (Spread(**entry["step"]["mvrc"]) for entry in entries)
    ratio = a.over(b)
    note = f"{a.best:.1f} µs and {b.best:.1f} µs (best); ratio of the medians {ratio.median:.2f} x"
    return Row(name, ratio.best, "x", least, most, "; ".join(filter(None, (note, more))))
