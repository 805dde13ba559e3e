"""`python -m benchmarks.solvers`: `Auto` against what a user would take instead.

Mean–variance with an L1 penalty and mean–CVaR on the simplex, at three n; each solver in a process
of its own (`children/solver.py`). Writes results/solvers.json, from which `comparison.py` makes the
page.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from benchmarks import paths
from benchmarks.report import machine

RESULTS = paths.RESULTS / "solvers.json"
SIZES = (24_452, 1_000_000, 10_000_000)
SOLVERS = {
    "mean–variance": ("auto", "cvxpy", "cvxpy on the covariance", "L-BFGS-B", "FISTA"),
    "mean–CVaR": ("auto", "cvxpy", "L-BFGS-B", "FISTA"),
}
LIMIT = 120  # seconds that a solver may take, both calls together


def main() -> None:
    """All solvers in turn; one that fails is a row with the reason."""
    start, rows = time.perf_counter(), []
    for problem, solvers in SOLVERS.items():
        for n in SIZES:
            found = [
                {"problem": problem, "n": n, "solver": solver} | _run(problem, n, solver)
                for solver in solvers
            ]
            known = [row["objective"] for row in found if "objective" in row]
            for row in found:
                if "objective" in row:
                    row["gap"] = (row["objective"] - min(known)) / abs(min(known))
                print(row, flush=True)
            rows += found
    facts = machine.facts() | {"minutes": (time.perf_counter() - start) / 60}
    RESULTS.write_text(json.dumps({"machine": facts, "rows": rows}, indent=1) + "\n")


def _run(problem: str, n: int, solver: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.children.solver", problem, str(n), solver]
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    try:
        done = subprocess.run(
            command, cwd=paths.ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished in {LIMIT} s"}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["killed: out of memory"]
        lost = any(word in last[0] for word in ("Memory", "bad_alloc"))
        return {"failed": "out of memory" if lost else last[0][:120]}
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
