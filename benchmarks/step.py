"""A small step of MVRC under `minimize` against the NumPy twin, measured in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

import mvrc
from benchmarks import problems, twin
from benchmarks.row import Row

SECONDS, LEAST_ROUNDS = 14.0, 6  # of each comparison
EPOCHS = 2  # epochs of a turn
SHORT, LONG = problems.PERIOD, 3 * problems.PERIOD
LEAST, TARGET = 4.0, 6.0

Times = dict[tuple[str, int], list[float]]


def rows() -> Iterator[Row]:
    """The rows of this part."""
    for name, epoch in (("twin", twin.epoch), ("twin as the formulas read", twin.read_epoch)):
        yield Row(
            f"{name} and mvrc, largest difference", agreement(epoch), "",
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
    """Epochs of SHORT and of LONG steps, of all sides, in turns; their slope is the small step.

    The twins always draw with replacement: reshuffling is something `mvrc` offers beside it.
    """
    data = problems.returns(dtype=dtype)
    problem = problems.portfolio(data, sampling)
    times = _in_turns(
        {
            "mvrc": lambda period: _mvrc(problem, period, dtype),
            "NumPy": lambda period: _numpy(twin.epoch, data, period),
            "formulas": lambda period: _numpy(twin.read_epoch, data, period),
        }
    )
    demanded = name == "float64"
    for reduce, word in ((np.min, "best"), (np.median, "median")):
        step, whole = {}, {}
        for side in ("mvrc", "NumPy", "formulas"):
            short, long = (float(reduce(times[side, period])) for period in (SHORT, LONG))
            step[side] = 1e6 * (long - short) / (LONG - SHORT)
            whole[side] = 1e6 * short / SHORT
        for side, label in (("formulas", "plain NumPy"), ("NumPy", "tuned NumPy")):
            judged = demanded and side == "formulas"
            yield Row(
                f"small step, {name}, {word}: {label} / mvrc", step[side] / step["mvrc"], "x",
                least=LEAST if judged else None,
                note=f"{label} {step[side]:.1f} µs, mvrc {step['mvrc']:.1f} µs"
                + (f"; target {TARGET:g} x" if judged else ""),
            )  # fmt: skip
            yield Row(
                f"epoch / steps, {name}, {word}: {label} / mvrc", whole[side] / whole["mvrc"], "x",
                note=f"{label} {whole[side]:.1f} µs, mvrc {whole['mvrc']:.1f} µs, refresh included",
            )  # fmt: skip


def agreement(epoch: Callable[..., twin.Twin]) -> float:
    """Largest difference of the iterates when both sides take every row in every step."""
    data = problems.returns(500)
    state = twin.Twin(np.zeros(problems.ASSETS), np.zeros(problems.ASSETS))
    for _ in range(3):
        state = epoch(data, state, np.random.default_rng(0), 500, 5)
    result = mvrc.minimize(
        problems.portfolio(data), np.zeros(problems.ASSETS), problems.method(5, 500), epochs=3
    )
    return float(np.abs(result.x - state.x).max())


def _in_turns(sides: dict[str, Callable[[int], list[float]]]) -> Times:
    """Seconds of epochs by side and period, the sides taking turns until the time is up."""
    for run in sides.values():  # compile and warm up
        run(SHORT)
        run(LONG)
    times: Times = {}
    start, turns = time.perf_counter(), 0
    while turns < LEAST_ROUNDS or time.perf_counter() - start < SECONDS:
        for period in (SHORT, LONG):
            for side, run in sides.items():
                times.setdefault((side, period), []).extend(run(period))
        turns += 1
    return times


def _mvrc(problem: mvrc.Composition, period: int, dtype: type) -> list[float]:
    """Seconds of each epoch, by the history's own clock."""
    start = np.zeros(problems.ASSETS, dtype)
    result = mvrc.minimize(problem, start, problems.method(period), epochs=EPOCHS)
    return list(np.diff(result.history["seconds"]))


def _numpy(epoch: Callable[..., twin.Twin], data: np.ndarray, period: int) -> list[float]:
    rng = np.random.default_rng(0)
    zeros = np.zeros(problems.ASSETS, data.dtype)
    state = twin.Twin(zeros, zeros)
    seconds = []
    for _ in range(EPOCHS):
        start = time.perf_counter()
        state = epoch(data, state, rng, problems.BATCH, period)
        seconds.append(time.perf_counter() - start)
    return seconds
