"""Convergence plots with matplotlib, imported when used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mvrc.solvers.result import History, Result
from mvrc.support import checks, extras


def plot_history(history: History, best: Any = None, ax: Any = None) -> Any:
    """Left: objective, or its gap to `best`; right: gradient mapping; over inner values.

    Rows that are not finite, as of a run that diverged, are left out.
    """
    return _plot([history], best, ax)


@checks.explain_keywords
def plot_many(results: Sequence[Result], best: float | None = None, ax: Any = None) -> Any:
    """The same for the results of `minimize_many`: medians, and quartiles as a band.

    A run that has ended counts with its last row.

    Args:
        results: of one problem and method with several seeds.
        best: a known optimal value; the gap to it is shown on a log axis.
        ax: a pair of matplotlib axes; made when missing.

    Examples:
        >>> runs = mvrc.minimize_many(problem, x0, mvrc.SCGD(step_size=0.5), seeds=3, epochs=2)
        >>> mvrc.plot_many(runs) is not None
        True
    """
    listed = isinstance(results, Sequence) and not isinstance(results, str)
    if not listed or not results or not all(isinstance(result, Result) for result in results):
        raise TypeError(
            f"results must be a list of results, as minimize_many returns it, not "
            f"{checks.shown(results)}."
        )
    return _plot([result.history for result in results], best, ax)


def _plot(histories: list[History], best: Any, ax: Any) -> Any:
    if best is not None:
        best = checks.finite("best", best)
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise extras.missing("plot() needs matplotlib", "plot") from error
    ours = ax is None
    if ours:
        _, ax = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left, right = _pair(ax, plt.Axes)
    longest = max(histories, key=len)
    samples = longest["inner_values"]
    objective = np.stack([_filled(h["objective"], len(longest)) for h in histories])
    mapping = np.stack([_filled(h["gradient_mapping"], len(longest)) for h in histories])
    if best is None:
        _draw(left, samples, objective, "objective")
    else:
        gap = np.maximum(objective - best, np.finfo(float).tiny)
        _draw(left, samples, gap, "gap to the optimum", log=True)
    _draw(right, samples, mapping, "norm of the gradient mapping", log=True)
    figure = left.figure
    if ours:
        vars(figure)["_ipython_display_"] = lambda: _once(plt, figure)
    return figure


def _filled(column: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([column, np.full(length - len(column), column[-1])])


def _draw(axis: Any, samples: np.ndarray, rows: np.ndarray, label: str, log: bool = False) -> None:
    """A line, or of several rows the median and the quartiles; only what is finite."""
    kept = np.isfinite(rows).all(axis=0) & ((rows > 0).all(axis=0) if log else True)
    samples, rows = samples[kept], rows[:, kept]
    if not kept.any():
        axis.text(0.5, 0.5, "nothing finite to show", ha="center", transform=axis.transAxes)
    elif len(rows) > 1:
        low, middle, high = np.quantile(rows, [0.25, 0.5, 0.75], axis=0)
        axis.plot(samples, middle, label=f"median of {len(rows)}")
        axis.fill_between(samples, low, high, alpha=0.25, lw=0, label="quartiles")
        axis.legend(frameon=False)
    else:
        axis.plot(samples, rows[0], marker="o" if len(samples) == 1 else None)
    if log and kept.any():
        axis.set_yscale("log")
    axis.set(xlabel="samples of g", ylabel=label)
    axis.grid(alpha=0.3)


def _once(plt: Any, figure: Any) -> None:
    """In a notebook an open figure is shown at the end of its cell: not a second time here."""
    if not plt.fignum_exists(figure.number):
        raise NotImplementedError  # so that IPython shows it as any other figure


def _pair(ax: Any, kind: type) -> tuple[Any, Any]:
    """Two axes, or a sentence."""
    try:
        left, right = ax
    except (TypeError, ValueError):
        left = right = None
    if not isinstance(left, kind) or not isinstance(right, kind):
        raise TypeError(
            f"ax must be a pair of matplotlib axes, as plt.subplots(1, 2)[1] is, not "
            f"{checks.shown(ax)}."
        )
    return left, right
