"""The best step size of a method: a grid of √2 that grows until its best lies inside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import mvrc
from mvrc.experiments import problems
from mvrc.experiments.spec import FARTHEST, Experiment, MethodSpec

LEVELS = (1e-2, 1e-4, 1e-6)  # relative gaps
OWN_SEEDS = 1000  # the first seed by which steps are chosen: none of those that are reported


def search(
    method: MethodSpec, experiment: Experiment, n: int, task: problems.Task, limits: dict[str, Any]
) -> list[dict[str, Any]]:
    """What was tried, in the order of the steps: k, passes to each level, the last gap, divergence.

    Numbers are medians over the tuning's own seeds.
    """
    grid = experiment.tuning
    assert grid is not None
    seeds = range(OWN_SEEDS, OWN_SEEDS + (grid.seeds if method.draws else 1))

    def attempt(power: float) -> dict[str, Any]:
        recipe = problems.method(method, experiment, n, 2.0**power / task.smoothness)
        runs = [mvrc.minimize(task.problem, task.x0, recipe, seed=s, **limits) for s in seeds]
        return {"power": power, **_outcome(runs, task.best, n)}

    tried: dict[float, dict[str, Any]] = {}
    for power in grid.powers():
        tried[power] = attempt(power)
        if tried[power]["diverged"] == len(seeds):  # so do larger ones
            break
    while True:
        powers = sorted(tried)
        found = best([tried[power] for power in powers])["power"]
        if found not in (powers[0], powers[-1]) or abs(found) >= FARTHEST:
            return [tried[power] for power in powers]
        further = found + (grid.spacing if found == powers[-1] else -grid.spacing)
        tried[further] = attempt(further)


def best(tried: list[dict[str, Any]]) -> dict[str, Any]:
    """The one that reaches the smallest level first; where none does, the lowest last gap."""

    def rank(one: dict[str, Any]) -> list[float]:
        passes = [math.inf if p is None else p for p in reversed(one["passes"])]
        return [*passes, math.inf if one["gap"] is None else one["gap"]]

    return min(tried, key=rank)


def _outcome(runs: list[Any], lowest: float, n: int) -> dict[str, Any]:
    """None stands for never, and for a gap that is no number."""
    passes, gaps = [], []
    for run in runs:
        gap = (run.history["objective"] - lowest) / abs(lowest)
        made = run.history["inner_values"] / n
        reached = [np.flatnonzero(gap <= level) for level in LEVELS]
        passes.append([made[r[0]] if len(r) else math.inf for r in reached])
        last = gap[-1] if run.status is not mvrc.Status.DIVERGED else math.inf
        gaps.append(last if np.isfinite(last) else math.inf)
    middle = np.median(np.array(passes), axis=0)
    gap = float(np.median(gaps))
    return {
        "passes": [float(p) if math.isfinite(p) else None for p in middle],
        "gap": gap if math.isfinite(gap) else None,
        "diverged": sum(run.status is mvrc.Status.DIVERGED for run in runs),
    }
