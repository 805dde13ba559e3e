"""`python -m benchmarks.libauc`: average precision beside LibAUC, for docs/coupled.md.

A network with 32 hidden units on digits, one class of which few are left against all others: SOX
with Adam, and LibAUC's APLoss with its optimiser SOAP in its mode adam, at equal samples, γ and
margin, each at the best of four step sizes by its median on one half of the test rows; reported on
the other half, the median of ten seeds. Needs `make .venv/.torch`.
"""

from __future__ import annotations

import time
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
import torch
from libauc.losses.auc import APLoss
from libauc.optimizers.soap import SOAP
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score

import mvrc
from benchmarks import paths
from mvrc import losses
from mvrc.estimators import Sox

PAGE, MARK = paths.DOCS / "coupled.md", "<!-- libauc -->"
POSITIVES, OTHERS, STEPS, SEEDS = 8, 56, 2000, 10
RATES, GAMMA, MARGIN = (1e-3, 3e-3, 1e-2, 3e-2), 0.5, 1.0


def data(seed: int) -> tuple[Any, ...]:
    """Rows and labels of training, validation and test."""
    rng = np.random.default_rng(seed)
    pixels, digit = load_digits(return_X_y=True)
    rows, labels = (pixels / 16).astype("f"), (digit == 8).astype(int)
    keep = np.r_[np.flatnonzero(labels == 0), rng.permutation(np.flatnonzero(labels))[:90]]
    rng.shuffle(keep)
    rows, labels = rows[keep], labels[keep]
    cuts = [len(keep) // 2, 3 * len(keep) // 4]
    return (*np.split(rows, cuts), *np.split(labels, cuts))


def ours(rows: Any, labels: Any, rate: float, seed: int) -> tuple[Any, float]:
    """Scores of a network as a function, and seconds of a step."""
    model = eqx.nn.MLP(64, 1, 32, 1, key=jax.random.key(seed))
    problem = losses.average_precision(
        lambda net, row: jax.nn.sigmoid(net(row)[0]), rows, labels, MARGIN, inner_batch=OTHERS
    )
    scheme = mvrc.OptaxScheme(optax.adamw(rate, weight_decay=1e-5))
    method = mvrc.Method(
        Sox(mvrc.Power(GAMMA), mvrc.Power(1.0), "first"), scheme, mvrc.Sizes(POSITIVES),
        period=STEPS,
    )  # fmt: skip
    result = mvrc.minimize(problem, model, method, epochs=1, seed=seed)
    return lambda x: np.asarray(jax.vmap(result.x)(x))[:, 0], result.seconds / STEPS


def theirs(rows: Any, labels: Any, rate: float, seed: int) -> tuple[Any, float]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1), torch.nn.Sigmoid()
    )
    loss = APLoss(data_len=len(rows), gamma=GAMMA, margin=MARGIN)
    optimizer = SOAP(net.parameters(), lr=rate, mode="adam", verbose=False)
    x, y = torch.from_numpy(rows), torch.from_numpy(labels)
    first, rest = np.flatnonzero(labels), np.flatnonzero(labels == 0)
    began = time.perf_counter()
    for _ in range(STEPS):  # as its DualSampler: so many of each class
        k = np.r_[rng.choice(first, POSITIVES, replace=False), rng.choice(rest, OTHERS)]
        index = torch.from_numpy(k)
        optimizer.zero_grad()
        loss(net(x[index]), y[index], index).backward()
        optimizer.step()
    seconds = (time.perf_counter() - began) / STEPS
    return lambda a: net(torch.from_numpy(a)).detach().numpy()[:, 0], seconds


def main() -> None:
    torch.set_num_threads(1)  # faster for such small batches
    lines = [
        "| | average precision, test | quartiles | µs per step | step size |",
        "|---|" + "--:|" * 4,
    ]
    for name, train in {"mvrc, SOX": ours, "LibAUC 2.0.1, APLoss + SOAP": theirs}.items():
        best: tuple[float, Any] = (-1.0, None)
        for rate in RATES:
            chosen, told, seconds = [], [], []
            for seed in range(SEEDS):
                fit, check, test, *labels = data(seed)
                score, took = train(fit, labels[0], rate, seed)
                chosen.append(average_precision_score(labels[1], score(check)))
                told.append(average_precision_score(labels[2], score(test)))
                seconds.append(took)
            if np.median(chosen) > best[0]:
                best = float(np.median(chosen)), (rate, told, np.median(seconds))
        rate, told, took = best[1]
        low, middle, high = np.quantile(told, (0.25, 0.5, 0.75))
        lines.append(
            f"| {name} | {middle:.3f} | {low:.3f} to {high:.3f} | {1e6 * took:.0f} | {rate:g} |"
        )
        print(lines[-1], flush=True)
    before, _, after = PAGE.read_text(encoding="utf-8").split(MARK)
    table = "\n\n" + "\n".join(lines) + "\n\n"
    PAGE.write_text(before + MARK + table + MARK + after, encoding="utf-8")


if __name__ == "__main__":
    main()
