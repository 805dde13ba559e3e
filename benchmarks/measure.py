"""A child: cases in turns in one process, `mvrc` and its twins; prints times, compile time, memory.

Argument: JSON with "cases" (fields of `Case`), "sides" (names of twins) and "seconds" of timing.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

import mvrc
from benchmarks import child
from benchmarks.case import Built, Case, build, draw
from benchmarks.timing import Spread, extra_steps, in_turns, wall

CALL = 0.03  # seconds of one call of minimize, about


class Ours:
    """`mvrc` on one case: the first call compiles, later ones are timed."""

    def __init__(self, case: Case, built: Built) -> None:
        self.case, self.built = case, built
        self.first = wall(functools.partial(self._solve, 1))
        again = min(wall(functools.partial(self._solve, 1)) for _ in range(2))
        self.compile = max(0.0, self.first - again)
        seconds, self.samples = self._solve(1)
        self.epochs = max(1, min(200, round(CALL / max(seconds, 1e-6))))

    def step(self) -> float:
        """Seconds a step."""
        seconds, _ = self._solve(self.epochs)
        return seconds / (self.epochs * self.built.steps)

    def _solve(self, epochs: int) -> tuple[float, int]:
        """Seconds by the history's own clock, and samples of g evaluated, by all seeds."""
        problem, x0, recipe = self.built.problem, self.built.x0, self.built.recipe
        options: dict[str, Any] = {"epochs": epochs, "record_every": epochs}
        if self.case.seeds == 1:
            result = mvrc.minimize(problem, x0, recipe, **options)
        else:
            result = mvrc.minimize_many(problem, x0, recipe, seeds=self.case.seeds, **options)[0]
        if result.epochs != epochs:
            raise RuntimeError(f"{self.case.words}: {result.message}")
        return result.seconds, self.case.seeds * result.counts.inner_values


def measure(cases: list[Case], sides: tuple[str, ...], seconds: float) -> list[dict[str, Any]]:
    """One entry a case; the peak of memory is known for the first alone."""
    jnp.zeros(3).block_until_ready()
    runs: dict[Any, Callable[[], float]] = {}
    ours, extra, memory = [], {}, None
    for i, case in enumerate(cases):
        data = draw(case)
        before, _ = child.resident()
        built = build(case, data, sides)
        ours.append(Ours(case, built))
        if memory is None:
            memory = child.resident()[1] - before
        runs[i, "mvrc"] = ours[i].step
        for side, epoch in built.twins.items():
            extra[i, side] = extra_steps(epoch)
            runs[i, side, "short"] = functools.partial(_wall, epoch, 1)
            runs[i, side, "long"] = functools.partial(_wall, epoch, 1 + extra[i, side])
    times = {name: Spread.of(values) for name, values in in_turns(runs, seconds).items()}
    return [
        _entry(case, ours[i], i, times, extra, memory if i == 0 else None)
        for i, case in enumerate(cases)
    ]


def _wall(epoch: Callable[[int], Any], steps: int) -> float:
    start = time.perf_counter()
    epoch(steps)
    return time.perf_counter() - start


def _entry(
    case: Case, ours: Ours, i: int, times: Any, extra: dict[Any, int], memory: float | None
) -> dict[str, Any]:
    step = {"mvrc": times[i, "mvrc"]}
    for side in ours.built.twins:
        long, short = times[i, side, "long"], times[i, side, "short"]
        step[side] = long.slope(short, extra[i, side])
    return {
        "case": dataclasses.asdict(case),
        "step": {side: dataclasses.asdict(t.times(1e6)) for side, t in step.items()},
        "samples": ours.samples / ours.built.steps / step["mvrc"].median,
        "compile": ours.compile,
        "memory": memory,
        "data": ours.built.megabytes,
    }


def main() -> None:
    """Print one line of JSON."""
    asked = json.loads(sys.argv[1])
    cases = [Case(**fields) for fields in asked["cases"]]
    print(json.dumps(measure(cases, tuple(asked["sides"]), asked["seconds"])))


if __name__ == "__main__":
    main()
