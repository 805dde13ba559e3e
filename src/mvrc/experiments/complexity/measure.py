"""One method on one sweep: tuned with seeds of its own, then measured."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mvrc.experiments.complexity import schedules, search
from mvrc.experiments.complexity.drive import OWN_SEEDS, Trace, trace
from mvrc.experiments.complexity.family import RADIUS, Known, known
from mvrc.experiments.complexity.sweeps import Sweep

FIRST_STEP = 0.5  # where the search for a factor starts, times 1/L with L = 1 of F
# The gap, relative to its first value, between which it is to be a line. Where κ is small both
# unknowns are in the convex part only below 1e-4; before, F is dominant with other constants.
LINE = (1e-4, 1e-12)


def measure(sweep: Sweep, method: str) -> dict[str, Any]:
    """The record of one method on one sweep: points, what was tried, and what was chosen."""
    return {"reach": _reach, "best": _best, "dominance": _dominance}[sweep.kind](sweep, method)


def problem_at(sweep: Sweep, value: float) -> Known:
    """The problem of one point."""
    return _known(sweep.problem.knobs(sweep.along, value))


@functools.lru_cache(maxsize=2)
def _known(knobs: Any) -> Known:
    return known(knobs)


def _goal(sweep: Sweep, value: float) -> tuple[str, float]:
    return sweep.metric, sweep.level or value


def _epsilon(sweep: Sweep, value: float) -> float:
    """ε of the schedule: the goal for ‖𝒢‖, and √(goal/v) for the gap, as the bound is v ε²."""
    level = _goal(sweep, value)[1]
    return math.sqrt(level / sweep.problem.v) if sweep.problem.v else level


def _recipe(sweep: Sweep, method: str, value: float, power: int) -> Any:
    made = schedules.scheduled(method, problem_at(sweep, value), _epsilon(sweep, value), 2.0**power)
    if sweep.kind == "dominance" or sweep.problem.v:
        return made
    return made


def _first_power(sweep: Sweep, method: str) -> int:
    at = problem_at(sweep, sweep.tune_at)
    recipe = _recipe(sweep, method, sweep.tune_at, 0)
    step = schedules.step_of(recipe)
    if method == "sarah-c":  # whose 1/√(2n + N) is part of the schedule
        step = 1 / at.constants.L_F
    return round(math.log2(FIRST_STEP / step))


def _tuned(sweep: Sweep, method: str) -> tuple[int, list[Any]]:
    """k of the factor 2^k with the fewest samples at `tune_at`, and what was tried."""
    at = problem_at(sweep, sweep.tune_at)
    goal = _goal(sweep, sweep.tune_at)

    def cost(choice: tuple[int, ...], most: float) -> float:
        recipe = _recipe(sweep, method, sweep.tune_at, choice[0])
        return float(trace(at, recipe, _own(sweep), goal, most).to(*goal)[0])

    chosen, tried = search.climb(cost, (_first_power(sweep, method),), sweep.most, [(1,)])
    return chosen[0], [[c[0], _plain(v)] for c, v in tried]


def _reach(sweep: Sweep, method: str) -> dict[str, Any]:
    power, tried = _tuned(sweep, method)
    base = {"power": power, "tried": tried}
    once = sweep.along == "epsilon" and not schedules.depends_on_epsilon(
        method, problem_at(sweep, sweep.values[0])
    )
    points = []
    if once:  # one run to the smallest ε passes all others
        last = min(sweep.values)
        run = _run(sweep, method, last, power)
        points = [_point(sweep, value, run, sweep.metric, value) for value in sweep.values]
    else:
        for value in sweep.values:
            run = _run(sweep, method, value, power)
            points.append(_point(sweep, value, run, *_goal(sweep, value)))
    return {**base, "points": points}


def _run(sweep: Sweep, method: str, value: float, power: int) -> Trace:
    recipe = _recipe(sweep, method, value, power)
    seeds = list(range(1 if method == "gradient" else sweep.seeds))
    return trace(problem_at(sweep, value), recipe, seeds, _goal(sweep, value), sweep.most)


def _point(sweep: Sweep, value: float, run: Trace, metric: str, level: float) -> dict[str, Any]:
    samples = run.to(metric, level)
    return {
        "at": value,
        "level": level,
        "samples": [_plain(v) for v in samples],
        "steps": int(run.steps[run.samples <= np.max(samples)][-1]),
        "farthest": run.farthest,
    }


def _best(sweep: Sweep, method: str) -> dict[str, Any]:
    """S = 2^i, τ = 2^j and factor 2^k by hill climbing at every point, from the last one's."""
    points = []
    choice: tuple[int, ...] = ()
    for value in sweep.values:
        at, goal = problem_at(sweep, value), _goal(sweep, value)
        n = int(value)
        make = functools.partial(_sized, at, method, goal[1])
        cost = functools.partial(_cost, sweep, at, goal, make)
        root = round(math.log2(n) / 2)
        known_rule = "gradient" if method == "minibatch" else method
        start = choice or (root, root, _first_power(sweep, known_rule))
        moves = [(0, 0, 1), (0, 2, 0), (2, 0, 0)]
        if method == "minibatch":  # which has no period; the first batch is everything
            start, moves = choice or (2 * root, 0, start[2]), moves[::2]
        choice, tried = search.climb(cost, start, sweep.most, moves)
        seeds = list(range(sweep.seeds))
        run = trace(at, make(choice), seeds, goal, sweep.most)
        chosen = {"batch": 2 ** choice[0], "period": 2 ** choice[1], "power": choice[2]}
        points.append(
            {**_point(sweep, value, run, *goal), **chosen,
             "tried": [[list(c), _plain(v)] for c, v in tried]}
        )  # fmt: skip
    return {"points": points}


