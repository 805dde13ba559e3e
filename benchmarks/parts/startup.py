"""How long a new process takes: imports, compilation with the first epoch, a warm cache on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.children import child
from benchmarks.row import Row


def run(full: bool) -> Iterator[Row]:
    """The rows of this part."""
    times = 5 if full else 3
    yield from _imports([child.run("imports", *(["run"] if i == 0 else [])) for i in range(times)])
    cold = [child.run("first_run", "1") for _ in range(times)]
    yield Row(
        "compilation and first epoch, no cache", _median(cold, "minimize"), "s", most=4,
        note=f"all of minimize(epochs=1) in a new process, median of {times}; "
        f"best {min(run['minimize'] for run in cold):.2f} s; imports not counted "
        f"({_median(cold, 'import'):.2f} s)",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        child.run("first_run", "5", programs=folder)
        warm = [child.run("first_run", "5", programs=folder) for _ in range(times)]
    yield Row(
        "import to result, warm cache", _median(warm, "total"), "s", most=2,
        note=f"import, problem and 5 epochs in a new process, median of {times}; "
        f"best {min(run['total'] for run in warm):.2f} s; of it import "
        f"{_median(warm, 'import'):.2f} s, minimize {_median(warm, 'minimize'):.2f} s",
    )  # fmt: skip
    yield from _first_calls(times)
    yield from _windows()


def _first_calls(times: int) -> Iterator[Row]:
    """The README's example beside one jit of the same objective, in turns."""
    sides = ("jit", "auto", "mvrc")
    cold: dict[str, list[Any]] = {side: [] for side in sides}
    warm: dict[str, list[Any]] = {side: [] for side in sides[1:]}
    with tempfile.TemporaryDirectory() as folder:
        for side in sides[1:]:
            child.run("first_call", side, programs=folder)
        for _ in range(times):
            for side in sides:
                cold[side].append(child.run("first_call", side))
            for side in sides[1:]:
                warm[side].append(child.run("first_call", side, programs=folder))
    jit = {clock: _first(cold["jit"], clock) for clock in ("cpu", "wall")}
    for side in sides[1:]:
        for kind, runs, most in (("no cache", cold, 2.5), ("warm cache", warm, 1.0)):
            found = {clock: _first(runs[side], clock) for clock in ("cpu", "wall")}
            for clock, word in (("cpu", "CPU"), ("wall", "wall")):
                yield Row(
                    f"README's example, first call of {side}, {kind}, {word}",
                    found[clock] / jit[clock], "x", most=most,
                    note=f"of one jit(value_and_grad) of the same objective; {found[clock]:.2f} "
                    f"and {jit[clock]:.2f} s beyond imports, medians of {times} in turns",
                )  # fmt: skip
        again, other = (float(np.median([run[i]["wall"] for run in cold[side]])) for i in (1, 2))
        yield Row(
            f"README's example, {side}, with a row less", 1000 * other, "ms",
            note=f"the third call of a process; the second, with the same rows, {1000 * again:.0f}",
        )  # fmt: skip


def _windows() -> Iterator[Row]:
    """Fits to windows of other lengths after a first one."""
    for name in ("MeanVariance", "MeanCVaR", "MeanSemideviation"):
        fits = [fit["wall"] for fit in child.run("first_call", f"{name}Portfolio")]
        yield Row(
            f"{name}Portfolio, six windows", sum(fits) / fits[0], "x", most=1.5,
            note=f"of the first fit, {fits[0]:.2f} s; 8,312 × 20, no cache",
        )  # fmt: skip
        yield Row(
            f"{name}Portfolio, a fit with another n", 1000 * float(np.median(fits[1:])), "ms",
            most=50, note=f"median of five; slowest {1000 * max(fits[1:]):.0f} ms",
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        child.run("first_call", "grid", programs=folder)
        (search,) = child.run("first_call", "grid", programs=folder)
    yield Row(
        "GridSearchCV, two processes, warm cache", search["wall"], "s", most=10,
        note="four values and three folds of MeanVariancePortfolio, 8,312 × 20",
    )  # fmt: skip


def _first(runs: list[Any], clock: str) -> float:
    return float(np.median([run[0][clock] for run in runs]))


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
