"""`python -m benchmarks.coupled [errors] [goals] [table]`: coupled problems, for docs/coupled.md.

1. The error that stays: exp(y) − y of a mean of Gaussian samples, whose minimum is known, against
   |B₂|; the picture docs/images/coupled.png.
2. Evaluations of g to a goal (a hundredth of the gap at x0) on three problems, every method with
   the best of eight step sizes, the median of three seeds.
3. The table: bytes for each k, and the time of a step, from N = 10⁴ to 10⁷.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

import mvrc
from benchmarks import paths
from mvrc import losses
from mvrc.applications import bellman_coupled

PAGE, MARK, FILE = paths.DOCS / "coupled.md", "<!-- measured -->", paths.IMAGES / "coupled.png"
SIZES = (1, 2, 4, 8, 16, 32)
STEPS = 2.0 ** np.arange(-6, 2)  # times 1/L
MOST = 40  # passes


def noisy(size: int) -> tuple[mvrc.Coupled, float]:
    """The problem, and its minimum."""
    outside = np.random.default_rng(0).uniform(0.5, 1.5, (60, 1))

    def draw(key: Any, k: Any, count: int) -> Any:
        return jax.random.normal(key, (count, 1))

    problem = mvrc.Coupled(
        lambda x, k, s: x - k + s, lambda y, k: jnp.exp(y[0]) - y[0],
        mvrc.Simulator(draw, 4), outside, inner_batch=size,
    )  # fmt: skip
    return problem, float(-np.log(np.mean(np.exp(-outside))))


def bias() -> dict[str, list[float]]:
    """Distance of the mean over seeds and late epochs, for each |B₂|."""
    methods = {
        "plug-in (BSGD)": lambda: mvrc.BSGD(0.02, batch_size=20, period=60),
        "SOX, γ = 0.02": lambda: mvrc.SOX(
            0.02, weight=0.02, gradient_weight=0.1, batch_size=20, period=60
        ),
        "MSVR, γ = 0.02": lambda: mvrc.MSVR(
            0.005, weight=0.02, gradient_weight=0.1, batch_size=20, period=60
        ),
    }
    found: dict[str, list[float]] = {}
    for name, method in methods.items():
        for size in SIZES:
            problem, best = noisy(size)
            tail = []
            for seed in range(4):
                made: list[float] = []
                mvrc.minimize(
                    problem, np.zeros(1), method(), seed=seed, epochs=240,
                    callback=lambda info, made=made: made.append(float(info.x[0])),
                )  # fmt: skip
                tail.append(np.mean(made[80:]))
            found.setdefault(name, []).append(abs(float(np.mean(tail)) - best))
        print(name, np.round(found[name], 4), flush=True)
    return found


def draw_picture(found: dict[str, list[float]]) -> None:
    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for name, distances in found.items():
        axis.loglog(SIZES, distances, "o-", label=name)
    axis.loglog(SIZES, 0.5 / np.array(SIZES), "k:", label="1/(2|B₂|)")
    axis.set(xlabel="inner samples |B₂| of a step", ylabel="distance to the minimum")
    axis.legend(frameon=False)
    figure.savefig(FILE, dpi=150)


def errors() -> list[str]:
    found = bias()
    draw_picture(found)
    head = f"| distance at \\|B₂\\| = | {' | '.join(map(str, SIZES))} |"
    rows = [
        f"| {name} | {' | '.join(f'{v:.3f}' for v in distances)} |"
        for name, distances in found.items()
    ]
    return [head, "|---|" + "--:|" * len(SIZES), *rows]


def problems() -> dict[str, tuple[mvrc.Coupled, Any]]:
    rows, label = load_breast_cancer(return_X_y=True)
    rows = (rows - rows.mean(0)) / rows.std(0)
    rng = np.random.default_rng(0)
    few = np.r_[np.flatnonzero(label == 1), np.flatnonzero(label == 0)[:60]]
    ap = losses.average_precision(
        lambda w, r: r @ w, rows[few], 1 - label[few], regularizer=mvrc.L2(0.02), inner_batch=16
    )
    pixels = load_digits().data[:300] / 16
    views = [pixels + 0.2 * rng.standard_normal(pixels.shape) for _ in range(2)]
    contrast = losses.contrastive(
        lambda w, r: w @ r, *views, 0.5, regularizer=mvrc.L2(0.01), inner_batch=16
    )
    transition = rng.uniform(size=(200, 200)) ** 8
    transition /= transition.sum(axis=1, keepdims=True)
    values = bellman_coupled(
        transition, rng.standard_normal((200, 200)), rng.standard_normal((200, 10)), 0.9,
        inner_batch=16,
    )  # fmt: skip
    return {
        "average precision, breast cancer, 60 positives": (ap, np.zeros(30)),
        "contrastive, digits, linear": (contrast, 0.1 * rng.standard_normal((4, 64))),
        "Bellman residual, 200 states": (values, np.zeros(10)),
    }


METHODS: dict[str, Any] = {
    "plug-in": lambda step: mvrc.BSGD(step, batch_size=16),
    "SOX": lambda step: mvrc.SOX(step, weight=0.1, gradient_weight=0.3, batch_size=16),
    "MSVR": lambda step: mvrc.MSVR(step, weight=0.1, gradient_weight=0.3, batch_size=16),
    "BSpiderBoost": lambda step: mvrc.BSpiderBoost(step, batch_size=16),
    "MVRC": lambda step: mvrc.MVRC(step, batch_size=16),
}


def to_goal(problem: mvrc.Coupled, x0: Any, method: Any, goal: float) -> float:
    """Passes' worth of evaluations of g to Φ ≤ goal; ∞ where it is not reached."""
    pairs, outside = problem.evaluations
    found = []
    every = max(1, round(0.25 * pairs / (outside * 16)))  # a row for a quarter of a pass
    for seed in range(3):
        result = mvrc.minimize(
            problem, x0, method, samples=MOST * pairs, epochs=20_000, seed=seed, record_every=every,
            callback=lambda info: info.objective <= goal or not np.isfinite(info.objective),
        )  # fmt: skip
        reached = result.history["objective"] <= goal
        spent = result.history["inner_values"][np.argmax(reached)] / pairs
        found.append(float(spent) if reached.any() else np.inf)
    return float(np.median(found))


