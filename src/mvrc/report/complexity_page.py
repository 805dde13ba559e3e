"""The part of the page on the theory: tables, and the panels as plotly draws them."""

from __future__ import annotations

import html
import math
from typing import Any, NamedTuple

import numpy as np

from mvrc.report import complexity, figures
from mvrc.report.claims import Table
from mvrc.report.complexity import Record, Series

STYLED = {  # the page's styles for the methods that Figure 1 does not have, too
    "mvrc-constant": "mvrc-constant", "mvrc-diminishing": "mvrc-decay-restart", "civr": "civr",
    "vrsc-pg": "vrsc-pg", "c-saga": "katyusha", "nested-spider": "civr", "sarah-c": "asc-pg",
    "spider-admm": "fista", "asc-pg": "asc-pg", "gradient": "auto", "minibatch": "auto",
}  # fmt: skip
AXES = {"n": "n", "N": "N", "epsilon": "1/ε", "v": "v"}


class Panel(NamedTuple):
    """A sweep as a log–log plot."""

    id: str
    title: str
    axis: str
    lines: list[Series]
    slope: float  # of the theory, drawn through the first method's middle
    word: str  # what it is


_SLOPES = {  # of the theory, and its name
    "sum1-n": (0.5, "√n"), "sum1-n-gradient": (1.0, "n"), "sum1-n-loose": (1.0, "n"),
    "sum1-n-best": (0.5, "√n"), "sum1-n-best-quiet": (0.5, "√n"),
    "sum1-epsilon": (1.5, "ε⁻¹·⁵"), "sum1-epsilon-flatter": (2.1 / 1.1, "ε⁻¹·⁹¹"),
    "sum1-gap": (3.0, "ε⁻³"), "online1-epsilon": (3.0, "ε⁻³"), "sum2-n": (0.5, "√n"),
    "sum2-N": (0.5, "√N"), "sum2-epsilon": (2.1 / 1.1, "ε⁻¹·⁹¹"), "online2-epsilon": (3.0, "ε⁻³"),
    "online2-single": (4.5, "ε⁻⁴·⁵"), "dominance": (1.0, "v"), "dominance-online": (1.0, "ε⁻¹"),
}  # fmt: skip


def panels(records: list[Record]) -> list[Panel]:
    """One for each sweep."""
    made = []
    for name, title, _, _ in complexity.exponents(records):
        lines = [Series(r) for r in records if r["id"] == name]
        slope, word = _SLOPES.get(name, (1.0, "1"))
        axis = AXES[lines[0].record["spec"]["along"]]
        made.append(Panel(name, title, axis, lines, slope, word))
    return made


def guide(panel: Panel) -> tuple[np.ndarray, np.ndarray]:
    """The theory's slope, through the last point of the first line."""
    x, y = panel.lines[0].x, panel.lines[0].samples[:, 0]
    order = np.argsort(x)
    ends = x[order][[0, -1]]
    finite = [i for i in order if math.isfinite(y[i])]
    if not finite:
        return ends, np.array([math.nan, math.nan])
    last = finite[-1]
    return ends, y[last] * (ends / x[last]) ** panel.slope * 1.3


def data(records: list[Record]) -> list[dict[str, Any]]:
    """What the page's script draws."""
    made = []
    for panel in panels(records):
        ends, theory = guide(panel)
        curves = [
            {"label": one.label, "colour": _style(one).colour, "symbol": _style(one).symbol,
             "dash": [4 * part for part in _style(one).dash],
             "x": _list(one.x), "y": _list(one.samples[:, 0])}
            for one in panel.lines
        ]  # fmt: skip
        guided = {"label": f"theory: {panel.word}", "x": _list(ends), "y": _list(theory)}
        made.append({"id": panel.id, "axis": panel.axis, "curves": curves, "guide": guided})
    return made


def _style(one: Series) -> figures.Style:
    return figures.style(STYLED[one.method])


def _list(values: np.ndarray) -> list[float | None]:
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in values]


