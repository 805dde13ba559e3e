"""The theory, measured: Table 1, exponents and the other tables from the runs of Table 1."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from mvrc.experiments.complexity.fit import NONE, Estimate, exponent, jackknife
from mvrc.report.claims import Table

LABELS = {
    "mvrc-constant": "MVRC, α = 0.8", "mvrc-diminishing": "MVRC, αₜ = 2/(t+1)", "civr": "CIVR",
    "c-saga": "C-SAGA", "vrsc-pg": "VRSC-PG", "sarah-c": "SARAH-Compositional",
    "nested-spider": "Nested-SPIDER", "spider-admm": "SPIDER+ADMM", "asc-pg": "ASC-PG",
    "gradient": "Gradient descent", "minibatch": "Minibatch gradient descent",
    "katyusha": "Katyusha",
}  # fmt: skip

Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Series:
    """One method of one sweep."""

    record: Record

    @property
    def id(self) -> str:
        return str(self.record["id"])

    @property
    def method(self) -> str:
        return str(self.record["method"])

    @property
    def label(self) -> str:
        return LABELS[self.method]

    @property
    def x(self) -> np.ndarray:
        """n, N, v or 1/ε."""
        at = np.array([point["at"] for point in self.record["points"]])
        return 1 / at if self.record["spec"]["along"] == "epsilon" else at

    @property
    def samples(self) -> np.ndarray:
        """Points × (mean of all seeds, then without one of them)."""
        rows = [point["samples"] for point in self.record["points"]]
        return np.array([[math.inf if v is None else v for v in row] for row in rows])

    def exponent(self, low: float = 0.0, high: float = math.inf) -> Estimate:
        """Of the samples in x, between two values of x."""
        inside = (self.x >= low * (1 - 1e-9)) & (self.x <= high * (1 + 1e-9))
        return exponent(self.x[inside], self.samples[inside])


def series(records: list[Record]) -> dict[tuple[str, str], Series]:
    """By sweep and method."""
    return {(r["id"], r["method"]): Series(r) for r in records if r["kind"] == "sweeps"}


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the paper's Table 1; sweeps by column, "" for none."""

    problem: str
    label: str
    assumption: str
    complexity: str
    methods: tuple[str, ...] = ()
    n: str = ""
    N: str = ""
    epsilon: str = ""
    remark: str = ""


