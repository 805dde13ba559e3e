"""The parts of `python -m benchmarks`; each has `run(full)`, which yields what row.py has.

step.py        a small step against all twins
startup.py     imports, compilation, warm cache      (children: imports, first_run, first_call)
pairs.py       two cases in turns: n, dtypes, seeds  (child: measure)
bandwidth.py   a full pass against a NumPy sum       (child: full_pass)
jacobian.py    matrix against matrix-free            (child: measure)
memory.py      matrix-free and ten million rows      (children: free, rows)
overhead.py    history, progress bar and checkpoint
grid.py        every axis, method and application    (child: measure); fit.py: exponents
peers.py       applications against scikit-learn and skfolio, in the full run
"""
