"""The plots of a section, drawn from its recorded numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import paths
from benchmarks.cases.case import Case
from benchmarks.parts import grid
from benchmarks.row import Measured
from benchmarks.twins import sides

COLOURS = {
    "mvrc": "#0072b2", sides.PLAIN: "#999999", sides.TUNED: "#cc79a7",
    sides.NUMBA: "#d55e00", sides.TORCH: "#009e73",
}  # fmt: skip


def draw(kind: str, measured: list[Measured]) -> list[tuple[str, str]]:
    """Titles and file names of the plots that could be drawn."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    paths.IMAGES.mkdir(parents=True, exist_ok=True)
    prefix = "performance" if kind == "quick" else "performance_full"
    made = []
    for name, title, figure in (
        ("step", "A small step of all sides", _steps(measured)),
        ("scaling", "How a step grows with each size", _scaling(measured)),
        ("jacobian", "Matrix against matrix-free", _jacobian(measured)),
    ):
        if figure is not None:
            file = f"{prefix}_{name}.png"
            figure.savefig(paths.IMAGES / file, dpi=110)
            made.append((title, file))
    return made


def _figure(*shape: int, size: tuple[float, float]) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
    plt.close(figure)  # kept by the caller alone
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _steps(measured: list[Measured]) -> Any:
    """Bars of µs a small step of the portfolio problem."""
    cases = {grid.label("step", Case(**m.case)): m.step for m in measured if m.group == "step"}
    if not cases:
        return None
    figure, axes = _figure(1, len(cases), size=(3.2 * len(cases), 2.6))
    for ax, (case, step) in zip(axes[0], cases.items(), strict=True):
        order = [side for side in ("mvrc", *sides.ALL) if side in step]
        times = [step[side]["best"] for side in order]
        bars = ax.barh(order, times, color=[COLOURS[side] for side in order])
        ax.bar_label(bars, fmt="%.0f", padding=2, fontsize=8)
        ax.invert_yaxis()
        ax.margins(x=0.15)
        ax.set_title(case, fontsize=10)
        ax.set_xlabel("µs a small step (best)")
        if ax is not axes[0][0]:
            ax.set_yticklabels([])
    return figure


def _scaling(measured: list[Measured]) -> Any:
    groups = [group for group in grid.AXES if len(_longest(measured, group)) > 1]
    if not groups:
        return None
    columns = 2 if len(groups) <= 4 else 3
    height = -(-len(groups) // columns)
    figure, axes = _figure(height, columns, size=(4.2 * columns, 3.3 * height))
    for ax, group in zip(axes.flat, groups, strict=False):
        _axis(ax, group, grid.lines(measured, group))
    for ax in axes.flat[len(groups) :]:
        ax.set_visible(False)
    for row in axes:
        row[0].set_ylabel("µs a step (best)")
    return figure


def _longest(measured: list[Measured], group: str) -> list[Measured]:
    return max(grid.lines(measured, group).values(), key=len, default=[])


def _axis(ax: Any, group: str, found: dict[str, list[Measured]]) -> None:
    """mvrc by dtype and form, and the twins of the first of these lines."""
    styles = ("-", "--", ":", "-.")
    for (label, line), style in zip(found.items(), styles, strict=False):
        sizes = [m.case[group] for m in line]
        times = [m.step["mvrc"]["best"] for m in line]
        if len(line) > 1:
            growth = f"{group}$^{{{grid.growth(group, line)[0]:.2f}}}$"
            ax.plot(sizes, times, style, marker="o", ms=3, color=COLOURS["mvrc"],
                    label=f"mvrc, {label}: ~ {growth}")  # fmt: skip
    first = next(iter(found.values()))
    for side in (sides.PLAIN, sides.NUMBA, sides.TORCH):
        pairs = [(m.case[group], m.step[side]["best"]) for m in first if side in m.step]
        pairs = [(size, time) for size, time in pairs if time > 0]
        if len(pairs) > 1:
            ax.plot(*zip(*pairs, strict=True), marker="s", ms=3, lw=1, color=COLOURS[side],
                    label=f"{side}, {next(iter(found))}")  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel=grid.AXES[group])
    low, high = ax.get_ylim()
    low = 10 ** np.floor(np.log10(low))
    ax.set_ylim(low, high * (high / low) ** 0.5)  # room for the legend
    ax.yaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}")
    ax.yaxis.set_minor_formatter("")
    ax.legend(fontsize=7, frameon=False, loc="upper left")


def _jacobian(measured: list[Measured]) -> Any:
    """The ratio of both forms over p·d."""
    times: dict[tuple[str, int], dict[str, float]] = {}
    for m in measured:
        if m.group == "jacobian":
            key = (m.case["problem"], m.case["p"] * m.case["d"])
            times.setdefault(key, {})[m.case["jacobian"]] = m.step["mvrc"]["best"]
    if len(times) < 6:  # no picture of a line yet
        return None
    figure, axes = _figure(1, 1, size=(5.2, 3.3))
    ax = axes[0][0]
    looks = {"wide": (COLOURS["mvrc"], "o"), "portfolio": ("#d55e00", "D")}
    looks["additive"] = ("#009e73", "s")
    for kind, (colour, marker) in looks.items():
        chosen = sorted(
            (size, both["matrix"] / both["free"])
            for (problem, size), both in times.items()
            if problem == kind
        )
        if chosen:
            label = {"wide": "g(x, a) = tanh(W(a∘x))", "additive": "sparse additive"}.get(
                kind, kind
            )
            ax.plot(*zip(*chosen, strict=True), marker, color=colour, label=label)
    ax.axhline(1, color="#999999", lw=1)
    ax.set(xscale="log", yscale="log", xlabel="p·d, entries of the Jacobian",
           ylabel="time of a step,\nmatrix / matrix-free")  # fmt: skip
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.legend(fontsize=8, framealpha=1, edgecolor="white", loc="upper left")
    return figure