_CONVEX, _DOMINANT = "r convex", "F v-dominant"
_SUM2 = {"n": "sum2-n", "N": "sum2-N", "epsilon": "sum2-epsilon"}
_SUM1 = {"n": "sum1-n", "epsilon": "sum1-epsilon-flatter"}
_MVRC = ("mvrc-constant", "mvrc-diminishing")
_HALF_A_DECADE = "not observable: 10⁸ samples are half a decade of ε"
TABLE_1 = (
    Row("E¹", "CIVR", _CONVEX, "ε⁻³", ("civr",), epsilon="online1-epsilon"),
    Row("E¹", "MVRC", _CONVEX, "ε⁻³", _MVRC, epsilon="online1-epsilon"),
    Row("E¹", "CIVR", _DOMINANT, "v ε⁻¹ log ε⁻¹", ("civr",), epsilon="dominance-online"),
    Row("E¹", "MVRC", _DOMINANT, "v ε⁻¹ log ε⁻¹", _MVRC, epsilon="dominance-online"),
    Row("Σ¹", "C-SAGA", _CONVEX, "n + n^⅔ ε⁻²", ("c-saga",), **_SUM1),
    Row("Σ¹", "CIVR", _CONVEX, "n + √n ε⁻²", ("civr",), **_SUM1),
    Row("Σ¹", "MVRC", _CONVEX, "n + √n ε⁻²", _MVRC, **_SUM1),
    Row("Σ¹", "C-SAGA", _DOMINANT, "(n + κ n^⅔) log ε⁻¹", ("c-saga",), remark="dominance"),
    Row("Σ¹", "CIVR", _DOMINANT, "(n + v√n) log ε⁻¹", ("civr",), remark="dominance"),
    Row("Σ¹", "MVRC", _DOMINANT, "(n + v√n) log ε⁻¹", _MVRC, remark="dominance"),
    Row("E²", "SCGD", "r ≡ 0", "ε⁻⁸", remark=_HALF_A_DECADE),
    Row("E²", "ASCGD", "r ≡ 0", "ε⁻⁷", remark=_HALF_A_DECADE),
    Row("E²", "ASC-PG", "r ≡ 0", "ε⁻⁴·⁵", ("asc-pg",), epsilon="online2-single"),
    Row("E²", "SARAH-Compositional", "r ≡ 0", "ε⁻³", ("sarah-c",), epsilon="online2-epsilon"),
    Row("E²", "Nested-SPIDER", _CONVEX, "ε⁻³", ("nested-spider",), epsilon="online2-epsilon"),
    Row("E²", "SPIDER+ADMM", _CONVEX, "ε⁻³", ("spider-admm",), epsilon="online2-epsilon"),
    Row("E²", "MVRC", _CONVEX, "ε⁻³", ("mvrc-constant",), epsilon="online2-epsilon"),
    Row("Σ²", "VRSC-PG", _CONVEX, "N + n + (N+n)^⅔ ε⁻²", ("vrsc-pg",), **_SUM2),
    Row("Σ²", "C-SAGA", _CONVEX, "N + n + (N+n)^⅔ ε⁻²", ("c-saga",), **_SUM2),
    Row("Σ²", "SARAH-Compositional", "r ≡ 0", "N + n + √(N+n) ε⁻²", ("sarah-c",), **_SUM2),
    Row("Σ²", "Nested-SPIDER", _CONVEX, "N + n + √max(N,n) ε⁻²", ("nested-spider",), **_SUM2),
    Row("Σ²", "SPIDER+ADMM", _CONVEX, "N + n + √(N+n) ε⁻²", ("spider-admm",), **_SUM2),
    Row("Σ²", "MVRC", _CONVEX, "N + n + √max(N,n) ε⁻²", ("mvrc-constant",), **_SUM2),
)


def table_1(records: list[Record]) -> Table:
    """The paper's Table 1 with the measured exponents of n, N, 1/ε and v, and the factors."""
    found = series(records)
    heads = ("problem", "algorithm", "assumption", "Table 1", "in n", "in N", "in 1/ε",
             "in v: v < √n, v > 4√n", "factor")  # fmt: skip
    rows: list[tuple[str, ...]] = [heads]
    for row in TABLE_1:
        cells = [_cell(found, row, name) for name in (row.n, row.N, row.epsilon)]
        v = _in_v(found, row) if row.remark == "dominance" else ""
        note = row.remark if row.remark == _HALF_A_DECADE else _factors(found, row)
        rows.append((row.problem, row.label, row.assumption, row.complexity, *cells, v, note))
    return tuple(rows)


def _cell(found: dict[tuple[str, str], Series], row: Row, sweep: str) -> str:
    if not sweep:
        return ""
    texts = []
    for method in row.methods:
        one = found.get((sweep, method))
        texts.append("not run" if one is None else one.exponent().text())
    return "; ".join(texts)


def _in_v(found: dict[tuple[str, str], Series], row: Row) -> str:
    texts = []
    for method in row.methods:
        one = found.get(("dominance", method))
        if one is None:
            texts.append("not run")
            continue
        root = math.sqrt(one.record["spec"]["problem"]["n"])
        below, above = one.exponent(high=root), one.exponent(low=4 * root)
        texts.append(f"{below.text()}, {above.text()}")
    return "; ".join(texts)


def _factors(found: dict[tuple[str, str], Series], row: Row) -> str:
    sweep = row.n or row.epsilon or row.remark
    made = [found.get((sweep, method)) for method in row.methods]
    return "; ".join(f"2^{one.record['power']}" for one in made if one is not None)


