"""Experiments as data: what paper.toml says, checked."""

from __future__ import annotations

import dataclasses
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainValidator

import mvrc
from mvrc.experiments import schema, sources
from mvrc.experiments.schema import CLOSED, Count, Positive, Some, Truth, Word
from mvrc.support import checks

RESTARTED = "diminishing-restart"  # momentum in a word
PAPER = "Momentum with variance reduction: the paper's experiments, run again"
OWN_STEP = ("asc-pg", "auto", "fista")  # recipes to which the experiment's step is not given
FINEST = 1 / 16  # spacing of k that a grid may have
FARTHEST = 12  # the largest |k| of a step 2^k/L: beyond, every method diverges or stands still


def _recipe(name: str, value: Any) -> str:
    if sources.is_own(value):
        return str(value)
    return checks.choice(name, value, ("auto", *mvrc.METHODS))


def _problem(name: str, value: Any) -> str:
    return str(value) if sources.is_own(value) else checks.choice(name, value, sources.OF_PROBLEM)


def _momentum(name: str, value: Any) -> float | str:
    return value if value == RESTARTED else checks.fraction(name, value)


def _period(name: str, value: Any) -> int | str:
    return value if value == "pass" else schema.count(name, value)


def _power(name: str, value: Any) -> int:
    power = checks.integer(name, value, least=-FARTHEST)
    if power > FARTHEST:
        raise ValueError(f"{name} must be at most {FARTHEST}, not {power}.")
    return power


def _named(what: str) -> Any:
    """A name of the file, as what it stands for."""
    return PlainValidator(
        lambda value, info: info.context[what][checks.choice("", value, info.context[what])]
    )


@dataclasses.dataclass(frozen=True)
class MethodSpec:
    """A method under the name that the paper's figure gives it."""

    __pydantic_config__ = CLOSED

    id: Word
    label: Word
    recipe: Annotated[str, schema.checked(_recipe)]  # a name of mvrc.METHODS, or "auto"
    # of MVRC: α, or "diminishing-restart"
    momentum: Annotated[float | str | None, schema.checked(_momentum)] = None
    step_factor: Positive = 1.0  # times η; of a control another than 1

    @property
    def draws(self) -> bool:
        """Whether seeds make a difference."""
        return self.recipe not in ("fista", "auto", "proximal-gradient")


Methods = tuple[Annotated[MethodSpec, _named("methods")], ...]
Others = tuple[Annotated[str, _named("experiments")], ...]


@dataclasses.dataclass(frozen=True)
class Tuning:
    """Every method at its best 2^k/L, k = lowest, lowest + ½, …, highest."""

    __pydantic_config__ = CLOSED

    methods: Methods
    lowest: Annotated[int, schema.checked(_power)]
    highest: Annotated[int, schema.checked(_power)]
    passes: Count  # samples of a run, in passes over the data
    seeds: Count  # by which the step is chosen
    beside: Methods = ()  # methods without a step to choose
    spacing: Positive = 0.5  # of k

    def powers(self) -> list[float]:
        """The first grid."""
        count = round((self.highest - self.lowest) / self.spacing)
        return [self.lowest + self.spacing * i for i in range(count + 1)]


@dataclasses.dataclass(frozen=True)
class AscPg:
    """ASC-PG's own α₁ and β₁."""

    __pydantic_config__ = CLOSED

    step_size: Positive
    average: Positive


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One column of the figure."""

    __pydantic_config__ = CLOSED

    id: Word
    title: Word
    problem: Annotated[str, schema.checked(_problem)]
    methods: Annotated[Methods, Some]
    step_size: Positive
    batch_size: Count
    period: Annotated[int | str, schema.checked(_period)]
    epochs: Count
    seeds: Count
    data: tuple[Word, ...] = ()  # sources, tried in order; may be left out of "module:name" alone
    asc_pg: AscPg | None = dataclasses.field(default=None, metadata={"table": AscPg})
    outer_batch_size: Count | None = None
    tuning: Tuning | None = dataclasses.field(default=None, metadata={"table": Tuning})
    together: Truth = True  # all seeds in one vmapped program, else one after the other
    instead_of: Others = ()  # run only where one of these has no real data
    besides: Others = ()  # run only where one of these has real data
    controls: Methods = ()  # methods at another step
    where: str = ""  # of the file, for sentences

    def steps(self, n: int) -> int:
        """The period τ."""
        return -(-n // self.batch_size) if self.period == "pass" else int(self.period)


@dataclasses.dataclass(frozen=True)
class File:
    """A whole file; its tables are fitted one by one, as a name is looked up in others."""

    __pydantic_config__ = CLOSED

    methods: Annotated[dict[str, Any], Some]
    experiments: Annotated[dict[str, Any], Some]
    seeds: Count = 10
    title: Word = PAPER  # of the page


def title(path: str | Path | None) -> str:
    """The page's title: that of the file, or its name where it has none."""
    if path is None:
        return PAPER
    table = schema.read(Path(path))
    return str(table.get("title", Path(path).stem))