def section(records: list[Record], own: bool, expected: int | None) -> str:
    """The HTML of the section; `own`: whether the runs are of this folder."""
    if not records:
        return "<p class='note'>No runs: <code>mvrc reproduce --only complexity</code>.</p>"
    parts = [f'<p class="note">{_source(records, own, expected)}</p>', _TEXT]
    parts.append(f'<h3>Table 1 of the paper, measured</h3><p class="note">{_TABLE}</p>')
    parts.append(_table(complexity.table_1(records)))
    plots = "".join(
        f'<figure><figcaption>{html.escape(p.title)}</figcaption>'
        f'<div class="theory-plot" id="complexity-{html.escape(p.id)}" role="img" '
        f'aria-label="{html.escape(p.title)}"></div></figure>'
        for p in panels(records)
    )  # fmt: skip
    parts.append(f'<div class="grid">{plots}</div>')
    for name, title, predicted, table in complexity.exponents(records):
        parts.append(_titled(title, name, f"Predicted exponent: {predicted}.", table))
    rows = complexity.guarantees(records)
    if len(rows) > 1:
        parts.append(f'<h3>Guarantees</h3><p class="note">{_GUARANTEES}</p>{_table(rows)}')
    for name, title, table in complexity.proxes(records):
        parts.append(_titled(f"One prox or two: {title}", name, _PROXES, table))
    for name, title, table in complexity.momenta(records):
        parts.append(_titled(f"Momentum or step: {title}", name, _MOMENTA, table))
    return "\n".join(parts)


def _source(records: list[Record], own: bool, expected: int | None) -> str:
    made = records[0]["made_with"]
    cpu = sum(r["cpu_seconds"] for r in records)
    words = f"{len(records)} runs, {cpu / 60:.0f} minutes of one processor"
    if own:
        missing = (expected or 0) - len(records)
        left = f", {missing} left" if missing > 0 else ""
        return f"Run here: {words}{left}."
    return (
        html.escape(
            f"These runs come with the library ({words}; mvrc {made['mvrc']}, jax {made['jax']}, "
            f"{made['machine']}) and were not repeated for this page: "
        )
        + "<code>mvrc reproduce --only complexity</code> repeats them, <code>--quick</code> a part."
    )


def _titled(title: str, name: str, text: str, table: Table) -> str:
    command = f"<code>mvrc reproduce --only {html.escape(name)}</code>"
    return (
        f"<h4>{html.escape(title)}</h4>"
        f'<p class="note">{html.escape(text)} {command}</p>{_table(table)}'
    )


def _table(table: Table) -> str:
    heads, *rows = (tuple(html.escape(cell) for cell in row) for row in table)
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{whole}</div>'


_TEXT = """<p class="note">The problems have known constants, and their exact gradient mapping
is known in closed form whatever n, N and noise are: a flat nonconvex valley beside a wall of
curvature 1, or a gradient-dominant F with known v. Samples are evaluations of g; on two levels
of g, g' and ∇f together. An exponent is the slope of log samples; the interval is that of the
seeds (jackknife, 95 %).</p>"""
_TABLE = """Every method has its theory's batches and period; its step is theory's times one
factor 2<sup>k</sup> for all points of a sweep, chosen with separate seeds. In n and N: to a
fixed ‖𝒢‖, where T ≫ √n, so that ½ and ⅔ are what batches and period imply as long as the number
of steps does not grow. In 1/ε: on the valley with a = 0.1, where gradient descent has
(a+2)/(a+1) = 1.91, and online 1 more; where F is gradient dominant the goal is E F − F* ≤ ε. A
worst-case exponent is one that no problem exceeds, not one that every problem shows. Of two
numbers apart by “;” the first is α = 0.8, the second αₜ = 2/(t+1)."""
_GUARANTEES = """<code>from_theory</code> parameters, as many steps as the theorem asks for; the
mean over ζ is taken over the whole path. A bound above the value at x₀ says nothing: vacuous.
<code>mvrc reproduce --only complexity</code>"""
_PROXES = (
    "Number of prox and seconds to the same relative gap, each method at its best step of a factor "
    "of two; median and range of the seeds. Seconds are without compilation."
)
_MOMENTA = (
    "β = λ/(1 + α). At α = 1 the query point is x, and there is no momentum; at α = 0 the scheme "
    "is gradient descent, too."
)
