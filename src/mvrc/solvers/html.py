"""A result as HTML for notebooks: status, numbers, a curve as inline SVG, what was chosen."""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np

WIDTH, HEIGHT = 280, 84  # of the curve, in pixels
POINTS = 400  # of the curve at most
GOOD, LIMIT, BAD = "#2e7d32", "#b26a00", "#c62828"


def of_result(result: Any) -> str:
    """No script, no style sheet, colours for light and dark; all words are escaped."""
    name = result.status.name
    colour = GOOD if result.success else BAD if name in ("DIVERGED", "UNBOUNDED") else LIMIT
    rows = {
        "objective": f"{result.objective:.8g}",
        "gradient mapping": f"{result.gradient_mapping:.3g}",
        "epochs": f"{result.epochs:,}",
        "samples of g": f"{result.counts.inner_values:,}",
        "seconds": f"{result.wall_seconds:.3g}",
        "x": _shape(result.x),
    }
    cells = "".join(
        f'<tr><td style="text-align:left;opacity:.7">{html.escape(word)}</td>'
        f'<td style="text-align:left">{html.escape(value)}</td></tr>'
        for word, value in rows.items()
    )
    why = html.escape(result.explain()).replace("\n", "<br>")
    return (
        f'<div style="font-family:sans-serif;font-size:13px">'
        f'<div><b style="color:{colour}">{name}</b> {html.escape(result.message)}</div>'
        f'<div style="display:flex;flex-wrap:wrap;gap:24px;align-items:center;margin:6px 0">'
        f'<table style="margin:0">{cells}</table>{curve(result.history)}</div>'
        f"<details><summary>What was chosen, and why</summary>{why}</details></div>"
    )


def curve(history: Any) -> str:
    """The finite objectives over the samples; on a log scale above the last where that is wide."""
    if len(history) < 2:
        return ""
    samples, objective = history["inner_values"].astype(float), history["objective"]
    finite = np.isfinite(objective)
    samples, objective = samples[finite], objective[finite]
    if len(objective) < 2:
        return ""
    kept = np.unique(np.linspace(0, len(objective) - 1, POINTS).astype(int))
    samples, objective = samples[kept], objective[kept]
    gap = objective - objective.min()
    wide = gap.max() > 0 and gap[gap > 0].min() < 1e-3 * gap.max()
    heights = np.log10(np.maximum(gap, gap[gap > 0].min())) if wide else gap
    x = _scaled(samples, WIDTH - 8) + 4
    y = HEIGHT - 6 - _scaled(heights, HEIGHT - 12)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    what = "objective above its least value, log scale" if wide else "objective"
    label = f"{what}, over samples: {objective[0]:.4g} to {objective[-1]:.4g}"
    return (
        f'<figure style="margin:0"><svg width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{html.escape(label)}" style="border:1px solid #8884">'
        f'<polyline fill="none" stroke="#1f77b4" stroke-width="1.5" points="{points}"/></svg>'
        f'<figcaption style="opacity:.7;font-size:11px">{html.escape(what)}, over samples'
        f"</figcaption></figure>"
    )


def _scaled(values: np.ndarray, length: float) -> np.ndarray:
    """To [0, length]; in parts, as differences of large numbers may overflow."""
    low, high = float(values.min()), float(values.max())
    spread = high / 2 - low / 2
    if not spread > 0 or not math.isfinite(spread):
        return np.full(len(values), length / 2)
    return (values / 2 - low / 2) / spread * length


def _shape(x: Any) -> str:
    import jax

    leaves = jax.tree_util.tree_leaves(x)
    words = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves[:3]]
    return ", ".join(words) + (f" and {len(leaves) - 3} more" if len(leaves) > 3 else "")
