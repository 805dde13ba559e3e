"""What is run: the tables of complexity.toml as jobs, each kept in a file named by what it is."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import json
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import mvrc
from mvrc.experiments import schema
from mvrc.experiments.complexity import guarantees, measure, momentum, proxes
from mvrc.experiments.complexity.guarantees import Guarantee
from mvrc.experiments.complexity.momentum import Momenta
from mvrc.experiments.complexity.proxes import Proxes
from mvrc.experiments.complexity.sweeps import Sweep
from mvrc.experiments.runner import is_whole, made_with, write_whole
from mvrc.experiments.schema import CLOSED, Some
from mvrc.support import checks

NAME = "complexity"  # of all of them together
FOLDER = "complexity"  # of the runs, in the folder of the page
FORMAT = 1  # of the files; another number is another run
_KINDS: dict[str, Any] = {
    "sweeps": Sweep, "guarantees": Guarantee, "momenta": Momenta, "proxes": Proxes,
}  # fmt: skip
_WORDS = ("title", "predicted", "short", "quick_values", "methods")  # no number depends on them


@dataclasses.dataclass(frozen=True)
class File:
    """The whole file."""

    __pydantic_config__ = CLOSED

    sweeps: Annotated[dict[str, Any], Some]
    guarantees: dict[str, Any] = dataclasses.field(default_factory=dict)
    momenta: dict[str, Any] = dataclasses.field(default_factory=dict)
    proxes: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Job:
    """One method on one sweep, or one row of the others."""

    kind: str
    spec: Any
    method: str | None = None

    @property
    def name(self) -> str:
        """Short, for a progress bar."""
        return f"{self.spec.id}{'' if self.method is None else f': {self.method}'}"

    @functools.cached_property
    def key(self) -> str:
        words = {k: v for k, v in dataclasses.asdict(self.spec).items() if k not in _WORDS}
        if self.kind == "proxes":
            words["methods"] = self.spec.methods
        whole = [self.kind, words, self.method, mvrc.__version__, FORMAT]
        text = json.dumps(whole, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def measured(self) -> dict[str, Any]:
        """The record."""
        start, cpu = time.perf_counter(), time.process_time()
        if self.kind == "sweeps":
            assert self.method is not None
            found = measure.measure(self.spec, self.method)
        else:
            room: Any = {"guarantees": guarantees, "momenta": momentum, "proxes": proxes}[self.kind]
            found = room.measure(self.spec)
        return {
            "kind": self.kind, "id": self.spec.id, "method": self.method,
            "spec": dataclasses.asdict(self.spec), **found,
            "seconds": round(time.perf_counter() - start, 1),
            "cpu_seconds": round(time.process_time() - cpu, 1), "made_with": made_with(),
        }  # fmt: skip


def load(path: str | Path | None = None) -> dict[str, tuple[str, Any]]:
    """The tables of a TOML file by their names, each with its kind; the library's by default."""
    if path is None:
        with resources.as_file(
            resources.files("mvrc.experiments.complexity") / "complexity.toml"
        ) as file:
            return load(file)
    file = Path(path)
    whole = schema.fit(File, schema.read(file), file)
    return {
        name: (kind, schema.fit(spec, table, file, kind, name, id=name))
        for kind, spec in _KINDS.items()
        for name, table in getattr(whole, kind).items()
    }


def names() -> tuple[str, ...]:
    """What --only may name of this half."""
    return (NAME, *load())


def plan(only: list[str], quick: bool) -> list[Job]:
    """The jobs of these names; `complexity` is all, in the short version those marked as short."""
    tables = load()
    for name in only:
        checks.choice("only", name, (NAME, *tables))
    if NAME in only:
        chosen = {k: v for k, v in tables.items() if v[1].short or not quick}
    else:
        chosen = {k: tables[k] for k in only}
    jobs = []
    for kind, whole in chosen.values():
        spec = whole.quick() if quick else whole
        jobs += (
            [Job(kind, spec, m) for m in spec.methods] if kind == "sweeps" else [Job(kind, spec)]
        )
    return jobs


def run(jobs: list[Job], output: Path, tell: Callable[[Job, bool], Any]) -> None:
    """Do the jobs that are not done, one after the other; `tell` is called after each."""
    folder = output / FOLDER
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    for i, job in enumerate(jobs):
        file = folder / "runs" / f"{job.key}.json"
        done = is_whole(file)
        if not done:
            write_whole(file, json.dumps(job.measured()))
        keys = [one.key for one in jobs[: i + 1]]
        write_whole(folder / "jobs.json", json.dumps({"keys": keys, "jobs": len(jobs)}))
        tell(job, done)


def records(output: Path) -> tuple[list[dict[str, Any]], bool]:
    """The runs in this folder, or those that come with the library; whether they are its own."""
    jobs = output / FOLDER / "jobs.json"
    if not jobs.exists():
        return shipped(), False
    keys = json.loads(jobs.read_text("utf-8"))["keys"]
    folder = output / FOLDER / "runs"
    return [json.loads((folder / f"{key}.json").read_text("utf-8")) for key in keys], True


def expected(output: Path) -> int | None:
    """How many runs the last command in this folder was to make; None without one."""
    jobs = output / FOLDER / "jobs.json"
    return int(json.loads(jobs.read_text("utf-8"))["jobs"]) if jobs.exists() else None


def shipped() -> list[dict[str, Any]]:
    """The runs that come with the library."""
    file = resources.files("mvrc.experiments.complexity") / "recorded.json.gz"
    if not file.is_file():
        return []
    return list(json.loads(gzip.decompress(file.read_bytes())))


def ship(output: Path, target: Path) -> None:
    """Write the runs of a folder as those that come with the library."""
    text = json.dumps(records(output)[0], ensure_ascii=False)
    target.write_bytes(gzip.compress(text.encode(), mtime=0))