def exponents(records: list[Record]) -> list[tuple[str, str, str, Table]]:
    """For every sweep: id, title, prediction, and a row for each method."""
    tables = []
    for name in dict.fromkeys(r["id"] for r in records if r["kind"] == "sweeps"):
        own = [Series(r) for r in records if r["id"] == name]
        spec = own[0].record["spec"]
        x = [f"{point['at']:g}" for point in own[0].record["points"]]
        rows: list[tuple[str, ...]] = [("", "exponent", *(f"{spec['along']} = {v}" for v in x))]
        for one in own:
            cells = [_samples(point) for point in one.record["points"]]
            rows.append((one.label, one.exponent().text(), *cells))
        tables.append((name, spec["title"], spec["predicted"], tuple(rows)))
    return tables


def _samples(point: Record) -> str:
    """Samples to the goal, and what was chosen there."""
    first = point["samples"][0]
    text = "–" if first is None else f"{first:.3g}"
    if "batch" in point:
        text += f" (S {point['batch']}, τ {point['period']}, 2^{point['power']})"
    if "straight" in point:
        text += f" (R² {point['straight'][0]:.3f})"
    return text


def guarantees(records: list[Record]) -> Table:
    """Bound beside measurement, a row for each theorem and class."""
    rows: list[tuple[str, ...]] = [
        ("", "ε", "steps", "quantity", "measured", "bound", "bound / measured", "start", "")
    ]
    for r in (r for r in records if r["kind"] == "guarantees"):
        loose = "> 10¹²" if r["loose"] > 1e12 else f"{r['loose']:.2g}"
        word = "vacuous" if r["vacuous"] else ""
        measured = f"{r['measured']:.2g} ± {r['half']:.1g}"
        rows.append(
            (r["spec"]["title"], f"{r['epsilon']:g}", f"{r['steps']:,}", r["quantity"], measured,
             f"{r['bound']:.2g}", loose, f"{r['start']:.2g}", word)
        )  # fmt: skip
    return tuple(rows)


def proxes(records: list[Record]) -> list[tuple[str, str, Table]]:
    """For every regulariser: id, title, and number of prox and seconds of each method."""
    tables = []
    for r in (r for r in records if r["kind"] == "proxes"):
        rows: list[tuple[str, ...]] = [("", "prox", "seconds", "samples of g", "step")]
        for p in r["points"]:
            cells = [_spread([run[k] for run in p["runs"]]) for k in ("prox", "seconds", "samples")]
            rows.append((LABELS[p["method"]], *cells, f"{p['step']:.3g}"))
        tables.append((r["id"], r["spec"]["title"], tuple(rows)))
    return tables


def _spread(values: list[Any]) -> str:
    if any(v is None for v in values):
        return "–"
    low, middle, high = min(values), float(np.median(values)), max(values)
    return f"{middle:.3g}" if low == high else f"{middle:.3g} ({low:.3g}–{high:.3g})"


def momenta(records: list[Record]) -> list[tuple[str, str, Table]]:
    """For every problem: id, title, and samples against α."""
    tables = []
    for r in (r for r in records if r["kind"] == "momenta"):
        rows: list[tuple[str, ...]] = [
            ("α", f"samples at λ = {r['equal']:g}", "best λ", "samples at the best λ")
        ]
        for p in r["points"]:
            cells = [mean_text(p["equal"]), f"{p['best']:.3g}", mean_text(p["samples"])]
            rows.append((f"{p['at']:g}", *cells))
        tables.append((r["id"], r["spec"]["title"], tuple(rows)))
    return tables


def mean_text(values: list[Any]) -> str:
    """With its interval."""
    found = estimate(values)
    return "–" if math.isnan(found.value) else f"{found.value:,.0f} ± {found.half:,.0f}"


def estimate(values: list[Any]) -> Estimate:
    """Of the mean of all seeds and the means without one."""
    if any(v is None for v in values):
        return NONE
    return jackknife(np.array(values))
