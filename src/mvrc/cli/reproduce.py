"""`mvrc reproduce`: the paper's experiments, their page and their claims."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from mvrc.cli import signals
from mvrc.cli.shown import print_tables
from mvrc.experiments import runner, spec
from mvrc.experiments.complexity import plan
from mvrc.support import checks

WORKERS = min(2, os.cpu_count() or 1)  # an epoch uses little more than one core


def reproduce(
    only: Annotated[
        str | None,
        typer.Option(
            help="Experiments, such as portfolio-30,spam; complexity for the theory, or one of "
            "its parts, such as sum1-n. All but the theory by default, whose recorded runs are "
            "shown."
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder of the runs and the page.")] = Path(
        "reproduce"
    ),
    seeds: Annotated[
        int | None, typer.Option(help="Seeds per run; those of the spec, 10, by default.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Fewer epochs, seeds and step sizes.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the real files; searched for when not given.")
    ] = None,
    experiments: Annotated[
        Path | None, typer.Option(help="Another spec, a TOML file like the paper's.")
    ] = None,
    tuning: Annotated[
        bool, typer.Option(help="Also run the step sizes of the tuning table.")
    ] = True,
    workers: Annotated[int, typer.Option(help="Processes that run at the same time.")] = WORKERS,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the paper's experiments; write a page, figures and a table of its claims.

    Runs that are finished are not repeated, so a command that was stopped continues
    where it was. Real data are used where they are found, otherwise simulated data of the
    same size. The page is written as experiments come, and says how many runs are left.

    Examples:

      mvrc reproduce
      mvrc reproduce --only portfolio-30 --quick
      mvrc reproduce --data ~/data --output results
      mvrc reproduce --only complexity --quick
    """
    papers, theory = _split(only)
    chosen = {} if papers is None and theory else spec.choose(spec.load(experiments), papers)
    if seeds is not None:
        checks.integer("--seeds", seeds)
        chosen = {k: dataclasses.replace(e, seeds=seeds) for k, e in chosen.items()}
    if quick:
        chosen = {name: spec.quick(e) for name, e in chosen.items()}
    if data is not None and not data.is_dir():
        raise FileNotFoundError(f"--data must be a folder that exists, not {str(data)!r}.")
    start = time.perf_counter()
    jobs = runner.plan(chosen, data, tuning)
    measured = plan.plan(theory, quick)
    output.mkdir(parents=True, exist_ok=True)
    runner.write_whole(output / "title.txt", spec.title(experiments))
    try:
        workers = checks.integer("--workers", workers)
        repeated = _run(jobs, output, workers, quiet=as_json) if jobs else 0
        repeated += _run_theory(measured, output, quiet=as_json)
    except KeyboardInterrupt:
        typer.echo(
            f"{signals.word()}. Finished runs are in {output}; the same command continues there.",
            err=True,
        )
        raise typer.Exit(signals.code()) from None
    from mvrc.report.page import write

    written = write(output)
    seconds = time.perf_counter() - start
    done = {
        "runs": len(jobs) + len(measured),
        "already_there": repeated,
        "seconds": round(seconds, 1),
    }
    if as_json:
        claims = json.loads(written["claims"].read_text("utf-8"))
        files = {name: str(path) for name, path in written.items()}
        typer.echo(json.dumps({**done, "files": files, "claims": claims}))
        return
    print_tables(output)
    typer.echo(
        f"{done['runs']} runs, {repeated} of them already there, in {seconds:.0f} s.\n"
        f"Page: {written['page'].resolve()}"
    )


def _split(only: str | None) -> tuple[str | None, list[str]]:
    """--only as the paper's experiments and as the parts of the theory."""
    words = [word.strip() for word in (only or "").split(",") if word.strip()]
    theory = [word for word in words if word in plan.names()]
    rest = [word for word in words if word not in theory]
    return (",".join(rest) if rest else None if theory else only), theory


def _run_theory(jobs: list[plan.Job], output: Path, quiet: bool) -> int:
    """Do the theory's jobs behind a progress bar; how many were done before."""
    if not jobs:
        return 0
    before = 0
    with _bar(quiet) as bar:
        task = bar.add_task("compiling", total=len(jobs))

        def tell(job: plan.Job, done: bool) -> None:
            nonlocal before
            before += done
            bar.update(task, advance=1, description=job.name)

        plan.run(jobs, output, tell)
    return before


def _bar(quiet: bool) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        disable=quiet,
    )


def _run(jobs: list[runner.Job], output: Path, workers: int, quiet: bool) -> int:
    """Do the jobs behind a progress bar; how many were done before."""
    from mvrc.report.page import write_so_far

    bar = _bar(quiet)
    before, finished = 0, 0
    waiting = collections.Counter(job.experiment.id for job in jobs if not job.tuned)
    with bar:
        task = bar.add_task("compiling", total=len(jobs))

        def tell(job: runner.Job, done: bool) -> Any:
            nonlocal before, finished
            before, finished = before + done, finished + 1
            bar.update(task, advance=1, description=job.name)
            if job.tuned:
                return
            waiting[job.experiment.id] -= 1
            if waiting[job.experiment.id] == 0 and not done and finished < len(jobs):
                whole = [j for j in jobs if not j.tuned and waiting[j.experiment.id] == 0]
                page = write_so_far(output, [j.key for j in whole], len(jobs) - finished)
                bar.console.print(f"Page so far: {page.resolve()}", soft_wrap=True)

        runner.run(jobs, output, tell, workers)
    return before
