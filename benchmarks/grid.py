"""The grid: each axis varied around the portfolio problem, every method, every application."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import mvrc
from benchmarks import applications, child, fit, sides
from benchmarks.case import Case
from benchmarks.row import Measured, Ratio, Row

DTYPES = ("float64", "float32")
TWIN_ROWS = 10**6  # beyond, the twins' full pass drowns their steps
LINEAR = 1.15  # the largest exponent that is called linear

BATCHES = (1, 16, 256, 1024, 4096)
ALL_BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
WIDTHS = (10, 30, 100, 1000)
ALL_WIDTHS = (10, 30, 100, 300, 1000, 3000, 10_000)
OUTPUTS = (1, 10, 100, 1000)
ALL_OUTPUTS = (1, 10, 100, 1000, 10_000)


def groups(full: bool) -> dict[str, list[Case]]:
    """The cases by table; `make bench` takes a part of them."""
    base = Case()
    vary = dataclasses.replace
    dtypes = DTYPES if full else DTYPES[:1]
    tables = {
        "n": [
            vary(base, n=10**k, dtype=dtype)
            for dtype in (DTYPES if full else DTYPES[1:])
            for k in range(3 if full else 4, 8)
        ],
        "d": [vary(base, d=d, dtype=t) for t in dtypes for d in (ALL_WIDTHS if full else WIDTHS)],
        "batch": [
            vary(base, batch=b, dtype=t) for t in dtypes for b in (ALL_BATCHES if full else BATCHES)
        ],
        "p": [
            Case("wide", p=p, jacobian=form, dtype=dtype)
            for dtype in dtypes
            for form in (("matrix", "free") if full else ("free",))
            for p in (ALL_OUTPUTS if full else OUTPUTS)
        ],
        "seeds": [
            vary(base, seeds=s, dtype=t) for t in dtypes for s in ((1, 4, 32) if full else (32,))
        ],
        "method": [
            vary(base, method=name, dtype=t, whole=True) for t in dtypes for name in mvrc.METHODS
        ],
        "application": [
            Case(name, batch=0, dtype=dtype, whole=True)
            for dtype in dtypes
            for name in applications.PROBLEMS
        ],
    }  # fmt: skip
    if full:
        tables["sampling"] = [vary(base, sampling="reshuffled", dtype=t) for t in DTYPES]
    return tables


def run(full: bool) -> Iterator[Measured | Ratio | Row]:
    """Every case in a process of its own; one that fails is a row and the others go on."""
    for group, cases in groups(full).items():
        done: list[Measured] = []
        for case in cases:
            print(f"  {group}: {case.words}", file=sys.stderr, flush=True)
            try:
                entry = child.measure([case], _twins(case, full), 1.0 if full else 0.4)[0]
            except Exception as error:
                reason = " ".join(str(error).split())[:200]
                yield Row(f"{group}: {case.words} broke", float("nan"), "", least=0, note=reason)
                continue
            done.append(Measured(group, **entry))
        yield from done
        yield from _ratios(done)
        yield from _exponents(group, done)


def _twins(case: Case, full: bool) -> tuple[str, ...]:
    if case.n > TWIN_ROWS or case.seeds > 1 or case.whole or case.method != "mvrc":
        return ()
    return sides.ALL if full else (sides.PLAIN,)


def _ratios(done: list[Measured]) -> Iterator[Ratio]:
    for measured in done:
        ratio = measured.ratio(sides.PLAIN)
        if ratio is not None:
            yield Ratio(f"step, {Case(**measured.case).words}", ratio.best, ratio.median)


def _exponents(group: str, done: list[Measured]) -> Iterator[Row]:
    """How the cost of a step grows along an axis, from the portfolio problem's size on."""
    if group not in ("n", "d", "batch", "p", "seeds"):
        return
    keys = sorted({(m.case["dtype"], m.case["jacobian"]) for m in done}, reverse=True)
    for dtype, form in keys:
        line = [m for m in done if (m.case["dtype"], m.case["jacobian"]) == (dtype, form)]
        line = [m for m in line if m.case[group] >= _first(group)]
        if len(line) < 2:
            continue
        sizes = [m.case[group] for m in line]
        exponent = fit.exponent(sizes, [m.step["mvrc"]["best"] for m in line])
        words = f"cost of a step ~ {group}^{exponent:.2f}"
        shape = "" if form == "auto" else ", matrix" if form == "matrix" else ", matrix-free"
        yield Row(
            f"{words}, {dtype}{shape}", exponent, "",
            most=LINEAR if group in ("d", "batch") else None,
            note=f"least squares on log-log over {group} = {sizes[0]:,} … {sizes[-1]:,}, best "
            f"times; {_effects(group)}",
        )  # fmt: skip


def _first(group: str) -> int:
    """From where on a growth is fitted: below, the fixed cost of a step hides it."""
    return {"batch": 256, "d": 30}.get(group, 1)


def _effects(group: str) -> str:
    """What bends the line."""
    return {
        "n": "the rows leave the caches one after the other, so a gather waits longer",
        "d": "the rows of a batch leave a second-level cache of 512 kB at d = 250 in float64",
        "batch": "below 256 the fixed cost of a step shows",
        "p": "below p ≈ d the fixed cost of a step shows",
        "seeds": "the fixed cost of a step is shared by the seeds",
    }[group]


def lines(measured: list[Any], group: str) -> dict[str, list[Any]]:
    """The cases of an axis by line of a plot: dtype, and form where there are two."""
    found: dict[str, list[Any]] = {}
    for m in measured:
        if m.group == group:
            form = m.case["jacobian"]
            shape = "" if form == "auto" else ", matrix" if form == "matrix" else ", matrix-free"
            found.setdefault(f"{m.case['dtype']}{shape}", []).append(m)
    return found
