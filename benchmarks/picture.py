"""`python -m benchmarks.picture`: the picture of the README, docs/images/gap.png.

The gap to the optimum of the 30 industries against passes over the data and against seconds:
`Auto` as it is, each other method at the best of five step sizes, and cvxpy's Clarabel, which has
no passes, at the time and gap of its answer. Compiling is not counted.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import mvrc
from benchmarks import paths
from benchmarks.auto import recipe
from benchmarks.cases.instances import Instance, instances

NAME = "mean–variance, 30 industries"
RIVALS = {
    "mvrc": "MVRC", "civr": "CIVR", "vrsc-pg": "VRSC-PG", "katyusha": "Katyusha",
    "fista": "FISTA with restart",
}  # fmt: skip
FILE = paths.IMAGES / "gap.png"
EPOCHS = {"fista": 80}
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # step sizes, as shares of 1/L
PASSES = 60  # that the picture shows


def main() -> None:
    instance = instances()[NAME]()
    curves = {"Auto": _curve(instance, "auto", None)}
    for name, label in RIVALS.items():
        methods = [recipe(name, instance, factor * instance.step) for factor in FACTORS]
        tried = [_curve(instance, method, EPOCHS.get(name, 40)) for method in methods]
        best = min(range(len(tried)), key=lambda i: _last(tried[i]))
        curves[label] = tried[best]
        print(f"{label}: {FACTORS[best]:g}/L")
    _draw(curves, _clarabel(instance))
    print(FILE)


def _last(curve: dict[str, np.ndarray]) -> float:
    """The gap within the picture."""
    gap = curve["gap"][curve["passes"] <= PASSES][-1]
    return gap if np.isfinite(gap) else np.inf


def _curve(instance: Instance, method: Any, epochs: int | None) -> dict[str, np.ndarray]:
    """Passes, seconds and relative gaps; of two runs the second, which compiles nothing."""
    limits = {} if epochs is None else {"epochs": epochs}
    for _ in range(2):
        result = mvrc.minimize(instance.problem, instance.x0, method, **limits)
    history = result.history
    gap = (np.asarray(history["objective"]) - instance.best) / _range(instance)
    passes = np.asarray(history["inner_values"]) / instance.problem.n
    return {"passes": passes, "seconds": np.asarray(history["seconds"]), "gap": gap}


def _range(instance: Instance) -> float:
    return instance.start.objective - instance.best


def _clarabel(instance: Instance) -> tuple[float, float] | None:
    try:
        import cvxpy as cp
    except ImportError:
        return None
    rows = np.asarray(instance.problem.inner_data)
    start = time.perf_counter()
    x = cp.Variable(rows.shape[1])
    centred = rows - rows.mean(axis=0)
    risk = 0.2 / len(rows) * cp.sum_squares(centred @ x)
    whole = -rows.mean(axis=0) @ x + risk + 0.01 * cp.norm1(x)
    cp.Problem(cp.Minimize(whole)).solve(solver=cp.CLARABEL)
    seconds = time.perf_counter() - start
    gap = (instance.problem.objective(x.value) - instance.best) / _range(instance)
    return seconds, gap


def _draw(curves: dict[str, dict[str, np.ndarray]], clarabel: tuple[float, float] | None) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for ax, along in zip(axes, ("passes", "seconds"), strict=True):
        for label, curve in curves.items():
            style = {"lw": 2.6, "color": "black", "zorder": 3} if label == "Auto" else {"lw": 1.4}
            ax.plot(curve[along], np.maximum(curve["gap"], 1e-14), label=label, **style)
        ax.set(yscale="log", ylim=(1e-12, 2), xlabel=along)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25)
    axes[0].set(
        ylabel="relative gap to the optimum", xlim=(0, PASSES), xlabel="passes over the data"
    )
    axes[1].set(xscale="log", xlim=(1e-3, 2), xlabel="seconds, without compiling")
    if clarabel is not None:
        seconds, gap = clarabel
        axes[1].plot(seconds, max(gap, 1e-12), "s", color="tab:brown", label="cvxpy, Clarabel")
    axes[1].legend(frameon=False, fontsize=8, loc="upper right")
    FILE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FILE, dpi=130)


if __name__ == "__main__":
    main()
