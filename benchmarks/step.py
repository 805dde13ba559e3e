"""A small step of MVRC under `minimize` against the NumPy twin, measured in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

import mvrc
from benchmarks import problems
from benchmarks.row import Row
from benchmarks.twin import Twin, epoch

ROUNDS = 12
EPOCHS = 4  # epochs of a round
LONG = 4 * problems.PERIOD
LEAST, TARGET = 4.0, 6.0


def rows() -> Iterator[Row]:
    """The rows of this part."""
    yield Row(
        "twin and mvrc, largest difference", agreement(), "",
        most=1e-10, note="batch = n, 500 rows, 3 epochs of 5 steps, float64",
    )  # fmt: skip
    cases = (
        ("float64", np.float64, "replacement"),
        ("float64 reshuffled", np.float64, "reshuffled"),
        ("float32", np.float32, "replacement"),
    )
    for name, dtype, sampling in cases:
        yield from compare(name, dtype, sampling)


def compare(name: str, dtype: type, sampling: str) -> Iterator[Row]:
    """Epochs of PERIOD and LONG steps, of both sides, in turns; their slope is the small step.

    The twin draws with replacement in every case; a reshuffled twin would be as fast or slower to
    write, and the user's choice is between these.
    """
    data = problems.returns(dtype=dtype)
    problem = problems.portfolio(data, sampling)
    sides: dict[str, Callable[[int], list[float]]] = {
        "mvrc": lambda period: _mvrc(problem, period, dtype),
        "numpy": lambda period: _numpy(data, period),
    }
    times: dict[tuple[str, int], list[float]] = {}
    for turn in range(ROUNDS + 1):
        for period in (problems.PERIOD, LONG):
            for side, run in sides.items():
                seconds = run(period)
                if turn:  # the first turn compiles and warms up
                    times.setdefault((side, period), []).extend(seconds)
    for reduce, word in ((np.min, "best"), (np.median, "median")):
        step, whole = {}, {}
        for side in sides:
            short, long = (reduce(times[side, period]) for period in (problems.PERIOD, LONG))
            step[side] = 1e6 * (long - short) / (LONG - problems.PERIOD)
            whole[side] = 1e6 * short / problems.PERIOD
        demanded = name == "float64"
        yield Row(
            f"small step, {name}, {word}: NumPy / mvrc", step["numpy"] / step["mvrc"], "x",
            least=LEAST if demanded else None,
            note=f"NumPy {step['numpy']:.1f} µs, mvrc {step['mvrc']:.1f} µs"
            + (f"; target {TARGET:g} x" if demanded else ""),
        )  # fmt: skip
        yield Row(
            f"epoch / steps, {name}, {word}: NumPy / mvrc", whole["numpy"] / whole["mvrc"], "x",
            note=f"NumPy {whole['numpy']:.1f} µs, mvrc {whole['mvrc']:.1f} µs, refresh included",
        )  # fmt: skip


def agreement() -> float:
    """Largest difference of the iterates when both sides take every row in every step."""
    data = problems.returns(500)
    state = Twin(np.zeros(problems.ASSETS), np.zeros(problems.ASSETS))
    for _ in range(3):
        state = epoch(data, state, np.random.default_rng(0), 500, 5)
    result = mvrc.minimize(
        problems.portfolio(data), np.zeros(problems.ASSETS), problems.method(5, 500), epochs=3
    )
    return float(np.abs(result.x - state.x).max())


def _mvrc(problem: mvrc.Composition, period: int, dtype: type) -> list[float]:
    """Seconds of each epoch, by the history's own clock."""
    start = np.zeros(problems.ASSETS, dtype)
    result = mvrc.minimize(problem, start, problems.method(period), epochs=EPOCHS)
    return list(np.diff(result.history["seconds"]))


def _numpy(data: np.ndarray, period: int) -> list[float]:
    rng = np.random.default_rng(0)
    zeros = np.zeros(problems.ASSETS, data.dtype)
    state = Twin(zeros, zeros)
    seconds = []
    for _ in range(EPOCHS):
        start = time.perf_counter()
        state = epoch(data, state, rng, problems.BATCH, period)
        seconds.append(time.perf_counter() - start)
    return seconds
