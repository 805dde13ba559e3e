"""Runs the experiments: one file a run, named by what was run, so nothing is done twice.

Longer than other files: a pool of processes and what may happen to it.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import mvrc
from mvrc.compiler import disk
from mvrc.experiments import problems, sources, tuning
from mvrc.experiments.sources import Source
from mvrc.experiments.spec import Experiment, MethodSpec
from mvrc.solvers.result import COLUMNS

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
FORMAT = 4  # of the files; another number is another run
MEASURED = ("objective", "gradient_mapping")  # columns with a value for each seed


@dataclasses.dataclass(frozen=True)
class Job:
    """One method on one experiment, for all its seeds."""

    experiment: Experiment
    source: Source
    method: MethodSpec
    tuned: bool = False  # at the best step of a grid, else at the experiment's

    @property
    def seeds(self) -> int:
        return self.experiment.seeds if self.method.draws else 1

    @property
    def name(self) -> str:
        """Short, for a progress bar."""
        return f"{self.experiment.id}: {self.method.label}{', best step' if self.tuned else ''}"

    @functools.cached_property
    def described(self) -> dict[str, Any]:
        """All that the numbers of the run depend on."""
        e = self.experiment
        words: dict[str, Any] = {
            "experiment": e.id, "problem": e.problem, "data": self.source.name,
            "fingerprint": self.source.fingerprint, "method": dataclasses.asdict(self.method),
            "batch_size": e.batch_size, "outer_batch_size": e.outer_batch_size,
            "period": e.steps(self.source.n), "seeds": self.seeds,
            "asc_pg": {} if e.asc_pg is None else dataclasses.asdict(e.asc_pg),
            "step_size": e.step_size, "epochs": e.epochs, "tuning": None,
            "version": mvrc.__version__, "format": FORMAT,
        }  # fmt: skip
        if self.tuned and e.tuning is not None:
            grid = dataclasses.asdict(dataclasses.replace(e.tuning, methods=(), beside=()))
            words |= {"tuning": grid, "step_size": None, "epochs": None}
        return words

    @property
    def key(self) -> str:
        text = json.dumps(self.described, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


def plan(
    experiments: dict[str, Experiment], folder: str | Path | None = None, tuned: bool = True
) -> list[Job]:
    """The jobs, the figure's first."""
    found = {name: sources.find(e.data, folder, e.problem) for name, e in experiments.items()}
    wanted = [
        (name, e)
        for name, e in experiments.items()
        if (not e.instead_of or any(o in found and not found[o].real for o in e.instead_of))
        and (not e.besides or any(o in found and found[o].real for o in e.besides))
    ]
    for name, e in wanted:
        problems.refuse_unfit(e, found[name])
    jobs = [Job(e, found[name], m) for name, e in wanted for m in (*e.methods, *e.controls)]
    if tuned:
        jobs += [
            Job(e, found[name], m, tuned=True)
            for name, e in wanted
            if e.tuning is not None
            for m in (*e.tuning.methods, *e.tuning.beside)
        ]
    return jobs


def run(jobs: list[Job], output: Path, tell: Callable[[Job, bool], Any], workers: int = 1) -> None:
    """Do the jobs that are not done; `tell` is called after each, with whether it was."""
    (output / "runs").mkdir(parents=True, exist_ok=True)
    pending = []
    for job in jobs:
        if is_whole(_file(job, output)):
            tell(job, True)
        else:
            pending.append(job)
    for job in _done(pending, output, min(workers, len(pending))):
        tell(job, False)
    write_whole(output / "jobs.json", json.dumps([job.key for job in jobs]))
    write_rows(output)


def _done(jobs: list[Job], output: Path, workers: int) -> Iterator[Job]:
    """Each job when its file is written. One process after the other, or several at a time."""
    if workers < 2:
        for job in jobs:
            yield _do(job, output)
        return
    # Jobs that share compiled programs go to one worker, one after the other.
    groups: dict[Any, list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.tuned, job.experiment.id, job.method.recipe), []).append(job)
    pool = multiprocessing.get_context("spawn").Pool(workers, _start_worker, (disk.folder(),))
    # By default SIGTERM would end this process alone, and the workers would go on writing.
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _terminated) if main else None
    try:
        tasks = [(group, output) for group in groups.values()]
        for group in pool.imap_unordered(_do_group, tasks):
            yield from group
        pool.close()
    finally:
        pool.terminate()
        pool.join()
        if main:
            signal.signal(signal.SIGTERM, before)


