"""`python -m benchmarks`: run everything, print the table, write docs/performance.md."""

from __future__ import annotations

import os
import sys
import time

# One thread for NumPy's BLAS, set before NumPy is imported: the twin's products are too small for
# two, and on a busy machine waiting for the second costs it a factor.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks import (
    applications,
    jacobian,
    memory,
    methods,
    overhead,
    report,
    seeds,
    startup,
    step,
)
from benchmarks.row import Row


def main() -> None:
    """All parts in turn; one that breaks is a row that fails and does not hide the others."""
    before, start = os.getloadavg()[0], time.perf_counter()
    rows: list[Row] = []
    for part in (step, startup, seeds, methods, jacobian, memory, overhead, applications):
        print(f"{part.__doc__.splitlines()[0]}", file=sys.stderr, flush=True)
        try:
            rows.extend(part.rows())
        except Exception as error:
            print(error, file=sys.stderr)
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            rows.append(Row(f"{part.__name__} broke", float("nan"), "", least=0, note=reason))
    seconds = time.perf_counter() - start
    report.write(rows, seconds, before)
    print(report.table(rows))
    failed = sum(row.verdict == "FAIL" for row in rows)
    print(f"{failed} of {sum(bool(row.verdict) for row in rows)} demands not met; {seconds:.0f} s.")


if __name__ == "__main__":
    main()
