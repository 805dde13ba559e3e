"""Saved runs as curves and numbers: medians and quartiles over the seeds."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

METRICS = {
    "gap": "relative function value gap",
    "gradient_mapping": "norm of the gradient mapping",
}
FLOOR = 1e-16  # gaps below are rounding


class Spread(NamedTuple):
    """Quartiles over the seeds, none of them interpolated, as ∞ − ∞ is none; the median is."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> Spread:
        low = np.quantile(values, 0.25, method="lower")
        high = np.quantile(values, 0.75, method="higher")
        return cls(float(low), float(np.median(values)), float(high))

    def text(self, digits: str = ".3g") -> str:
        """'2.06 (2.05–2.07)'; one number where all seeds agree."""
        low, median, high = (format(value, digits) for value in self)
        return median if low == high else f"{median} ({low}–{high})"


@dataclasses.dataclass(frozen=True)
class Tuned:
    """A method at its best step, or one that has none to choose."""

    curve: Curve
    tried: list[dict[str, Any]]  # of the search, in the order of the steps


@dataclasses.dataclass(frozen=True)
class Curve:
    """One method on one experiment."""

    method: str
    label: str
    step_size: float
    samples: np.ndarray  # evaluations of g so far
    seconds: np.ndarray  # of one seed
    values: dict[str, np.ndarray]  # metric: seeds × rows
    statuses: tuple[str, ...]
    control: bool = False  # at another step than the experiment's

    def median(self, metric: str) -> np.ndarray:
        return np.median(_diverged_is_worst(self.values[metric]), axis=0)

    def quartiles(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        values = _diverged_is_worst(self.values[metric])
        low = np.quantile(values, 0.25, axis=0, method="lower")
        return low, np.quantile(values, 0.75, axis=0, method="higher")

    def row(self, samples: float) -> int:
        """The last row after at most so many samples."""
        return int(np.flatnonzero(self.samples <= samples * (1 + 1e-9))[-1])

    def at(self, metric: str, samples: float) -> Spread:
        """The value after so many samples."""
        return Spread.of(_diverged_is_worst(self.values[metric])[:, self.row(samples)])

    def samples_to(self, metric: str, level: float) -> np.ndarray:
        """For each seed, samples until it is at most `level`; ∞ when it never is."""
        reached = _diverged_is_worst(self.values[metric]) <= level
        first = self.samples[reached.argmax(axis=1)]
        return np.where(reached.any(axis=1), first, np.inf)


@dataclasses.dataclass(frozen=True)
class Column:
    """One experiment: a column of the figure."""

    id: str
    title: str
    data: str
    data_title: str
    size: str
    n: int
    real: bool
    best: float
    exact: bool
    smoothness: float  # L
    curves: tuple[Curve, ...]
    controls: tuple[Curve, ...]  # methods at another step
    tuned: list[Tuned]
    parameters: dict[str, Any]

    @property
    def kind(self) -> str:
        """Which data these are."""
        return "real data" if self.real else "simulated data"

    def curve(self, method: str) -> Curve:
        return next(c for c in (*self.curves, *self.controls) if c.method == method)

    @property
    def budget(self) -> float:
        """Samples that every method has made."""
        return min(float(curve.samples[-1]) for curve in self.curves)


def columns(records: list[dict[str, Any]]) -> list[Column]:
    """The experiments of saved runs, in their order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        found.setdefault(record["experiment"], []).append(record)
    return [_column(runs) for runs in found.values()]


def _column(runs: list[dict[str, Any]]) -> Column:
    first = runs[0]
    best = first["best"]
    if not first["exact"]:  # the lowest value that any run met
        lowest = (v for run in runs for seed in run["rows"]["objective"] for v in seed)
        best = min([best, *(v for v in lowest if v is not None)])
    plain = [run for run in runs if not run["tuned"]]
    named = ("batch_size", "outer_batch_size", "period", "epochs", "step_size", "asc_pg", "seeds")
    return Column(
        id=first["experiment"], title=first["title"], data=first["data"],
        data_title=first["data_title"], size=first["size"], n=first["n"], real=first["real"],
        best=best, exact=first["exact"], smoothness=first["smoothness"],
        curves=tuple(_curve(r, best) for r in plain if not r["control"]),
        controls=tuple(_curve(r, best) for r in plain if r["control"]),
        tuned=[Tuned(_curve(run, best), run["tried"]) for run in runs if run["tuned"]],
        parameters={name: first["described"][name] for name in named},
    )  # fmt: skip


def _curve(run: dict[str, Any], best: float) -> Curve:
    rows = run["rows"]
    objective = np.array(rows["objective"], float)
    gap = np.maximum((objective - best) / abs(best), FLOOR)
    return Curve(
        method=run["method"],
        label=run["label"],
        step_size=run["step_size"],
        samples=np.array(rows["inner_values"], float),
        seconds=np.array(rows["seconds"], float),
        values={"gap": gap, "gradient_mapping": np.array(rows["gradient_mapping"], float)},
        statuses=tuple(run["status"]),
        control=run["control"],
    )


def _diverged_is_worst(values: np.ndarray) -> np.ndarray:
    """A seed without a number has diverged: worse than any."""
    return np.where(np.isnan(values), np.inf, values)
