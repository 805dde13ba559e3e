"""The grid: each axis varied around the portfolio problem, every method, every application."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import mvrc
from benchmarks.cases import applications, problems
from benchmarks.cases.case import Case
from benchmarks.children import child
from benchmarks.parts import fit
from benchmarks.row import Measured, Ratio, Row
from benchmarks.twins import sides

AXES = {
    "n": "samples n",
    "d": "unknowns d",
    "batch": "batch size (samples)",
    "p": "outputs p of g",
    "seeds": "seeds",
}
FORMS = {"auto": "", "matrix": ", matrix", "free": ", matrix-free"}
DTYPES = ("float64", "float32")
TWIN_ROWS = 10**6  # beyond, the twins' full pass drowns their steps
FIRST = {"batch": 256, "d": 30, "p": 30}  # below, the fixed cost of a step hides the growth
LINEAR = 1.15  # the largest exponent that is called linear

ROWS = (10**3, problems.ROWS, 10**5)
ALL_ROWS = tuple(10**k for k in range(3, 8))
BATCHES = (1, 256, 1024, 4096)
ALL_BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
WIDTHS = (10, 30, 100, 1000)
ALL_WIDTHS = (10, 30, 100, 300, 1000, 3000, 10_000)
OUTPUTS = (1, 30, 300)
ALL_OUTPUTS = (1, 10, 100, 1000, 10_000)


def groups(full: bool) -> dict[str, list[Case]]:
    """The cases by table; `make bench` takes a part of them."""
    base = Case()
    vary = dataclasses.replace
    dtypes = DTYPES if full else DTYPES[:1]
    tables = {
        "d": [vary(base, d=d, dtype=t) for t in dtypes for d in (ALL_WIDTHS if full else WIDTHS)],
        "batch": [
            vary(base, batch=b, dtype=t) for t in dtypes for b in (ALL_BATCHES if full else BATCHES)
        ],
        "n": [vary(base, n=n, dtype=t) for t in dtypes for n in (ALL_ROWS if full else ROWS)],
        "p": [
            Case("wide", 2_000, p=p, jacobian=form, dtype=dtype)
            for dtype in dtypes
            for form in (("matrix", "free") if full else ("free",))
            for p in (ALL_OUTPUTS if full else OUTPUTS)
        ],
        "method": [
            vary(base, method=name, dtype=t, whole=True) for t in dtypes for name in mvrc.METHODS
        ],
        "application": [
            Case(name, batch=0, dtype=dtype, whole=True)
            for dtype in dtypes
            for name in (applications.PROBLEMS if full else applications.SHORT)
        ],
    }  # fmt: skip
    if full:
        tables["seeds"] = [vary(base, seeds=s, dtype=t) for t in DTYPES for s in (1, 4, 32)]
        tables["sampling"] = [vary(base, sampling="reshuffled", dtype=t) for t in DTYPES]
    return tables


def run(full: bool) -> Iterator[Measured | Ratio | Row]:
    """Every case in a process of its own; one that fails is a row and the others go on.

    In the short run the methods share a process, and so do the applications: that saves a minute of
    imports, and costs the column of the memory.
    """
    known: dict[Case, dict[str, Any]] = {}  # the portfolio problem is on every axis
    for group, cases in groups(full).items():
        done: list[Measured] = []
        together = not full and group in ("method", "application")
        for some in [cases] if together else [[case] for case in cases]:
            print(f"  {group}: {_words(group, some)}", file=sys.stderr, flush=True)
            new = not known.keys() & set(some)
            for found in _measure(group, some, full, known):
                if isinstance(found, Measured):
                    done.append(found)
                    yield from _ratio(found) if new else ()
                yield found
        yield from _exponents(group, done)


def _measure(
    group: str, cases: list[Case], full: bool, known: dict[Case, dict[str, Any]]
) -> Iterator[Measured | Row]:
    """The cases of one child; a row for each that fails."""
    alone = len(cases) == 1
    try:
        if alone and cases[0] in known:
            entries = [known[cases[0]]]
        else:
            entries = child.measure(cases, _twins(cases[0], full), 1.0 if full else 0.4)
        known |= dict(zip(cases, entries, strict=True))
    except Exception as error:
        entries = [{"error": str(error)} for _ in cases]
    for case, entry in zip(cases, entries, strict=True):
        if "error" in entry:
            reason = " ".join(entry["error"].split())[:200]
            yield Row(f"{group}: {case.words} broke", float("nan"), "", least=0, note=reason)
        else:
            yield Measured(group, **entry | ({} if alone else {"memory": None}))


def _words(group: str, cases: list[Case]) -> str:
    return label(group, cases[0]) if len(cases) == 1 else f"{len(cases)} in turns"


def _twins(case: Case, full: bool) -> tuple[str, ...]:
    if case.n > TWIN_ROWS or case.seeds > 1 or case.whole or case.method != "mvrc":
        return ()
    return sides.ALL if full else (sides.PLAIN,)


def _ratio(measured: Measured) -> Iterator[Ratio]:
    ratio = measured.ratio(sides.PLAIN)
    if ratio is not None:
        name = f"step, {label(measured.group, Case(**measured.case))}"
        yield Ratio(name, ratio.best, ratio.median)


def _exponents(group: str, done: list[Measured]) -> Iterator[Row]:
    """How the cost of a step grows along an axis, from the portfolio problem's size on."""
    if group not in AXES:
        return
    keys = sorted({(m.case["dtype"], m.case["jacobian"]) for m in done}, reverse=True)
    for dtype, form in keys:
        line = [m for m in done if (m.case["dtype"], m.case["jacobian"]) == (dtype, form)]
        exponent, sizes = growth(group, line)
        if len(sizes) < 2:
            continue
        words = f"cost of a step ~ {group}^{exponent:.2f}"
        yield Row(
            f"{words}, {dtype}{FORMS[form]}", exponent, "",
            most=LINEAR if group in ("d", "batch") else None,
            note=f"least squares on log-log over {group} = {sizes[0]:,} … {sizes[-1]:,}, best "
            f"times; {_effects(group)}",
        )  # fmt: skip


