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
from benchmarks.cases.case import Built, Case, build, draw
from benchmarks.children import child
from benchmarks.timing import Spread, extra_steps, in_turns, wall

CALL = 0.03  # seconds of one call of minimize, about


class Ours:
    """`mvrc` on one case: the first call compiles, later ones are timed."""

    def __init__(self, case: Case, built: Built) -> None:
        self.case, self.built = case, built
        first = wall(lambda: self._solve(1))
        start = time.perf_counter()
        seconds, self.samples = self._solve(1)
        self.compile = max(0.0, first - (time.perf_counter() - start))
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
    """One entry a case; the peak of memory is known for the first alone.

    A case that fails has an entry with its error, so that it does not hide the others.
    """
    jnp.zeros(3).block_until_ready()
    ready: list[Ready | Exception] = []
    for case in cases:
        try:
            ready.append(_prepare(case, sides))
        except Exception as error:
            ready.append(error)
    runs: dict[Any, Callable[[], float]] = {}
    for i, found in enumerate(ready):
        if isinstance(found, Ready):
            runs |= {(i, *name): run for name, run in found.runs().items()}
    least = 5 if len(cases) <= 2 else 3  # many cases take long enough
    times = {name: Spread.of(t) for name, t in in_turns(runs, seconds, least).items()}
    return [
        {"error": f"{type(found).__name__}: {found}"}
        if isinstance(found, Exception)
        else _entry(found, {name[1:]: t for name, t in times.items() if name[0] == i}, i == 0)
        for i, found in enumerate(ready)
    ]


@dataclasses.dataclass(frozen=True, eq=False)
class Ready:
    """A case that is compiled and warm."""

    case: Case
    ours: Ours
    memory: float  # peak above what was there with the data, MB
    extra: dict[str, int]  # steps of the longer epochs of each twin, but one

    def runs(self) -> dict[tuple[str, ...], Callable[[], float]]:
        """What is timed, by side."""
        found: dict[tuple[str, ...], Callable[[], float]] = {("mvrc",): self.ours.step}
        for side, epoch in self.ours.built.twins.items():
            found[side, "short"] = functools.partial(_wall, epoch, 1)
            found[side, "long"] = functools.partial(_wall, epoch, 1 + self.extra[side])
        return found


def _prepare(case: Case, sides: tuple[str, ...]) -> Ready:
    data = draw(case)
    before, _ = child.resident()
    built = build(case, data, sides)
    ours = Ours(case, built)
    memory = child.resident()[1] - before
    extra = {side: extra_steps(epoch) for side, epoch in built.twins.items()}
    return Ready(case, ours, memory, extra)


def _wall(epoch: Callable[[int], Any], steps: int) -> float:
    start = time.perf_counter()
    epoch(steps)
    return time.perf_counter() - start


def _entry(ready: Ready, times: dict[Any, Spread], first: bool) -> dict[str, Any]:
    built = ready.ours.built
    step = {"mvrc": times["mvrc",]}
    for side, extra in ready.extra.items():
        step[side] = times[side, "long"].slope(times[side, "short"], extra)
    return {
        "case": dataclasses.asdict(ready.case),
        "step": {side: dataclasses.asdict(t.times(1e6)) for side, t in step.items()},
        "samples": ready.ours.samples / built.steps / step["mvrc"].median,
        "compile": ready.ours.compile,
        "memory": ready.memory if first else None,
        "data": built.megabytes,
    }


def main() -> None:
    """Print one line of JSON."""
    asked = json.loads(sys.argv[1])
    cases = [Case(**fields) for fields in asked["cases"]]
    print(json.dumps(measure(cases, tuple(asked["sides"]), asked["seconds"])))


if __name__ == "__main__":
    main()
