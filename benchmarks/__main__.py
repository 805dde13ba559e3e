"""`python -m benchmarks`: measure, print the table, write docs/performance.md, compare speeds.

(nothing)   what `make bench` runs, within 5 minutes; ends with 1 when a speed has fallen
--full      all sizes, about half an hour
--accept    no measuring: the last run becomes the baseline of the comparison
--page      no measuring: write the page and its plots again
"""

from __future__ import annotations

import argparse
import os
import sys
import time

# One thread for NumPy's BLAS, set before NumPy is imported: the twin's products are too small for
# two, and on a busy machine waiting for the second costs it a factor.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks import (
    bandwidth,
    grid,
    guard,
    jacobian,
    machine,
    memory,
    overhead,
    pairs,
    peers,
    report,
    startup,
    step,
)
from benchmarks.row import Measured, Ratio, Row

PARTS = (step, startup, pairs, bandwidth, jacobian, memory, overhead, grid, peers)


def main() -> int:
    """Whatever the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure mvrc.")
    parser.add_argument("--full", action="store_true", help="all sizes, about half an hour")
    parser.add_argument("--accept", action="store_true", help="make the last run the baseline")
    parser.add_argument("--page", action="store_true", help="write the page again")
    asked = parser.parse_args()
    if asked.page:
        report.page()
        return 0
    if asked.accept:
        return _accept("full" if asked.full else "quick")
    return _measure(asked.full)


def _accept(kind: str) -> int:
    sections = report.read()
    if kind not in sections:
        print(f"There is no recorded run of `{report.COMMANDS[kind]}` to accept.")
        return 1
    guard.accept(sections[kind])
    print(f"{guard.BASELINE.name}: the run of {sections[kind]['machine']['date']}.")
    return 0


def _measure(full: bool) -> int:
    """All parts in turn; one that breaks is a row that fails and does not hide the others."""
    before, start = os.getloadavg()[0], time.perf_counter()
    rows: list[Row] = []
    measured: list[Measured] = []
    ratios: list[Ratio] = []
    for part in PARTS:
        passed = time.perf_counter() - start
        print(f"{passed:5.0f} s  {part.__doc__.splitlines()[0]}", file=sys.stderr, flush=True)
        try:
            for found in part.run(full):
                kind = {Row: rows, Measured: measured, Ratio: ratios}[type(found)]
                kind.append(found)  # type: ignore[attr-defined]
        except Exception as error:
            print(error, file=sys.stderr)
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            rows.append(Row(f"{part.__name__} broke", float("nan"), "", least=0, note=reason))
    facts = machine.facts() | {
        "seconds": time.perf_counter() - start,
        "load_before": before,
        "load_after": os.getloadavg()[0],
    }
    report.write("full" if full else "quick", report.section(rows, measured, ratios, facts))
    return _conclude(rows, ratios, facts)


def _conclude(rows: list[Row], ratios: list[Ratio], facts: dict) -> int:
    """Print the table and the sentences of the guard."""
    print(report.table(rows))
    failed = sum(row.verdict == "FAIL" for row in rows)
    judged = sum(bool(row.verdict) for row in rows)
    print(f"{failed} of {judged} demands not met; {facts['seconds']:.0f} s.")
    slower = guard.compare(ratios, facts)
    print("\n".join(slower) or "No speed fell by more than 20 % against the baseline.")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
