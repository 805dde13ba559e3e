"""How long a new process takes: compilation with the first epoch, and a warm cache on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np

from benchmarks import child
from benchmarks.row import Row

TIMES = 3


def rows() -> Iterator[Row]:
    """The rows of this part."""
    cold = [child.run("first_run") for _ in range(TIMES)]
    yield Row(
        "compilation and first epoch, no cache", _median(cold, "minimize"), "s", most=4,
        note=f"all of minimize(epochs=1) in a new process, median of {TIMES}; "
        f"best {min(run['minimize'] for run in cold):.2f} s; imports not counted "
        f"({_median(cold, 'import'):.2f} s)",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        child.run("first_run", folder)
        warm = [child.run("first_run", folder) for _ in range(TIMES)]
    yield Row(
        "import to result, warm cache", _median(warm, "total"), "s", most=2,
        note=f"import, problem and 5 epochs in a new process, median of {TIMES}; "
        f"best {min(run['total'] for run in warm):.2f} s; of it import "
        f"{_median(warm, 'import'):.2f} s, minimize {_median(warm, 'minimize'):.2f} s",
    )  # fmt: skip


def _median(runs: list[dict[str, float]], key: str) -> float:
    return float(np.median([run[key] for run in runs]))
