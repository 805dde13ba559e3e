"""`python -m benchmarks.auto`: `Auto` against every method at its best of eight step sizes.

Writes results/auto.json; `benchmarks.comparison` makes the page from it. With part of a name as
argument only those instances are run. With `--only auto` the tuned runs stay as recorded, and
`Auto` is run again, with the best of them beside it for its seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mvrc
from benchmarks import paths
from benchmarks.cases.instances import GOAL, Instance, instances
from benchmarks.report import machine

RESULTS = paths.RESULTS / "auto.json"
STEPS = [2.0**k for k in range(-4, 4)]  # times 1/L
MOST = 600  # passes after which a run is given up,
LARGEST = 6e7  # or evaluations of g
REPEATS = 3  # warm runs, of which the median time counts
EARLY = ("c-saga", "vrsc-pg", "katyusha", "fista")  # often good: the others are then cut short
LEFT_OUT = ("spider-admm",)  # for r(Ax); with A = I it is a slower CIVR
KEEPS_JACOBIAN = ("c-saga", "vrsc-pg", "c-svrg-2", "katyusha", "sarah-c", "smvr")
LARGEST_JACOBIAN = 2**20  # entries
SECONDS = 60  # after which a run is given up, too


def main() -> None:
    """`Auto` and every method on the instances."""
    record(RESULTS, instances(), compare, timed, sentence)


def record(
    file: Path,
    known: dict[str, Callable[[], Instance]],
    tune: Callable[[Instance], dict[str, Any]],
    beside: Callable[[Instance, dict[str, Any]], dict[str, Any]],
    words: Callable[[dict[str, Any]], str],
) -> None:
    """The instances that the command line asks for; the file is written after each.

    Args:
        file: the recorded rows.
        known: all instances.
        tune: the row of an instance, without `Auto`.
        beside: a row with `Auto` in it, run anew.
        words: the outcome for the terminal.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("wanted", nargs="?", default="", help="part of an instance's name")
    parser.add_argument("--only", choices=["auto"], help="keep the tuned runs that are recorded")
    asked = parser.parse_args()
    kept = file.exists() and (asked.wanted or asked.only)
    found = json.loads(file.read_text())["instances"] if kept else {}
    start = time.perf_counter()
    for name, build in known.items():
        if asked.wanted not in name:
            continue
        if asked.only and name not in found:
            print(f"{name}: left out, as no tuned runs are recorded", flush=True)
            continue
        instance, today = build(), machine.today()
        row = found[name] if asked.only else tune(instance) | {"ran": {"tuned": today}}
        found[name] = beside(instance, row) | {"ran": row.get("ran", {}) | {"auto": today}}
        print(f"{name}: {words(found[name])}", flush=True)
        facts = machine.facts() | {"minutes": (time.perf_counter() - start) / 60}
        file.write_text(json.dumps({"machine": facts, "instances": found}, indent=1) + "\n")


def sentence(row: dict[str, Any]) -> str:
    """The outcome for the terminal."""
    auto, best = row["auto"], row["best"]
    if auto["values"] is None:
        return f"Auto did not reach the goal in {auto['spent']:.0f} passes"
    text = f"Auto {auto['values']:.1f} passes of g, {auto['jacobians']:.1f} of g'"
    if best is None:
        return f"{text}; no other method within the limits"
    return (
        f"{text}; {best['method']} {best['values']:.1f} at {best['factor']:g}/L: "
        f"{auto['values'] / best['values']:.2f} times"
    )


