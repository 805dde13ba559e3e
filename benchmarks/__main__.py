"""`python -m benchmarks`: measure, print the table, write docs/performance.md, compare speeds.

(nothing)   what `make bench` runs, within 5 minutes; ends with 1 when a speed has fallen
--full      all sizes, about half an hour
--only P …  some parts alone (step, startup, …); prints, writes and compares nothing
--accept    no measuring: the last run becomes the baseline of the comparison
--page      no measuring: write the page and its plots again
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

# One thread for NumPy's BLAS, set before NumPy is imported: the twin's products are too small for
# two, and on a busy machine waiting for the second costs it a factor.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.parts import (
    bandwidth,
    grid,
    jacobian,
    memory,
    overhead,
    pairs,
    peers,
    startup,
    step,
)
from benchmarks.report import guard, machine, report
from benchmarks.row import Measured, Ratio, Row

PARTS = {
    "step": step, "startup": startup, "pairs": pairs, "bandwidth": bandwidth,
    "jacobian": jacobian, "memory": memory, "overhead": overhead, "grid": grid, "peers": peers,
}  # fmt: skip


class Found(NamedTuple):
    """What the parts have yielded."""

    rows: list[Row]
    measured: list[Measured]
    ratios: list[Ratio]


def main() -> int:
    """Whatever the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure mvrc.")
    parser.add_argument("--full", action="store_true", help="all sizes, about half an hour")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="some parts, nothing is written")
    parser.add_argument("--accept", action="store_true", help="make the last run the baseline")
    parser.add_argument("--page", action="store_true", help="write the page again")
    asked = parser.parse_args()
    if asked.page:
        report.page()
        return 0
    if asked.accept:
        return _accept("full" if asked.full else "quick")
    if asked.only:
        found = _measure(asked.only, asked.full)
        print(report.table(found.rows))
        for measured in found.measured:
            print(json.dumps(dataclasses.asdict(measured), ensure_ascii=False))
        return 0
    return _all(asked.full)


def _accept(kind: str) -> int:
    sections = report.read()
    if kind not in sections:
        print(f"There is no recorded run of `{report.COMMANDS[kind]}` to accept.")
        return 1
    guard.accept(sections[kind])
    print(f"{guard.BASELINE.name}: the run of {sections[kind]['machine']['date']}.")
    return 0


def _measure(names: Iterable[str], full: bool) -> Found:
    """Some parts in turn; one that breaks is a row that fails and does not hide the others."""
    start = time.perf_counter()
    found = Found([], [], [])
    kinds: dict[type, list[Any]] = {
        Row: found.rows, Measured: found.measured, Ratio: found.ratios
    }  # fmt: skip
    for name in names:
        title = (PARTS[name].__doc__ or name).splitlines()[0]
        print(f"{time.perf_counter() - start:5.0f} s  {title}", file=sys.stderr, flush=True)
        try:
            for one in PARTS[name].run(full):
                kinds[type(one)].append(one)
        except Exception as error:
            print(error, file=sys.stderr)
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            found.rows.append(Row(f"{name} broke", float("nan"), "", least=0, note=reason))
    return found


def _all(full: bool) -> int:
    """Every part; the page, the table, and the sentences of the guard."""
    before, start = os.getloadavg()[0], time.perf_counter()
    found = _measure(PARTS, full)
    seconds = time.perf_counter() - start
    load = {"load_before": before, "load_after": os.getloadavg()[0]}
    facts = machine.facts() | {"seconds": seconds} | load
    print(report.table(found.rows))
    report.write("full" if full else "quick", report.section(*found, facts))
    verdicts = [row.verdict for row in found.rows if row.verdict]
    print(f"{verdicts.count('FAIL')} of {len(verdicts)} demands not met; {seconds:.0f} s.")
    slower = guard.compare(found.ratios, facts)
    for sentence in slower:
        print(sentence)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
