"""Benchmarks: `python -m benchmarks` measures every demand on speed and memory in one run.

    __main__.py   the command: the parts in turn, the table, the page, the guard
    parts/        what it measures, a demand or a few each
    cases/        the problems that are timed
    twins/        the same algorithm by hand: NumPy, Numba, PyTorch
    children/     what needs a process of its own
    report/       the page, its plots, the guard against regressions
    results/      all numbers, as JSON

Commands of their own, written to docs/comparison.md by comparison.py (`make bench-auto`):
    auto.py       `Auto` against every method at its best step
    held_out.py   the same on instances that had no part in any choice
    solvers.py    `Auto` against cvxpy, SciPy and FISTA
And to docs/auto.md: nist.py, certified regressions; networks.py, networks.
coupled.py: errors that stay, samples to a goal and the table of coupled problems, for
docs/coupled.md.
libauc.py: average precision beside LibAUC, for the same page.
trackers.py: a tracker's update beside the gradient of its batch, for docs/networks.md.
streams.py: `Auto` on streams against the least gap possible, for docs/auto.md.
Pictures: picture.py, the README's; small_batches.py, that of docs/networks.md.

Shared by all rooms:
    row.py        what parts yield: rows, cases and ratios
    timing.py     runs in turns, best and median
    paths.py      where the results and the pages are

This file and those of the rooms import nothing, so that a child can start its clock before any
other import.
"""
