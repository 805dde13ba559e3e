"""`mvrc solve`: minimise the problem that a Python file defines, save the run and resume it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import rich
import typer
from rich.console import Console
from rich.text import Text

import mvrc
from mvrc.cli import parameters, saving, signals, wording
from mvrc.experiments import loading
from mvrc.solvers import catalogue
from mvrc.support import checks

OF_LIMITS = ("EPOCHS", "SAMPLES", "SECONDS")
CODES = {
    "DIVERGED": 1, "UNBOUNDED": 1, **dict.fromkeys(OF_LIMITS, 3), "STALLED": 4, "PLATEAU": 4,
}  # fmt: skip  # of all others 0


def solve(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE_OR_MODULE[:NAME]",
            help="Where problem and x0 are defined; NAME is another problem in it.",
            show_default=False,
        ),
    ],
    method: Annotated[str, typer.Option(help="auto, or a name listed by: mvrc methods.")] = "auto",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the method; repeatable."),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="Limit on epochs; without any limit 1000 for auto, 100 for others."),
    ] = None,
    samples: Annotated[int | None, typer.Option(help="Limit on evaluations of g.")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Limit on wall-clock time after compilation.")
    ] = None,
    tol: Annotated[float | None, typer.Option(help="Stop at this gradient mapping.")] = None,
    rtol: Annotated[
        float | None, typer.Option(help="The same, as a fraction of its value at x0.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The source of all randomness.")] = 0,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Save the run here, or continue it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="One line, no progress bar.")] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep no compiled programs for the next run.")
    ] = False,
) -> None:
    """Minimise the problem that a Python file or module defines.

    It defines x0 and problem, a mvrc.Composition or a function that returns one
    or the pair (problem, x0). The same command with the same --output continues
    where the last one ended, even with higher limits.

    Exit codes: 0 converged, 1 diverged, 2 wrong usage, 3 a limit was reached,
    4 stalled, 130 interrupted, 143 terminated.

    Examples:

      mvrc solve portfolio.py
      mvrc solve portfolio.py --method civr --set step_size=0.1 --set period=50
      mvrc solve portfolio.py:robust --method mvrc --set 'momentum=Diminishing()' --json
      mvrc solve my.module --tol 1e-6 --epochs 500 --output run
    """
    chosen = parameters.parse(settings or [])
    limits: dict[str, Any] = {
        "epochs": epochs, "samples": samples, "seconds": seconds, "tol": tol, "rtol": rtol,
    }  # fmt: skip
    words = wording.Options(("method", "seed", *limits), chosen)
    with words:
        recipe = type(catalogue.find(method))(**chosen)
    if no_cache:
        mvrc.compilation_cache(None)
    bar = Console(stderr=True).is_terminal and not (quiet or as_json)
    loaded = _load(target, bar)
    with words:
        result = mvrc.minimize(
            *loaded, recipe, **limits, seed=seed, progress=bar,
            checkpoint=None if output is None else output / saving.STATE,
        )  # fmt: skip
    options = {"target": target, "set": chosen, **limits, "seed": seed}
    summed = saving.summary(result, method, options)
    files = [] if output is None else saving.save(output, result, summed)
    if as_json:
        typer.echo(saving.dumps({**summed, "x": saving.listed(result.x)}, indent=None))
    elif quiet:
        typer.echo(result.message)
    else:
        _show(result, method, output, files)
    if result.status is mvrc.Status.INTERRUPTED:
        typer.echo(_how_to_go_on(output), err=True)
        raise typer.Exit(signals.code())
    raise typer.Exit(CODES.get(result.status.name, 0))


def _load(target: str, bar: bool) -> tuple[mvrc.Composition, Any]:
    """Problem and x0, with a sign of life while the user's file reads its data."""
    if not bar:
        return loading.load(target)
    rich.reconfigure(stderr=True)  # the library's bar, too, is drawn on rich's global console
    with rich.get_console().status(f"loading {target}"):
        return loading.load(target)


def _show(result: mvrc.Result, method: str, output: Path | None, files: list[str]) -> None:
    rows = {
        result.status.name.lower(): result.message,
        "method": f"{method}, step size {result.step_size:.3g}",
        **({"why": " ".join(result.notes)} if result.notes else {}),
        "objective": f"{result.objective:.8g}",
        "gradient mapping": f"{result.gradient_mapping:.3g}",
        "seconds": f"{result.wall_seconds:.3g} after compilation, "
        f"{result.seconds:.3g} of the algorithm",
    }
    for path, leaf in saving.leaves(result.x).items():
        numbers = np.array2string(leaf, precision=4, threshold=8, edgeitems=3)
        rows[f"x {path}".strip()] = checks.cut(f"{leaf.dtype}{list(leaf.shape)} {numbers}")
    if output is not None:
        rows["saved"] = f"{output}: {', '.join(files)}"
    console = Console(highlight=False, soft_wrap=True)
    for name, shown in rows.items():
        console.print(Text.assemble((f"{name:<18}", "bold"), shown))


def _how_to_go_on(output: Path | None) -> str:
    ended = signals.word()
    if output is None:
        return f"{ended}, and nothing is saved; with --output DIR a run can be continued."
    again = shlex.join(["mvrc", *sys.argv[1:]])
    return (
        f"{signals.word()}; all is saved in {output}. To continue, run the same command:\n  {again}"
    )
