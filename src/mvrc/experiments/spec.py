"""Experiments as data: what paper.toml says, checked."""

from __future__ import annotations

import dataclasses
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from mvrc import checks


@dataclasses.dataclass(frozen=True)
class MethodSpec:
    """A method under the name that the paper's figure gives it."""

    id: str
    label: str
    recipe: str  # a name of mvrc.METHODS, or "auto"
    momentum: float | str | None = None  # of MVRC: α, or "diminishing-restart"
    step_factor: float = 1.0  # times η; of a control another than 1

    @property
    def draws(self) -> bool:
        """Whether seeds make a difference."""
        return self.recipe not in ("fista", "auto", "proximal-gradient")


@dataclasses.dataclass(frozen=True)
class Tuning:
    """Every method at its best 2^k/L, k = lowest, lowest + ½, …, highest."""

    methods: tuple[MethodSpec, ...]
    lowest: int
    highest: int
    passes: int  # samples of a run, in passes over the data
    seeds: int  # by which the step is chosen
    beside: tuple[MethodSpec, ...] = ()  # methods without a step to choose
    spacing: float = 0.5  # of k

    def powers(self) -> list[float]:
        """The first grid."""
        count = round((self.highest - self.lowest) / self.spacing)
        return [self.lowest + self.spacing * i for i in range(count + 1)]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One column of the figure."""

    id: str
    title: str
    data: tuple[str, ...]  # sources, tried in order
    problem: str
    methods: tuple[MethodSpec, ...]
    step_size: float
    batch_size: int
    period: int | str
    epochs: int
    seeds: int
    asc_pg: dict[str, float] = dataclasses.field(default_factory=dict)  # its own α₁ and β₁
    outer_batch_size: int | None = None
    tuning: Tuning | None = None
    together: bool = True  # all seeds in one vmapped program, else one after the other
    instead_of: tuple[str, ...] = ()  # run only where one of these has no real data
    besides: tuple[str, ...] = ()  # run only where one of these has real data
    controls: tuple[MethodSpec, ...] = ()  # methods at another step

    def steps(self, n: int) -> int:
        """The period τ."""
        return -(-n // self.batch_size) if self.period == "pass" else int(self.period)


def load(path: str | Path | None = None) -> dict[str, Experiment]:
    """The experiments of a TOML file; the paper's by default."""
    text = (
        (resources.files("mvrc.experiments") / "paper.toml").read_text("utf-8")
        if path is None
        else Path(path).read_text("utf-8")
    )
    table = tomllib.loads(text)
    methods = {
        name: MethodSpec(name, **fields) for name, fields in table.get("methods", {}).items()
    }
    return {
        name: _experiment(name, fields, methods, table.get("seeds", 10))
        for name, fields in table.get("experiments", {}).items()
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


def _experiment(
    name: str, fields: dict[str, Any], methods: dict[str, MethodSpec], seeds: int
) -> Experiment:
    known = {field.name for field in dataclasses.fields(Experiment)}
    for word in fields:
        if word not in known:
            raise ValueError(
                f"experiment {name!r} has no field {word!r}{checks.nearest(word, known)}; its "
                f"fields are {', '.join(sorted(known))}."
            )

    def chosen(names: list[str]) -> tuple[MethodSpec, ...]:
        return tuple(methods[checks.choice(f"methods of {name}", m, methods)] for m in names)

    methods_of = chosen(fields["methods"])
    if any(m.recipe == "asc-pg" for m in methods_of) and not fields.get("asc_pg"):
        raise ValueError(
            f"experiment {name!r} runs ASC-PG and needs asc_pg = {{ step_size = …, average = … }}."
        )
    tuning = fields.get("tuning")
    if tuning is not None:
        named = {word: chosen(tuning.get(word, [])) for word in ("methods", "beside")}
        tuning = Tuning(**tuning | named)
    listed = {word: tuple(fields.get(word, ())) for word in ("data", "instead_of", "besides")}
    own = {"methods": methods_of, "tuning": tuning, "controls": chosen(fields.get("controls", []))}
    return Experiment(id=name, **{"seeds": seeds, **fields, **listed, **own})
