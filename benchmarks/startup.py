"""How long a new process takes: imports, compilation with the first epoch, a warm cache on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import child
from benchmarks.row import Row


def run(full: bool) -> Iterator[Row]:
    """The rows of this part."""
    times = 5 if full else 3
    yield from _imports([child.run("imports", *(["run"] if i == 0 else [])) for i in range(times)])
    cold = [child.run("first_run") for _ in range(times)]
    yield Row(
        "compilation and first epoch, no cache", _median(cold, "minimize"), "s", most=4,
        note=f"all of minimize(epochs=1) in a new process, median of {times}; "
        f"best {min(run['minimize'] for run in cold):.2f} s; imports not counted "
        f"({_median(cold, 'import'):.2f} s)",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        child.run("first_run", folder)
        warm = [child.run("first_run", folder) for _ in range(times)]
    yield Row(
        "import to result, warm cache", _median(warm, "total"), "s", most=2,
        note=f"import, problem and 5 epochs in a new process, median of {times}; "
        f"best {min(run['total'] for run in warm):.2f} s; of it import "
        f"{_median(warm, 'import'):.2f} s, minimize {_median(warm, 'minimize'):.2f} s",
    )  # fmt: skip


def _imports(runs: list[dict[str, Any]]) -> Iterator[Row]:
    yield Row(
        "import mvrc after import jax", _median(runs, "mvrc"), "s", most=1,
        note=f"in a new process, median of {len(runs)}; best "
        f"{min(run['mvrc'] for run in runs):.2f} s; import jax {_median(runs, 'jax'):.2f} s",
    )  # fmt: skip
    came = runs[0]["optional"]
    yield Row(
        "optional packages imported without use", len(came), "", most=0,
        note=(", ".join(came) or "none")
        + "; after import mvrc, its applications and data sets, and a run",
    )  # fmt: skip


def _median(runs: list[dict[str, Any]], key: str) -> float:
    return float(np.median([run[key] for run in runs]))
