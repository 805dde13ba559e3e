"""Timing: runs that take turns, so that what else the machine does meets all of them alike."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import numpy as np

K = TypeVar("K", bound=Hashable)

SLOPE_SECONDS = 0.02  # the least time of the steps whose slope is taken
MOST_STEPS = 200_000


@dataclasses.dataclass(frozen=True)
class Spread:
    """Best and median of several times."""

    best: float
    median: float

    @classmethod
    def of(cls, times: Any) -> Spread:
        return cls(float(np.min(times)), float(np.median(times)))

    def slope(self, short: Spread, steps: int) -> Spread:
        """The time of each of `steps` by which this run is longer than the other."""
        return Spread((self.best - short.best) / steps, (self.median - short.median) / steps)

    def times(self, factor: float) -> Spread:
        return Spread(factor * self.best, factor * self.median)

    def over(self, other: Spread) -> Spread:
        """Ratio of the bests and ratio of the medians."""
        return Spread(self.best / other.best, self.median / other.median)


def in_turns(
    runs: Mapping[K, Callable[[], float]], seconds: float, least: int = 5
) -> dict[K, list[float]]:
    """What each run returns, in turns until the time is up, `least` times at the least."""
    times: dict[K, list[float]] = {name: [] for name in runs}
    start, turns = time.perf_counter(), 0
    while turns < least or time.perf_counter() - start < seconds:
        for name, run in runs.items():
            times[name].append(run())
        turns += 1
    return times


def wall(run: Callable[[], Any]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def extra_steps(epoch: Callable[[int], Any]) -> int:
    """How many steps more than one an epoch needs for them to outweigh its full pass."""
    epoch(2)  # compiles, if there is something to compile
    refresh = min(wall(lambda: epoch(1)) for _ in range(2))
    step = max(1e-6, (min(wall(lambda: epoch(9)) for _ in range(2)) - refresh) / 8)
    return min(MOST_STEPS, max(8, math.ceil(max(SLOPE_SECONDS, refresh) / step)))