def _cost(
    sweep: Sweep,
    at: Known,
    goal: tuple[str, float],
    make: Any,
    choice: tuple[int, ...],
    most: float,
) -> float:
    n = at.knobs.n or 1
    if not 0 <= choice[0] <= math.log2(n) or not 0 <= choice[1] <= math.log2(16 * n):
        return math.inf
    return float(trace(at, make(choice), _own(sweep), goal, most).to(*goal)[0])


def _sized(at: Known, method: str, epsilon: float, choice: tuple[int, ...]) -> Any:
    size, period, power = 2 ** choice[0], 2 ** choice[1], choice[2]
    if method == "minibatch":
        return schedules.minibatch(at, size, 2.0**power)
    return schedules.scheduled(method, at, epsilon, 2.0**power, (size, period))


def _dominance(sweep: Sweep, method: str) -> dict[str, Any]:
    """Samples for a fall of the gap by e, from the line through log gap, and its R²."""
    power, tried = _tuned_line(sweep, method)
    points = []
    for value in sweep.values:
        run = _line_run(sweep, method, value, power, list(range(sweep.seeds)))
        slopes, fits = _slopes(run)
        shown = run.expected("gap")[:, 0] / run.gap[0, 0]
        every = max(1, len(shown) // 60)
        points.append(
            {
                "at": value,
                "samples": [_plain(v) for v in slopes],
                "straight": [_plain(v) for v in fits],
                "steps": int(run.steps[-1]),
                "farthest": run.farthest,
                "line": [[float(s), float(f"{g:.4g}")] for s, g in
                         zip(run.samples[::every], shown[::every], strict=True)],
            }
        )  # fmt: skip
    return {"power": power, "tried": tried, "points": points}


def _tuned_line(sweep: Sweep, method: str) -> tuple[int, list[Any]]:
    def cost(choice: tuple[int, ...], most: float) -> float:
        run = _line_run(sweep, method, sweep.tune_at, choice[0], _own(sweep), 40 * most)
        return float(_slopes(run)[0][0])

    chosen, tried = search.climb(cost, (_first_power(sweep, method),), sweep.most, [(1,)])
    return chosen[0], [[c[0], _plain(v)] for c, v in tried]


def _line_run(
    sweep: Sweep, method: str, value: float, power: int, seeds: list[int], most: float = math.inf
) -> Trace:
    at = problem_at(sweep, value)
    recipe = _recipe(sweep, method, value, power)
    first = float(at.value(at.x0)) - at.best
    goal = "gap", LINE[1] * first
    return trace(at, recipe, seeds, goal, min(most, sweep.most))


def _slopes(run: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Samples for a fall by e and R² of the line, ∞ and 0 where it does not fall: of E F − F*."""
    samples, fits = [], []
    for column in run.expected("gap").T:
        gap = column / column[0]
        inside = (gap <= LINE[0]) & (gap >= LINE[1] / 10)
        x, y = run.samples[inside], np.log(gap[inside])
        if gap[-1] > LINE[1] or len(x) < 2:
            samples.append(math.inf)
            fits.append(0.0)
            continue
        slope, start = np.polyfit(x, y, 1)
        rest = y - slope * x - start
        samples.append(-1 / slope if slope < 0 else math.inf)
        fits.append(1 - float(rest @ rest / ((y - y.mean()) @ (y - y.mean()))))
    return np.array(samples), np.array(fits)


def inside(record: dict[str, Any]) -> bool:
    """Whether all query points of a record stayed where the constants hold."""
    if record["spec"]["problem"]["shape"] != "dominant":
        return True
    return all(point["farthest"] <= RADIUS for point in record["points"])


def _own(sweep: Sweep) -> list[int]:
    return list(range(OWN_SEEDS, OWN_SEEDS + sweep.seeds))


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
