"""The panels of the theory as a static figure: PNG for pages, PDF for a paper."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from mvrc.report import figures
from mvrc.report.complexity import Record
from mvrc.report.complexity_page import STYLED, Panel, guide, panels
from mvrc.support import extras

COLUMNS = 4
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻·", "0123456789-.")


def draw(records: list[Record], stem: Path, only: tuple[str, ...] = ()) -> list[Path]:
    """Samples against n, N, 1/ε and v, with the theory's slope: `stem`.png and `stem`.pdf."""
    try:
        import matplotlib
    except ImportError as error:
        raise extras.missing("The figures need matplotlib", "plot") from error
    from matplotlib.figure import Figure

    shown = [panel for panel in panels(records) if not only or panel.id in only]
    across = min(COLUMNS, len(shown))
    down = -(-len(shown) // across)
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(2.5 * across, 2.3 * down + 0.5), layout="constrained")
        axes = np.ravel(figure.subplots(down, across, squeeze=False))
        handles: dict[str, Any] = {}
        for axis, panel in zip(axes, shown, strict=False):
            _panel(axis, panel, handles)
        for axis in axes[len(shown) :]:
            axis.set_visible(False)
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5,
                      frameon=False)  # fmt: skip
        paths = [stem.with_suffix(".png"), stem.with_suffix(".pdf")]
        for path in paths:
            figure.savefig(path, dpi=200)
    return paths


def _panel(axis: Any, panel: Panel, handles: dict[str, Any]) -> None:
    for one in panel.lines:
        style, y = figures.style(STYLED[one.method]), one.samples[:, 0]
        dash: Any = (0, style.dash) if style.dash else "solid"
        kept = np.isfinite(y)
        (line,) = axis.plot(one.x[kept], y[kept], color=style.colour, marker=style.marker,
                            markersize=3.5, lw=1.1, linestyle=dash)  # fmt: skip
        handles.setdefault(one.label.replace("αₜ", r"$\alpha_t$"), line)
    ends, theory = guide(panel)
    (line,) = axis.plot(ends, theory, color="black", lw=0.8, linestyle=(0, (1, 2)))
    handles.setdefault("theory's slope", line)
    axis.annotate(_mathtext(panel.word), (ends[1], theory[1]), fontsize=8, ha="right", va="bottom")
    axis.set(xscale="log", yscale="log", xlabel=panel.axis)
    for side, limits in ((axis.xaxis, axis.get_xlim()), (axis.yaxis, axis.get_ylim())):
        figures.set_ticks(side, *limits)
    axis.set_title(_short(panel.title), fontsize=7.5)
    axis.grid(which="major", alpha=0.3, lw=0.4)
    axis.spines[["top", "right"]].set_visible(False)


def _mathtext(word: str) -> str:
    """'ε⁻¹·⁵' with an exponent of mathtext: fonts lack some of the raised figures."""
    found = re.match("([^⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)([⁰¹²³⁴⁵⁶⁷⁸⁹⁻·]+)$", word)
    if found is None:
        return word
    return f"${found[1]}^{{{found[2].translate(_RAISED)}}}$".replace("ε", r"\epsilon")


def _short(title: str) -> str:
    """A title on lines that fit a panel."""
    lines, words = [""], title.split()
    for word in words:
        if len(lines[-1]) + len(word) > 36:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
