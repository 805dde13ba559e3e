"""What history, progress bar and checkpoint cost in a run of 50 epochs, in turns."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mvrc
from benchmarks.cases import problems
from benchmarks.row import Row
from benchmarks.timing import Spread, in_turns, wall

EPOCHS = 50
OFF, ON = "nothing", "history, progress bar and checkpoint"
FLOOR = "the products alone"


def run(full: bool) -> Iterator[Row]:
    """The rows of this part: each alone, and all together against none."""
    problem = problems.portfolio(problems.returns())
    bar = importlib.util.find_spec("rich") is not None
    options: dict[str, dict[str, Any]] = {
        OFF: {"record_every": EPOCHS},
        "history": {"record_every": 1},
        "progress bar": {"record_every": EPOCHS, "progress": bar},
        "checkpoint": {"record_every": EPOCHS, "checkpoint": True},
        ON: {"record_every": 1, "progress": bar, "checkpoint": True},
    }
    runs: dict[str, Callable[[], float]] = {
        name: functools.partial(_wall, problem, **chosen) for name, chosen in options.items()
    }
    runs[FLOOR] = functools.partial(_products, problems.returns())
    in_turns(runs, 0, least=1)  # compile and warm up
    times = {name: Spread.of(t) for name, t in in_turns(runs, 10.0 if full else 4.0).items()}
    for name in list(options)[1:]:
        ratio = times[name].over(times[OFF])
        yield Row(
            f"{EPOCHS} epochs with {name} / without", ratio.best, "x",
            most=1.05 if name == ON else None,
            note=f"{1e3 * times[name].best:.0f} ms and {1e3 * times[OFF].best:.0f} ms of wall time "
            f"(best); medians {ratio.median:.2f} x"
            + ("; a row for each epoch, the checkpoint as by default" if name == ON else "")
            + ("" if bar else "; without the bar, rich is not installed"),
        )  # fmt: skip
    share = times[FLOOR].over(times[OFF])
    yield Row(
        f"{EPOCHS} epochs, the products of their measurements by NumPy alone / the run",
        share.best, "x",
        note=f"{1e3 * times[FLOOR].best:.1f} ms: data @ x and its transpose, {EPOCHS + 1} points, "
        "one thread; a history cannot cost less, unless it is measured on a core that is idle",
    )  # fmt: skip


def _products(data: np.ndarray) -> float:
    """Seconds of the two matrix products without which no gradient at these points is known."""
    points = np.full((problems.ASSETS, EPOCHS + 1), 0.1)
    return wall(lambda: (data @ points).T @ data)


def _wall(problem: mvrc.Composition, checkpoint: bool = False, **options: Any) -> float:
    x0 = np.zeros(problems.ASSETS)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        if checkpoint:
            options["checkpoint"] = stack.enter_context(tempfile.TemporaryDirectory())
        return wall(lambda: mvrc.minimize(problem, x0, problems.method(), epochs=EPOCHS, **options))
