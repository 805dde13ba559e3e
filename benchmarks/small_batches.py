"""`python -m benchmarks.small_batches`: docs/images/networks.png, the bias of small batches.

Softmax regression on scikit-learn's digits with 10 % wrong labels, tilted loss with t = 5, batches
of 16: schedule-free averages of Adam's steps on the naive gradient, on trackers, and on multilevel
Monte Carlo gradients, at equal samples. The gap is to the optimum, which `Auto` finds.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import mvrc
import mvrc.losses
from benchmarks import paths
from mvrc.losses.robust import tilted_functions

FILE = paths.IMAGES / "networks.png"
BATCH, STEPS, MARKS, T = 16, 40_000, 40, 5.0
RATES = (1e-3, 3e-3, 1e-2)
KINDS = ("naive", "scgd", "scsc", "storm", "multilevel")


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    pixels, digit = load_digits(return_X_y=True)
    wrong = rng.random(len(digit)) < 0.1
    digit = np.where(wrong, rng.integers(0, 10, len(digit)), digit)
    return (pixels / 16).astype("f"), digit.astype(np.int32)


def loss(x: Any, sample: Any) -> Any:
    pixels, digit = sample
    scores = pixels @ x["w"] + x["b"]
    fit = jax.nn.logsumexp(scores) - scores[digit]
    return fit + 1e-3 * (jnp.sum(x["w"] ** 2) + jnp.sum(x["b"] ** 2))


def curve(kind: str, rate: float, rows: Any, value: Any) -> list[float]:
    """Φ of the averaged iterate along a run."""
    inner, outer = tilted_functions(loss, T, 2.5)
    x = {"w": jnp.zeros((64, 10)), "b": jnp.zeros(10)}
    naive = kind == "naive"
    tracker = mvrc.tracker(inner, outer, "scgd" if naive else kind, base=4, levels=6)
    optimizer = optax.contrib.schedule_free_adamw(rate, warmup_steps=100, b1=0.9, weight_decay=0.0)
    state, kept = optimizer.init(x), tracker.init(x, _take(rows, slice(0, 256)))

    def batch_gradient(x: Any, batch: Any) -> Any:
        return outer(jax.vmap(inner, (None, 0))(x, batch).mean(0))

    def step(carry: Any, batch: Any) -> tuple[Any, None]:
        x, state, kept = carry
        if naive:
            v = jax.grad(batch_gradient)(x, batch)
        else:
            v, kept = tracker.update(kept, x, batch)
        updates, state = optimizer.update(v, state, x)
        return (optax.apply_updates(x, updates), state, kept), None

    chunk = jax.jit(lambda carry, batches: jax.lax.scan(step, carry, batches)[0])
    rng = np.random.default_rng(0)
    carry, found = (x, state, kept), []
    for _ in range(MARKS):
        if kind == "multilevel":
            spent = 0
            while spent < BATCH * STEPS // MARKS:
                size = tracker.estimator.size(rng)
                batch = _take(rows, rng.integers(0, len(rows[0]), (1, size)))
                carry, spent = chunk(carry, batch), spent + size
        else:
            indices = rng.integers(0, len(rows[0]), (STEPS // MARKS, BATCH))
            carry = chunk(carry, _take(rows, indices))
        average = optax.contrib.schedule_free_eval_params(carry[1], carry[0])
        found.append(float(value(average)))
    return found


def _take(rows: Any, indices: Any) -> Any:
    return tuple(a[indices] for a in rows)


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = data()
    problem = mvrc.losses.tilted(loss, rows, T, shift=2.5)
    start = {"w": np.zeros((64, 10), "f"), "b": np.zeros(10, "f")}
    best = mvrc.minimize(problem, start).objective
    figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
    samples = BATCH * STEPS / MARKS * np.arange(1, MARKS + 1)
    for kind in KINDS:
        runs = {rate: curve(kind, rate, rows, problem.objective) for rate in RATES}
        rate = min(RATES, key=lambda r: runs[r][-1] if np.isfinite(runs[r][-1]) else np.inf)
        gap = np.array(runs[rate]) - best
        ax.plot(samples, np.maximum(gap, 1e-6), label=kind, lw=2 if kind == "scgd" else 1.4)
        print(f"| {kind} | {rate:g} | {gap[-1]:.2g} |", flush=True)
    ax.set(yscale="log", xlabel="samples", ylabel="gap to the optimum")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(FILE, dpi=130)
    print(FILE)


if __name__ == "__main__":
    main()
