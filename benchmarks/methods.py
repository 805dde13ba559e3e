"""Every method on the portfolio problem: the time of an epoch relative to MVRC's, in turns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import mvrc
from benchmarks import problems
from benchmarks.row import Row

EPOCHS, ROUNDS = 2, 3


def rows() -> Iterator[Row]:
    """One row a method; all draw 256 rows a step and make 96 steps an epoch (full passes: 1)."""
    penalised = problems.portfolio(problems.returns())
    smooth = mvrc.Composition(problems.moments, problems.risk, penalised.inner_data)
    x0 = np.zeros(problems.ASSETS)
    seconds: dict[str, list[float]] = {name: [] for name in mvrc.METHODS}
    counts: dict[str, float] = {}
    for turn in range(ROUNDS + 1):
        for name in mvrc.METHODS:
            problem = smooth if name == "ascgd" else penalised
            result = mvrc.minimize(problem, x0, _recipe(name), epochs=EPOCHS)
            if turn:  # the first turn compiles and warms up
                seconds[name].extend(np.diff(result.history["seconds"]))
            counts[name] = float(np.diff(result.history["inner_values"])[-1])
    base = np.median(seconds["mvrc"])
    for name, times in seconds.items():
        samples = counts[name]
        yield Row(
            f"epoch of {name} / epoch of mvrc", float(np.median(times) / base), "x",
            note=f"{1e3 * np.median(times):.2f} ms, {samples:,.0f} samples of g, "
            f"{1e9 * np.median(times) / samples:.1f} ns a sample",
        )  # fmt: skip


def _recipe(name: str) -> object:
    recipe = mvrc.METHODS[name]
    if name in ("fista", "proximal-gradient"):
        return recipe(step_size=problems.STEP)
    return recipe(
        step_size=problems.STEP, batch_size=problems.BATCH, period=problems.PERIOD
    )  # fmt: skip
