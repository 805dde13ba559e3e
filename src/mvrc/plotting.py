"""Convergence plots with matplotlib, imported when used."""

from __future__ import annotations

from typing import Any

import numpy as np

from mvrc.result import History


def plot_history(history: History, best: float | None = None, ax: Any = None) -> Any:
    """Left: objective, or its gap to `best`; right: gradient mapping; over inner values."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot() needs matplotlib: pip install 'mvrc[plot]'.") from error
    if ax is None:
        _, ax = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left, right = ax
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
    for axis in ax:
        axis.set_xlabel("samples of g")
        axis.grid(alpha=0.3)
    return left.figure
