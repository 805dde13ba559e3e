"""`mvrc tune`: the best step size of methods on a problem of one's own, resumable."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import mvrc
from mvrc.cli import parameters, wording
from mvrc.experiments import loading
from mvrc.experiments.runner import is_whole, write_whole
from mvrc.run.fingerprint import glance
from mvrc.solvers import catalogue
from mvrc.support import checks
from mvrc.theory.smoothness import default_step_size

FARTHEST = 12.0  # the largest |k| of a step 2^k/(4L)
OWN_SEEDS = 1000  # the first seed: none of those that runs have by default
FINEST = 0.125  # spacing of k at which a bisection ends
COLUMNS = ("method", "power", "step_size", "objective", "passes", "diverged")


def tune(
    target: Annotated[
        str, typer.Argument(metavar="FILE_OR_MODULE[:NAME]", help="As for mvrc solve.")
    ],
    methods: Annotated[str, typer.Option(help="Names listed by: mvrc methods, with commas.")],
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where runs are kept.")],
    passes: Annotated[int, typer.Option(help="Samples of a run, in passes over the data.")] = 20,
    seeds: Annotated[int, typer.Option(help="Runs at each step size.")] = 3,
    lowest: Annotated[float, typer.Option(help="The first k of steps 2^k/(4L).")] = -3.0,
    highest: Annotated[float, typer.Option(help="The last k.")] = 3.0,
    spacing: Annotated[float, typer.Option(help="Of k.")] = 1.0,
    search: Annotated[str, typer.Option(help="grid, or bisection around its best.")] = "grid",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of all methods; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find the best step size of each method on a problem of your own.

    Steps are 2^k/(4L), L the smoothness at x0. A grid grows until its best lies inside;
    a bisection then halves the spacing around it. The best step has the least median
    objective after the same number of samples. Every run is a file in --output: the
    same command goes on where it ended.

    Examples:

      mvrc tune portfolio.py --methods mvrc,civr --output tuned
      mvrc tune my.module:robust --methods civr --search bisection --output tuned
    """
    chosen = parameters.parse(settings or [])
    with wording.Options(("passes", "seeds", "spacing", "lowest", "highest", "search"), chosen):
        checks.choice("search", search, ("grid", "bisection"))
        checks.integer("passes", passes)
        checks.integer("seeds", seeds)
        if not checks.positive("spacing", spacing) >= FINEST:
            raise ValueError(f"spacing must be at least {FINEST}, not {spacing}.")
        if not -FARTHEST <= lowest <= highest <= FARTHEST:
            raise ValueError(
                f"lowest must be at most highest, both within ±{FARTHEST:g}, not {lowest:g} and "
                f"{highest:g}."
            )
        recipes = {name: type(catalogue.find(name)) for name in _names(methods)}
    problem, x0 = loading.load(target)
    if problem.n is None:
        raise ValueError(f"{target} has a stream, of which there are no passes; give arrays.")
    unit = default_step_size(problem, x0)
    (output / "tries").mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = {}
    tried: list[dict[str, Any]] = []
    for name, recipe in recipes.items():

        def attempt(power: float, name: str = name, recipe: Any = recipe) -> dict[str, Any]:
            step = unit * 2.0**power
            described = {
                "target": target, "data": glance(problem), "method": name, "set": chosen,
                "x0": _digest(x0), "step_size": step, "passes": passes, "seeds": seeds,
                "version": mvrc.__version__,
            }  # fmt: skip
            file = output / "tries" / f"{_digest(described)}.json"
            if not is_whole(file):
                outcome = _outcome(
                    problem, x0, recipe, {**chosen, "step_size": step}, passes, seeds
                )
                row = {"method": name, "power": power, "step_size": step, **outcome}
                write_whole(file, json.dumps({**row, "described": described}, default=str))
            kept = json.loads(file.read_text("utf-8"))
            return {column: kept[column] for column in COLUMNS}

        rows = explore(attempt, lowest, highest, spacing, search == "bisection")
        tried += rows
        found[name] = min(rows, key=_rank)
        if not as_json:
            best = found[name]
            reached = (
                "diverges at every step"
                if best["objective"] is None
                else (
                    f"step_size={best['step_size']:.4g} (k = {best['power']:g}), objective "
                    f"{best['objective']:.8g} after {best['passes']:.3g} passes"
                )
            )
            typer.echo(f"{name:<16}{reached}")
    table = io.StringIO()
    writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(tried)
    write_whole(output / "tuned.csv", table.getvalue())
    write_whole(output / "tuned.json", json.dumps(found, indent=2))
    if as_json:
        typer.echo(json.dumps({"best": found, "tried": tried}))
    else:
        typer.echo(f"{len(tried)} runs in {output}: tuned.csv has all, tuned.json the best.")


def explore(
    attempt: Callable[[float], dict[str, Any]],
    lowest: float, highest: float, spacing: float, bisect: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    """What was tried, by k: a grid that grows until its best lies inside, then finer around it."""
    tried: dict[float, dict[str, Any]] = {}

    def at(power: float) -> None:
        if power not in tried and abs(power) <= FARTHEST:
            tried[power] = attempt(power)

    for i in range(round((highest - lowest) / spacing) + 1):
        at(lowest + i * spacing)
        if tried[max(tried)]["objective"] is None and max(tried) > lowest:
            break  # it diverges, and so it does at larger steps
    while True:
        best = min(tried.values(), key=_rank)["power"]
        ends = (min(tried), max(tried))
        if best not in ends or not ends[0] - spacing >= -FARTHEST or ends[1] + spacing > FARTHEST:
            break
        at(
            best
            + (spacing if best == ends[1] and tried[best]["objective"] is not None else -spacing)
        )
    while bisect and spacing > FINEST:
        spacing /= 2
        best = min(tried.values(), key=_rank)["power"]
        at(best - spacing)
        at(best + spacing)
    return [tried[power] for power in sorted(tried)]


def _outcome(
    problem: Any, x0: Any, recipe: Any, options: dict[str, Any], passes: int, seeds: int
) -> dict[str, Any]:
    """The median of the last objectives; None where half of the runs diverge."""
    method, limit = recipe(**options), passes * problem.evaluations[0]
    runs = [
        mvrc.minimize(problem, x0, method, samples=limit, seed=OWN_SEEDS + i) for i in range(seeds)
    ]
    if any(run.status is mvrc.Status.INTERRUPTED for run in runs):
        raise KeyboardInterrupt  # half a run is not kept
    lost = [run.status in (mvrc.Status.DIVERGED, mvrc.Status.UNBOUNDED) for run in runs]
    ends = [math.inf if gone else run.objective for gone, run in zip(lost, runs, strict=True)]
    middle = float(np.median(ends))
    return {
        "objective": middle if math.isfinite(middle) else None,
        "passes": runs[0].counts.inner_values / problem.evaluations[0],
        "diverged": sum(lost),
    }


def _rank(row: dict[str, Any]) -> tuple[float, float]:
    """By objective, of equal ones the smaller step; a run that diverges comes last."""
    value = math.inf if row["objective"] is None else row["objective"]
    return value, row["power"]


def _names(methods: str) -> list[str]:
    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise ValueError("--methods is empty; give names listed by: mvrc methods.")
    for name in names:
        if name == "auto":
            raise ValueError("--methods names auto, which has no step size to tune.")
    return names


def _digest(value: Any) -> str:
    import jax

    if not isinstance(value, dict) or "method" not in value:
        leaves = [np.asarray(leaf).tobytes() for leaf in jax.tree_util.tree_leaves(value)]
        return hashlib.sha256(b"|".join(leaves)).hexdigest()[:20]
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
