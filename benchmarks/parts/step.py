"""A small step of MVRC under `minimize` against its twins, measured in turns."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator

import numpy as np

import mvrc
from benchmarks.cases import problems
from benchmarks.cases.case import Case
from benchmarks.row import Measured, Ratio, Row
from benchmarks.timing import Spread, in_turns
from benchmarks.twins import sides, twin

SHORT, LONG = problems.PERIOD, 3 * problems.PERIOD
EPOCHS = 2  # epochs of a turn
CASES = (
    ("float64", np.float64, "replacement"),
    ("float64 reshuffled", np.float64, "reshuffled"),
    ("float32", np.float32, "replacement"),
)
DEMANDS = {sides.PLAIN: 7.0, sides.NUMBA: 1.0}  # of the float64 step


def run(full: bool) -> Iterator[Row | Measured | Ratio]:
    """The rows of this part."""
    here = [side for side in sides.ALL if sides.installed(side)]
    for side in here:
        yield Row(
            f"{side} and mvrc, largest difference", agreement(sides.epoch(side)), "",
            most=1e-10, note="batch = n, 500 rows, 3 epochs of 5 steps, float64",
        )  # fmt: skip
    for name, dtype, sampling in CASES:
        yield from compare(name, dtype, sampling, here, 20.0 if full else 6.0)


def compare(
    name: str, dtype: type, sampling: str, here: list[str], seconds: float
) -> Iterator[Row | Measured | Ratio]:
    """Epochs of SHORT and of LONG steps, of all sides, in turns; their slope is the small step.

    The twins always draw with replacement: reshuffling is something `mvrc` offers beside it.
    """
    data = problems.returns(dtype=dtype)
    problem = problems.portfolio(data, sampling)
    runs: dict[str, Callable[[int], float]] = {
        "mvrc": functools.partial(_ours, problem, dtype),
        **{side: functools.partial(_twin, sides.epoch(side), data) for side in here},
    }
    for epoch in runs.values():  # compile and warm up
        epoch(SHORT)
        epoch(LONG)
    keys = [(side, period) for period in (SHORT, LONG) for side in runs]
    turns = {key: functools.partial(runs[key[0]], key[1]) for key in keys}
    times = {key: Spread.of(values) for key, values in in_turns(turns, seconds).items()}
    step, whole = {}, {}
    for side in runs:
        step[side] = times[side, LONG].slope(times[side, SHORT], LONG - SHORT).times(1e6)
        whole[side] = times[side, SHORT].times(1e6 / SHORT)
    yield Measured(
        "step",
        dataclasses.asdict(Case(dtype=np.dtype(dtype).name, sampling=sampling, whole=True)),
        {side: dataclasses.asdict(spread) for side, spread in step.items()},
        2e6 * problems.BATCH / step["mvrc"].median,
    )
    for side in here:
        ratio, together = step[side].over(step["mvrc"]), whole[side].over(whole["mvrc"])
        demanded = DEMANDS.get(side) if name == "float64" else None
        for word in ("best", "median") if demanded else ("best",):
            theirs, ours = getattr(step[side], word), getattr(step["mvrc"], word)
            yield Row(
                f"small step, {name}, {word}: {side} / mvrc", getattr(ratio, word), "x",
                least=demanded,
                note=f"{side} {theirs:.1f} µs, mvrc {ours:.1f} µs; "
                f"epoch / steps {getattr(together, word):.2f} x",
            )  # fmt: skip
        if side == sides.PLAIN:
            yield Ratio(f"small step, {name}", ratio.best, ratio.median)
            yield Ratio(f"epoch, {name}", together.best, together.median)


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


def _ours(problem: mvrc.Composition, dtype: type, period: int) -> float:
    """Seconds of the faster of two epochs, by the history's own clock."""
    start = np.zeros(problems.ASSETS, dtype)
    result = mvrc.minimize(problem, start, problems.method(period), epochs=EPOCHS)
    return float(np.diff(result.history["seconds"]).min())


def _twin(epoch: Callable[..., twin.Twin], data: np.ndarray, period: int) -> float:
    """The same of a twin."""
    rng = np.random.default_rng(0)
    zeros = np.zeros(problems.ASSETS, data.dtype)
    state, seconds = twin.Twin(zeros, zeros), []
    for _ in range(EPOCHS):
        start = time.perf_counter()
        state = epoch(data, state, rng, problems.BATCH, period)
        seconds.append(time.perf_counter() - start)
    return min(seconds)