def goals() -> list[str]:
    lines = [
        f"| problem | {' | '.join(METHODS)} | `Auto` |",
        "|---|" + "--:|" * (len(METHODS) + 1),
    ]
    for name, (problem, x0) in problems().items():
        exact = mvrc.minimize(problem, x0)
        start = exact.history["objective"][0]
        goal = exact.objective + 0.01 * (start - exact.objective)
        pairs = problem.evaluations[0]
        auto = exact.history["inner_values"][np.argmax(exact.history["objective"] <= goal)] / pairs
        with problem.precision(x0):
            from mvrc.theory.smoothness import default_step_size

            L = 1 / (4 * default_step_size(problem, x0))
        cells = []
        for make in METHODS.values():
            tried = [to_goal(problem, x0, make(step / L), goal) for step in STEPS]
            best = min(tried)
            where = STEPS[int(np.argmin(tried))]
            cells.append("–" if np.isinf(best) else f"{best:.2f} ({where:g}/L)")
        lines.append(f"| {name} | {' | '.join(cells)} | {auto:.0f} |")
        print(lines[-1], flush=True)
    return lines


def table() -> list[str]:
    lines = ["| N | bytes of the table for each k | µs per step |", "|--:|--:|--:|"]
    first = None
    for N in (10**4, 10**5, 10**6, 10**7):
        outside = np.linspace(-1, 1, N, dtype="f")
        pool = np.random.default_rng(0).standard_normal(1000).astype("f")
        problem = mvrc.Coupled(
            lambda x, k, s: jnp.exp(x[:1] * s - k), lambda y, k: jnp.log(y[0]), pool, outside,
            inner_batch=32,
        )  # fmt: skip
        period = 10**7 // 64  # the default at the largest N
        method = mvrc.SOX(1e-3, batch_size=64, period=period, start="first")
        solver = {"method": method, "record_every": 100, "measure_samples": 64}
        best = np.inf
        for _ in range(5):
            result = mvrc.minimize(problem, np.zeros(1, "f"), epochs=2, **solver)
            best = min(best, result.seconds / 2 / period * 1e6)
        first = first or best
        lines.append(f"| {N:,} | 4 | {best:.1f} ({best / first:.2f} ×) |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    began = time.perf_counter()
    for i, part in enumerate((errors, goals, table)):
        if sys.argv[1:] and part.__name__ not in sys.argv[1:]:
            continue
        lines = part()
        texts = PAGE.read_text(encoding="utf-8").split(MARK)
        texts[2 * i + 1] = "\n\n" + "\n".join(lines) + "\n\n"  # between pairs of marks
        PAGE.write_text(MARK.join(texts), encoding="utf-8")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