def growth(group: str, line: list[Measured]) -> tuple[float, list[int]]:
    """The exponent along a line of cases, and the sizes over which it is fitted."""
    line = [m for m in line if m.case[group] >= FIRST.get(group, 1)]
    sizes = [m.case[group] for m in line]
    if len(sizes) < 2:
        return float("nan"), sizes
    return fit.exponent(sizes, [m.step["mvrc"]["best"] for m in line]), sizes


def _effects(group: str) -> str:
    """What bends the line."""
    return {
        "n": "the rows leave the caches one after the other, so a gather waits longer",
        "d": "the rows of a batch leave a second-level cache of 2 MB at d = 1,000 in float64; from "
        "d = 8,000 on it is summed in pieces",
        "batch": "below, the fixed cost of a step shows",
        "p": "below, the fixed cost of a step shows",
        "seeds": "the fixed cost of a step is shared by the seeds",
    }[group]


def lines(measured: list[Any], group: str) -> dict[str, list[Any]]:
    """The cases of an axis by line of a plot: dtype, and form where there are two."""
    found: dict[str, list[Any]] = {}
    for m in measured:
        if m.group == group:
            name = f"{m.case['dtype']}{FORMS[m.case['jacobian']]}"
            found.setdefault(name, []).append(m)
    return found


def label(group: str, case: Case) -> str:
    """A case by what its table varies."""
    if group in ("method", "application"):
        return f"{case.method if group == 'method' else case.problem}, {case.dtype}"
    if group == "jacobian":
        return f"{case.problem}, p·d = {case.p} × {case.d}{FORMS[case.jacobian]}"
    if group in AXES:
        return f"{group} = {getattr(case, group):,}, {case.dtype}{FORMS[case.jacobian]}"
    return f"{case.sampling}, {case.dtype}"
