"""Static figures: PNG for pages, PDF for a paper."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mvrc.report.summary import METRICS, Column, Curve
from mvrc.support import extras


class Style(NamedTuple):
    """How a line is told from others that lie on it."""

    colour: str
    marker: str  # matplotlib's
    symbol: str  # plotly's
    dash: tuple[float, ...]  # on and off, in widths of the line; () is solid


# Okabe and Ito's colours, told apart by colour-blind readers; dashes and markers besides.
STYLES = {
    "mvrc-constant": Style("#0072B2", "o", "circle", ()),
    "mvrc-decay-restart": Style("#56B4E9", "s", "square", (5, 2)),
    "civr": Style("#009E73", "^", "triangle-up", (1.5, 1.5)),
    "vrsc-pg": Style("#E69F00", "v", "triangle-down", (6, 2, 1.5, 2)),
    "katyusha": Style("#D55E00", "D", "diamond", (3, 1.5)),
    "asc-pg": Style("#CC79A7", "P", "cross", (8, 2)),
    "fista": Style("#777777", "X", "x", ()),
    "auto": Style("#000000", "*", "star", ()),
    "civr-control": Style("#009E73", "", "triangle-up-open", ()),
    "vrsc-pg-control": Style("#E69F00", "", "triangle-down-open", ()),
    "katyusha-control": Style("#D55E00", "", "diamond-open", ()),
}
SHOWN_CONTROL = "civr-control"  # in the static figure
STYLE: Any = {
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


def style(method: str) -> Style:
    """Of a method; black and solid where none was chosen."""
    return STYLES.get(method, Style("#000000", ".", "circle", ()))


def draw(columns: list[Column], stem: Path) -> list[Path]:
    """Gradient mapping above, gap below, a column an experiment: `stem`.png and `stem`.pdf."""
    try:
        import matplotlib
    except ImportError as error:
        raise extras.missing("The figures need matplotlib", "plot") from error
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(2.4 * len(columns) + 0.4, 4.6), layout="constrained")
        axes = figure.subplots(2, len(columns), squeeze=False)
        for place, column in enumerate(columns):
            for row, metric in enumerate(("gradient_mapping", "gap")):
                axis = axes[row][place]
                _panel(axis, column, metric)
                if row == 0:
                    axis.set_title(f"{_broken(column.title)}\n{column.size}, {column.kind}")
                else:
                    axis.set_xlabel("samples of $g$ (millions)")
                if place == 0:
                    axis.set_ylabel(METRICS[metric])
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=7, frameon=False)
        paths = [stem.with_suffix(".png"), stem.with_suffix(".pdf")]
        for path in paths:
            figure.savefig(path, dpi=200)
    return paths


def _broken(title: str) -> str:
    """A title of one or two lines, broken at its last comma."""
    return title if title.count(",") < 2 else ",\n".join(title.rsplit(", ", 1))


def _panel(axis: Any, column: Column, metric: str) -> None:
    shown = [*column.curves, *(c for c in column.controls if c.method == SHOWN_CONTROL)]
    for place, curve in enumerate(shown):
        _line(axis, curve, metric, place, len(shown))
    axis.set(yscale="log", xlim=(0, column.budget / 1e6))
    axis.grid(which="major", alpha=0.3, lw=0.4)
    axis.spines[["top", "right"]].set_visible(False)
    ends = np.concatenate([curve.median(metric) for curve in shown])
    ends = ends[np.isfinite(ends)]
    if len(ends):
        low, high = ends.min() / 1.6, ends.max() * 1.6
        axis.set_ylim(low, high)
        set_ticks(axis.yaxis, low, high)


def _line(axis: Any, curve: Curve, metric: str, place: int, count: int) -> None:
    chosen, samples = style(curve.method), curve.samples / 1e6
    if curve.control:
        dots = {"linestyle": (0, (1, 3)), "lw": 1.0}  # the line below it is seen, too
        axis.plot(samples, curve.median(metric), color="black", label=curve.label, **dots)
        return
    low, high = curve.quartiles(metric)
    axis.fill_between(samples, low, high, color=chosen.colour, alpha=0.25, lw=0)
    # Markers of lines that lie on each other stand at places of their own.
    step = max(1, len(samples) // 4)
    line: Any = (0, chosen.dash) if chosen.dash else "solid"
    axis.plot(
        samples, curve.median(metric), color=chosen.colour, lw=1.2, linestyle=line,
        label=curve.label, marker=chosen.marker, markersize=3.5,
        markevery=(round(place * step / count), step),
    )  # fmt: skip


def set_ticks(axis: Any, low: float, high: float) -> None:
    """Powers of ten, and 2 and 5 times them where there are few: one style, as on the page."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(ticks(low, high)))
    axis.set_major_formatter(FuncFormatter(_power))
    axis.set_minor_locator(NullLocator())


def ticks(low: float, high: float) -> list[float]:
    """Where a logarithmic axis from `low` to `high` has its numbers: about three to seven."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    factors = (1, 2, 5) if decades < 1.5 else (1, 3) if decades < 3 else (1,)
    every = max(1, math.ceil(decades / 6))
    places = [f * 10.0**k for k in range(first, last + 1) if k % every == 0 for f in factors]
    return [place for place in places if low <= place <= high]


def _power(value: float, _: Any = None) -> str:
    exponent = math.floor(math.log10(value) + 1e-9)
    factor = round(value / 10.0**exponent)
    head = "" if factor == 1 else f"{factor}\\cdot"
    return f"${head}10^{{{exponent}}}$"
