"""Benchmarks: `python -m benchmarks` measures every demand on speed and memory in one run.

    problems.py   the problems that are timed
    twin.py       the same algorithm in plain NumPy
    step.py       a small step against the twin
    startup.py    compilation, first epoch, warm cache   (child: first_run.py)
    seeds.py      ten vmapped seeds against one
    memory.py     matrix-free and ten million rows        (children: free.py, rows.py)
    overhead.py   history, progress bar and checkpoint
    row.py, child.py, report.py   a line of the table, subprocesses, the table and its page

This file imports nothing, so that a child can start its clock before any other import.
"""
