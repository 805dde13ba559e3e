"""Convergence plots with matplotlib, imported when used."""

from __future__ import annotations

from typing import Any

import numpy as np

from mvrc.solvers.result import History
from mvrc.support import checks, extras


def plot_history(history: History, best: Any = None, ax: Any = None) -> Any:
    """Left: objective, or its gap to `best`; right: gradient mapping; over inner values."""
    if best is not None:
        best = checks.finite("best", best)
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise extras.missing("plot() needs matplotlib", "plot") from error
    if ax is None:
        _, ax = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left, right = _pair(ax, plt.Axes)
    samples = history["inner_values"]
    objective = history["objective"]
    if best is None:
        left.plot(samples, objective)
        left.set_ylabel("objective")
    else:
        left.plot(samples, np.maximum(objective - best, np.finfo(float).tiny))
        left.set_yscale("log")
        left.set_ylabel("gap to the optimum")
    right.plot(samples, history["gradient_mapping"])
    right.set_yscale("log")
    right.set_ylabel("norm of the gradient mapping")
    for axis in (left, right):
        axis.set_xlabel("samples of g")
        axis.grid(alpha=0.3)
    return left.figure


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
