"""Benchmarks: `python -m benchmarks` measures every demand on speed and memory in one run.

What is run:
    problems.py, applications.py   the problems that are timed
    twin.py, numba_twin.py, torch_twin.py, wide_twin.py   the same algorithm by hand; sides.py
        says which of them a problem has
    case.py       one point of the grid: sizes, dtype, form of the Jacobian, seeds, method
    timing.py     runs in turns, best and median

Parts, each with `run(full)` that yields rows, cases and ratios (row.py):
    step.py       a small step against all twins
    startup.py    imports, compilation, warm cache          (children: imports.py, first_run.py)
    pairs.py      two cases in turns: n, dtypes, seeds      (child: measure.py)
    bandwidth.py  a full pass against a NumPy sum           (child: full_pass.py)
    jacobian.py   matrix against matrix-free                (child: measure.py)
    memory.py     matrix-free and ten million rows          (children: free.py, rows.py)
    overhead.py   history, progress bar and checkpoint
    grid.py       every axis, method and application        (child: measure.py); fit.py: exponents
    peers.py      applications against scikit-learn and skfolio, in the full run

On their own (`make bench-auto`), written to docs/comparison.md by comparison.py:
    auto.py       `Auto` against every method at its best step, on the instances of instances.py
    held_out.py   the same on instances that had no part in any choice
    nist.py, networks.py   `Auto` on certified regressions and on networks, for docs/auto.md
    solvers.py    `Auto` against cvxpy, SciPy and FISTA       (child: solver.py)

What is made of it:
    report.py, plots.py, machine.py   results.json, docs/performance.md and its plots
    guard.py      speeds against baseline.json
    child.py      subprocesses

This file imports nothing, so that a child can start its clock before any other import.
"""
