"""`python -m benchmarks`: run everything, print the table, write docs/performance.md."""

from __future__ import annotations

import os
import sys
import time

from benchmarks import memory, overhead, report, seeds, startup, step
from benchmarks.row import Row


def main() -> None:
    """All parts in turn; a part that breaks is said so and does not hide the others."""
    before, start = os.getloadavg()[0], time.perf_counter()
    rows: list[Row] = []
    for part in (step, startup, seeds, memory, overhead):
        print(f"{part.__doc__.splitlines()[0]}", file=sys.stderr, flush=True)
        rows.extend(part.rows())
    seconds = time.perf_counter() - start
    report.write(rows, seconds, before)
    print(report.table(rows))
    failed = sum(row.verdict == "FAIL" for row in rows)
    print(f"{failed} of {sum(bool(row.verdict) for row in rows)} demands not met; {seconds:.0f} s.")


if __name__ == "__main__":
    main()