def compare(instance: Instance) -> dict[str, Any]:
    """Each method at each step size, given up when it is behind the best so far."""
    tuned: list[dict[str, Any]] = []
    left = limit(instance.problem.n)
    for name in dict.fromkeys([*EARLY, *mvrc.METHODS]):
        if name in LEFT_OUT or (name == "ascgd" and instance.penalised):
            continue
        if name in KEEPS_JACOBIAN and instance.entries > LARGEST_JACOBIAN:
            why = f"its p × d Jacobian would have {instance.entries:,} entries"
            tuned.append({"method": name, "factor": None, "values": None, "why": why})
            continue
        for factor in STEPS:
            try:
                run = one(instance, recipe(name, instance, factor * instance.step), left)
            except (ValueError, MemoryError) as error:  # not for this problem, or too large for it
                tuned.append({"method": name, "factor": None, "values": None, "why": str(error)})
                break
            tuned.append({"method": name, "factor": factor} | run)
            if run["values"] is not None:
                left = min(left, run["values"])
    reached = [run for run in tuned if run["values"] is not None]
    best = min(reached, key=lambda run: run["values"], default=None)
    return {
        "convex": instance.convex,
        "n": instance.problem.n,
        "d": instance.unknowns,
        "best": best,
        "tuned": tuned,
    }


def timed(instance: Instance, row: dict[str, Any]) -> dict[str, Any]:
    """With Auto, and with the seconds of the best tuned method, measured one after the other."""
    best = row["best"]
    if best is not None:
        again = first(instance, recipe(best["method"], instance, best["factor"] * instance.step))
        best = best | {"seconds": again["seconds"]}
    return row | {"best": best, "auto": first(instance, "auto")}


def limit(n: int) -> float:
    """Passes that a run may take."""
    return min(MOST, LARGEST / n)


def first(instance: Instance, method: Any) -> dict[str, Any]:
    """Evaluations to the goal, compile time included and excluded, what was chosen."""
    start = time.perf_counter()
    cold = one(instance, method, limit(instance.problem.n))
    wall = time.perf_counter() - start
    warm = [one(instance, method, limit(instance.problem.n))["seconds"] for _ in range(REPEATS)]
    known = [seconds for seconds in warm if seconds is not None]
    return cold | {"seconds": float(np.median(known)) if known else None, "cold": wall}


def one(instance: Instance, method: Any, most: float) -> dict[str, Any]:
    """A run until the goal or the limit of passes; passes of g and g' and seconds at the goal."""
    n = instance.problem.n
    hit: dict[str, Any] = {"values": None, "jacobians": None, "seconds": None}

    def reached(info: Any) -> bool:
        if not instance.measure(info.x) <= GOAL:  # a diverged run measures nan
            return False
        hit["values"] = info.counts.inner_values / n
        hit["jacobians"] = info.counts.inner_jacobians / n
        hit["seconds"] = info.seconds
        return True

    result = mvrc.minimize(
        instance.problem,
        instance.x0,
        method,
        samples=math.ceil(most * n),
        seconds=SECONDS,
        rtol=1e-3 * GOAL,  # `Auto` is to go on to the goal, like the others
        callback=reached,
    )
    last = instance.measure(result.x)
    return hit | {
        "spent": result.counts.inner_values / n,
        "measure": float(last) if np.isfinite(last) else None,
        "status": result.status.name,
        "looked": _looked(result, n, instance.unknowns) / n,
        "notes": list(result.notes),
    }


def _looked(result: mvrc.Result, n: int, d: int) -> float:
    """Samples from which `Auto` measured the curvature, from what it spent on Jacobians alone.

    A measurement is a Jacobian of all samples and d columns of some; a pass has as many of both.
    """
    measured = getattr(getattr(result.state.core, "model", None), "measured", None)
    if measured is None:
        return 0.0
    alone = result.counts.inner_jacobians - result.counts.inner_values
    return max(alone - int(measured) * n, 0) / d


def recipe(name: str, instance: Instance, step: float) -> Any:
    """A method at a step size; the portfolios with the paper's batch, else its own defaults."""
    method = mvrc.METHODS[name]
    if instance.batch is None or name in ("fista", "proximal-gradient"):
        return method(step_size=step)
    period = math.ceil(instance.problem.n / instance.batch)
    return method(step_size=step, batch_size=instance.batch, period=period)


if __name__ == "__main__":
    main()