def load(path: str | Path | None = None) -> dict[str, Experiment]:
    """The experiments of a TOML file; the paper's by default."""
    if path is None:
        with resources.as_file(resources.files("mvrc.experiments") / "paper.toml") as file:
            return load(file)
    file = Path(path)
    whole = schema.fit(File, schema.read(file), file)
    names: dict[str, dict[str, Any]] = {"methods": {}, "experiments": {}}
    for name, table in whole.methods.items():
        names["methods"][name] = _method(file, name, table)
    names["experiments"] = {name: name for name in whole.experiments}
    return {
        name: _experiment(file, name, table, whole.seeds, names)
        for name, table in whole.experiments.items()
    }


def choose(experiments: dict[str, Experiment], only: str | None) -> dict[str, Experiment]:
    """Those named in "a,b", or all."""
    if only is None:
        return experiments
    names = [name.strip() for name in only.split(",") if name.strip()]
    if not names:
        raise ValueError(f"only is empty; it may name {', '.join(experiments)}.")
    for name in names:
        checks.choice("only", name, experiments)
    return {
        name: dataclasses.replace(experiments[name], instead_of=(), besides=()) for name in names
    }


def quick(experiment: Experiment) -> Experiment:
    """A short version: a third of the epochs, at most three seeds, every other step size."""
    tuning = experiment.tuning
    if tuning is not None:
        tuning = dataclasses.replace(tuning, spacing=1.0, passes=tuning.passes // 2, seeds=1)
    return dataclasses.replace(
        experiment,
        epochs=max(3, experiment.epochs // 3),
        seeds=min(3, experiment.seeds),
        tuning=tuning,
    )


def _method(file: Path, name: str, table: Any) -> MethodSpec:
    at = ("methods", name)
    spec = schema.fit(MethodSpec, table, file, *at, id=name)
    where = f"{file}: {schema.dotted(at)}"
    if spec.momentum is not None and spec.recipe != "mvrc":
        raise ValueError(
            f"{where}.momentum is for recipe = 'mvrc' only, not {spec.recipe!r}; leave it out."
        )
    if spec.step_factor != 1 and spec.recipe in OWN_STEP:
        raise ValueError(
            f"{where}.step_factor multiplies the step_size of an experiment, but recipe = "
            f"{spec.recipe!r} has its own; leave it out."
        )
    return spec


def _experiment(
    file: Path, name: str, table: Any, seeds: int, names: dict[str, dict[str, Any]]
) -> Experiment:
    at = ("experiments", name)
    where = f"{file}: {schema.dotted(at)}"
    if isinstance(table, dict):
        table = {"seeds": seeds, **table}
    spec = schema.fit(Experiment, table, file, *at, names=names, id=name, where=where)
    if not spec.data and not sources.is_own(spec.problem):
        raise ValueError(f"{where}.data is empty and needs at least one entry.")
    known = sources.OF_PROBLEM.get(spec.problem, sources.KNOWN)
    for i, source in enumerate(spec.data):
        if not sources.is_file(source):
            checks.choice(f"{where}.data[{i}]", source, known)
    tuning = spec.tuning
    if tuning is not None and tuning.highest < tuning.lowest:
        raise ValueError(
            f"{where}.tuning.highest must be at least lowest, {tuning.lowest}, not "
            f"{tuning.highest}."
        )
    if tuning is not None and tuning.spacing < FINEST:
        raise ValueError(f"{where}.tuning.spacing must be at least {FINEST}, not {tuning.spacing}.")
    run = (*spec.methods, *spec.controls, *(tuning.methods if tuning is not None else ()))
    if spec.asc_pg is None and any(m.recipe == "asc-pg" for m in run):
        raise ValueError(
            f"{where} runs ASC-PG and needs asc_pg = {{ step_size = …, average = … }}."
        )
    return spec
