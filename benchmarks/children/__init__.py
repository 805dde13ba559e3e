"""What needs a process of its own: each module but child.py, which runs them, prints one JSON.

imports.py      seconds of the imports, and what came with them
first_run.py    a short run, timed from before the first import
first_call.py   first calls and fits beyond the imports
measure.py      cases in turns, `mvrc` and its twins
full_pass.py    full passes and NumPy sums in turns
free.py         memory of a matrix-free run
rows.py         memory of ten million rows
solver.py       one solver on one problem
"""
