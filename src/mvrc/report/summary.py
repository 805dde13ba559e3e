"""Saved runs as curves and numbers: medians and quartiles over the seeds."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

METRICS = {
    "gap": "relative function value gap",
    "gradient_mapping": "norm of the gradient mapping",
}
FLOOR = 1e-16  # gaps below are rounding


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

    def median(self, metric: str) -> np.ndarray:
        return np.median(_diverged_is_worst(self.values[metric]), axis=0)

    def quartiles(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        values = _diverged_is_worst(self.values[metric])  # no interpolation, as ∞ − ∞ is none
        low = np.quantile(values, 0.25, axis=0, method="lower")
        return low, np.quantile(values, 0.75, axis=0, method="higher")

    def at(self, metric: str, samples: float) -> float:
        """The median after so many samples."""
        made = np.flatnonzero(self.samples <= samples * (1 + 1e-9))
        return float(self.median(metric)[made[-1]])

    def samples_to(self, metric: str, level: float) -> float:
        """Samples until the median is at most `level`; ∞ when it never is."""
        reached = np.flatnonzero(self.median(metric) <= level)
        return float(self.samples[reached[0]]) if len(reached) else np.inf


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
    curves: tuple[Curve, ...]
    tuned: dict[str, list[Curve]]  # method: one curve a step size
    parameters: dict[str, Any]

    def curve(self, method: str) -> Curve:
        return next(curve for curve in self.curves if curve.method == method)

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
    tuned: dict[str, list[Curve]] = {}
    for run in runs:
        if run["power"] is not None:
            tuned.setdefault(run["method"], []).append(_curve(run, best))
    named = ("batch_size", "outer_batch_size", "period", "epochs", "step_size", "asc_pg", "seeds")
    return Column(
        id=first["experiment"], title=first["title"], data=first["data"],
        data_title=first["data_title"], size=first["size"], n=first["n"], real=first["real"],
        best=best, exact=first["exact"],
        curves=tuple(_curve(run, best) for run in runs if run["power"] is None),
        tuned=tuned,
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
    )


def _diverged_is_worst(values: np.ndarray) -> np.ndarray:
    """A seed without a number has diverged: worse than any."""
    return np.where(np.isnan(values), np.inf, values)