def _terminated(*_: Any) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _start_worker(folder: Path | None) -> None:
    """Ctrl-C is the parent's business; compiled programs are shared on disk.

    A worker ends with its parent, also when that is killed, where the system can be asked for it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)
    with contextlib.suppress(ValueError):  # a folder that cannot be written
        mvrc.compilation_cache(folder)


def _do_group(task: tuple[list[Job], Path]) -> list[Job]:
    jobs, output = task
    return [_do(job, output) for job in jobs]


def _do(job: Job, output: Path) -> Job:
    write_whole(_file(job, output), json.dumps(_solve(job)))
    return job


def _file(job: Job, output: Path) -> Path:
    return output / "runs" / f"{job.key}.json"


def records(output: Path, keys: list[str] | None = None) -> list[dict[str, Any]]:
    """The runs of the last plan, in its order; with keys those."""
    if keys is not None:
        return [json.loads((output / "runs" / f"{key}.json").read_text("utf-8")) for key in keys]
    plan = output / "jobs.json"
    if not plan.exists():
        raise FileNotFoundError(
            f"output {str(output)!r} has no finished runs; run mvrc reproduce --output {output}."
        )
    return records(output, json.loads(plan.read_text("utf-8")))


def write_rows(output: Path) -> Path:
    """rows.csv: a row for every run, seed and measurement."""
    path = output / "rows.csv"
    named = ("mvrc", "jax", "machine", "experiment", "data", "method", "tuned", "step_size", "seed")
    with _replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*named, *COLUMNS])
        for record in records(output):
            made = record["made_with"]
            head = [
                made["mvrc"], made["jax"], made["machine"], record["experiment"], record["data"],
                record["method"], record["tuned"], record["step_size"],
            ]  # fmt: skip
            rows = record["rows"]
            for seed in range(record["seeds"]):
                for i in range(len(rows["epoch"])):
                    cells = [rows[c][seed][i] if c in MEASURED else rows[c][i] for c in COLUMNS]
                    writer.writerow([*map(_inert, head), seed, *cells])
    return path


def _solve(job: Job) -> dict[str, Any]:
    """A run as a record that can be saved."""
    task = problems.task(job.experiment, job.source)
    e, n = job.experiment, job.source.n
    start = time.perf_counter()
    tried: list[dict[str, Any]] = []
    step, grid = None, e.tuning if job.tuned else None
    if grid is None:
        # An epoch of a variance-reduced method is n + 2S(τ − 1) samples; ASC-PG has as many.
        limits: dict[str, Any] = {"epochs": e.epochs}
        if job.method.recipe == "asc-pg":
            limits = {"samples": e.epochs * (n + 2 * e.batch_size * (e.steps(n) - 1))}
    else:
        limits = {"samples": grid.passes * n}
        if job.method not in grid.beside:
            tried = tuning.search(job.method, e, n, task, limits)
            step = 2.0 ** tuning.best(tried)["power"] / task.smoothness
    method = problems.method(job.method, e, n, step)
    # One λ for all methods of an experiment, whatever their own steps.
    limits["mapping_step"] = e.step_size
    together = e.together and job.seeds > 1
    if together:
        results = mvrc.minimize_many(task.problem, task.x0, method, seeds=job.seeds, **limits)
    else:
        results = [
            mvrc.minimize(task.problem, task.x0, method, seed=seed, **limits)
            for seed in range(job.seeds)
        ]
    if any(result.status is mvrc.Status.INTERRUPTED for result in results):
        raise KeyboardInterrupt  # half a run is not kept
    return {
        "experiment": e.id, "title": e.title, "data": job.source.name,
        "data_title": job.source.title, "size": job.source.size, "n": n, "real": job.source.real,
        "method": job.method.id, "label": job.method.label, "tuned": job.tuned,
        "control": job.method.step_factor != 1, "tried": tried,
        "step_size": results[0].step_size, "seeds": job.seeds,
        "best": task.best, "exact": task.exact, "smoothness": task.smoothness,
        "status": [result.status.name for result in results],
        "described": job.described, "rows": _rows(results, together),
        "wall_seconds": time.perf_counter() - start,
        "made_with": made_with(),
    }  # fmt: skip


def _rows(results: list[Any], together: bool) -> dict[str, Any]:
    """The columns; of objective and gradient mapping a list for each seed, of equal lengths."""
    longest = max(results, key=lambda result: len(result.history))
    rows: dict[str, Any] = {}
    for name in COLUMNS:
        if name in MEASURED:
            rows[name] = [
                [_plain(v) for v in result.history[name]]
                + [None] * (len(longest.history) - len(result.history))
                for result in results
            ]
        else:
            rows[name] = [_plain(v) for v in longest.history[name]]
    # For one seed: vmapped seeds share the clock.
    for name in ("seconds", "wall_seconds"):
        rows[name] = [t / (len(results) if together else 1) for t in rows[name]]
    return rows


@functools.cache
def made_with() -> dict[str, str]:
    """Versions and machine."""
    versions = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
    return {
        "mvrc": mvrc.__version__,
        **versions,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _plain(value: Any) -> float | int | str | None:
    """A number that JSON has, None for NaN and ±∞; or a word."""
    plain = value.item()
    return plain if isinstance(plain, str) or np.isfinite(plain) else None


def _inert(cell: Any) -> Any:
    """A word that a spreadsheet does not take for a formula."""
    risky = isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{cell}" if risky else cell


def is_whole(file: Path) -> bool:
    """Whether the file is there and JSON."""
    try:
        json.loads(file.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return True


def write_whole(path: Path, text: str) -> None:
    """Written whole or not at all."""
    with _replacing(path) as temporary:
        temporary.write_text(text, "utf-8")


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes `path` only when all is written."""
    temporary = path.with_suffix(f".{os.getpid()}.part")
    yield temporary
    temporary.replace(path)
