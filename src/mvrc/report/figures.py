"""Static figures: PNG for pages, PDF for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mvrc.report.summary import METRICS, Column

# Okabe and Ito's colours, told apart by colour-blind readers; markers for print.
LOOKS = {
    "mvrc-constant": ("#0072B2", "o"),
    "mvrc-decay-restart": ("#56B4E9", "s"),
    "civr": ("#009E73", "^"),
    "vrsc-pg": ("#E69F00", "v"),
    "katyusha": ("#D55E00", "D"),
    "asc-pg": ("#CC79A7", "P"),
    "fista": ("#777777", "X"),
}
_STYLE: Any = {
    "font.family": "serif",
    "font.serif": ["STIXGeneral", "DejaVu Serif"],
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8.5,
    "axes.linewidth": 0.6,
    "pdf.fonttype": 42,  # text stays text
}


def look(method: str) -> tuple[str, str]:
    """Colour and marker."""
    return LOOKS.get(method, ("#000000", "."))


def draw(columns: list[Column], stem: Path) -> list[Path]:
    """Gradient mapping above, gap below, a column an experiment: `stem`.png and `stem`.pdf."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("The figures need matplotlib: pip install 'mvrc[plot]'.") from error
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(2.5 * len(columns) + 0.4, 4.6), layout="constrained")
        axes = figure.subplots(2, len(columns), squeeze=False)
        for place, column in enumerate(columns):
            for row, metric in enumerate(("gradient_mapping", "gap")):
                axis = axes[row][place]
                _panel(axis, column, metric)
                if row == 0:
                    axis.set_title(f"{column.title}\n{column.size}, {_kind(column)}")
                else:
                    axis.set_xlabel("samples of $g$ (millions)")
                if place == 0:
                    axis.set_ylabel(METRICS[metric])
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
        paths = [stem.with_suffix(".png"), stem.with_suffix(".pdf")]
        for path in paths:
            figure.savefig(path, dpi=200)
    return paths


def _kind(column: Column) -> str:
    return "real data" if column.real else "simulated"


def _panel(axis: Any, column: Column, metric: str) -> None:
    for curve in column.curves:
        colour, marker = look(curve.method)
        samples = curve.samples / 1e6
        low, high = curve.quartiles(metric)
        axis.fill_between(samples, low, high, color=colour, alpha=0.25, lw=0)
        axis.plot(
            samples, curve.median(metric), color=colour, lw=1.2, label=curve.label,
            marker=marker, markersize=3.5, markevery=max(1, len(samples) // 6),
        )  # fmt: skip
    axis.set(yscale="log", xlim=(0, column.budget / 1e6))
    axis.grid(which="major", alpha=0.3, lw=0.4)
    axis.spines[["top", "right"]].set_visible(False)
    ends = np.concatenate([curve.median(metric) for curve in column.curves])
    ends = ends[np.isfinite(ends)]
    if len(ends):
        axis.set_ylim(ends.min() / 1.6, ends.max() * 1.6)
