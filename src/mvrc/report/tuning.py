"""Every method at its own best step size: passes to relative gaps."""

from __future__ import annotations

import dataclasses
import math

from mvrc.report.summary import Column, Curve

LEVELS = (1e-2, 1e-4, 1e-6)


@dataclasses.dataclass(frozen=True)
class Row:
    """A method at the step size that reaches the smallest level first."""

    method: str
    label: str
    step_size: float
    at_edge: bool  # whether that step is the smallest or largest that was tried
    passes: dict[float, float]  # level: samples / n, ∞ when never reached
    diverged: int  # step sizes at which a seed diverged


def best_steps(column: Column) -> list[Row]:
    """One row a method, the fastest first."""
    rows = [_row(column, curves) for curves in column.tuned.values()]
    return sorted(rows, key=lambda row: [row.passes[level] for level in reversed(LEVELS)])


def _row(column: Column, curves: list[Curve]) -> Row:
    def passes(curve: Curve) -> dict[float, float]:
        return {level: curve.samples_to("gap", level) / column.n for level in LEVELS}

    def rank(curve: Curve) -> list[float]:
        made = passes(curve)
        last = float(curve.median("gap")[-1])
        return [*(made[level] for level in reversed(LEVELS)), last if last == last else math.inf]

    best = min(curves, key=rank)
    return Row(
        method=best.method,
        label=best.label,
        step_size=best.step_size,
        at_edge=best in (curves[0], curves[-1]),
        passes=passes(best),
        diverged=sum("DIVERGED" in curve.statuses for curve in curves),
    )
