"""What history, progress bar and checkpoint cost in a run of 50 epochs, in turns."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import tempfile
import time
from collections.abc import Iterator

import numpy as np

import mvrc
from benchmarks import problems
from benchmarks.row import Row

EPOCHS, ROUNDS = 50, 4


def rows() -> Iterator[Row]:
    """The rows of this part."""
    problem = problems.portfolio(problems.returns())
    bar = importlib.util.find_spec("rich") is not None
    all_off: list[float] = []
    all_on: list[float] = []
    for turn in range(ROUNDS + 1):
        off = _wall(problem, record_every=EPOCHS)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            on = _wall(problem, record_every=1, progress=bar, checkpoint=folder)
        if turn:  # the first turn warms up
            all_off.append(off)
            all_on.append(on)
    yield Row(
        "history, progress, checkpoint on / off", np.median(all_on) / np.median(all_off), "x",
        note=f"{EPOCHS} epochs: {np.median(all_on):.2f} s and {np.median(all_off):.2f} s of wall "
        f"time{'' if bar else '; without the bar, rich is not installed'}; a full pass and a file "
        f"for each epoch",
    )  # fmt: skip


def _wall(problem: mvrc.Composition, **options: object) -> float:
    start = time.perf_counter()
    mvrc.minimize(
        problem, np.zeros(problems.ASSETS), problems.method(), epochs=EPOCHS, **options
    )  # fmt: skip
    return time.perf_counter() - start
