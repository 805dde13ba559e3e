"""Every method at its own best step size: passes to relative gaps."""

from __future__ import annotations

import dataclasses
import math

from mvrc.experiments.tuning import LEVELS
from mvrc.report.summary import Column, Spread, Tuned


@dataclasses.dataclass(frozen=True)
class Row:
    """A method at the step size that reaches the smallest level first."""

    method: str
    label: str
    step_size: float | None  # None: it has none to choose
    at_edge: bool  # whether that step is the smallest or largest that was tried
    passes: dict[float, Spread]  # level: samples / n over the seeds, ∞ when never reached
    tried: int  # step sizes
    diverged: int  # of them, those at which a seed diverged


def best_steps(column: Column) -> list[Row]:
    """One row per method, the fastest first."""
    rows = [_row(column, tuned) for tuned in column.tuned]
    return sorted(rows, key=lambda row: [row.passes[level].median for level in reversed(LEVELS)])


def _row(column: Column, tuned: Tuned) -> Row:
    curve, tried = tuned.curve, tuned.tried
    steps = [2.0 ** one["power"] for one in tried]
    own = curve.step_size * column.smoothness if tried else 0.0
    return Row(
        method=curve.method,
        label=curve.label,
        step_size=curve.step_size if tried else None,
        at_edge=bool(tried) and not min(steps) * 1.01 < own < max(steps) * 0.99,
        passes={level: Spread.of(curve.samples_to("gap", level) / column.n) for level in LEVELS},
        tried=len(tried),
        diverged=sum(one["diverged"] > 0 for one in tried),
    )


def passes(value: Spread) -> str:
    """A number of passes with its quartiles, or a dash for never."""
    if math.isinf(value.median):
        return "–" if math.isinf(value.low) else f"– ({value.low:.0f}–)"
    if math.isinf(value.high):
        return f"{value.median:.0f} ({value.low:.0f}–)"
    return value.text(".0f")
