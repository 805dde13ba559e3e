"""`python -m benchmarks.libauc [ranks] [time]`: average precision beside LibAUC.

For docs/coupled.md.

A network with 32 hidden units on digits, one class of which few are left against all others: SOX
with Adam, and LibAUC's APLoss with its optimiser SOAP in its mode adam, from the same x0, at equal
samples, γ and margin. Each has the step size and the share of positives that are best by the mean
on the held-out halves of twelve splits, and is reported on those of ten others. Needs
`make .venv/.torch`.
"""

from __future__ import annotations

import sys
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
SAMPLES, STEPS = 64, 2000
RATES, GAMMA, MARGIN = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1), 0.5, 1.0
# Of ours outer samples of a batch, and negatives to each positive among its inner ones; of theirs
# positives of a batch, which are its outer samples and inner ones too (32 is its default).
OURS, THEIRS = ((8, None), (8, 7), (8, 1), (16, 1), (32, 1)), (8, 32)
CHOOSING, REPORTED = range(100, 112), range(20, 30)  # seeds of splits, x0 and batches


def data(seed: int) -> tuple[Any, ...]:
    """Rows of training and test, and their labels; both halves have 45 positives."""
    rng = np.random.default_rng(seed)
    pixels, digit = load_digits(return_X_y=True)
    rows, labels = (pixels / 16).astype("f"), (digit == 8).astype(int)
    others = rng.permutation(np.flatnonzero(labels == 0))
    few = rng.permutation(np.flatnonzero(labels))[:90]
    half = len(others) // 2
    parts = np.r_[few[:45], others[:half]], np.r_[few[45:], others[half:]]
    return *(rows[p] for p in parts), *(labels[p] for p in parts)


def network(seed: int) -> eqx.nn.MLP:
    return eqx.nn.MLP(64, 1, 32, 1, key=jax.random.key(seed))


def ours(
    rows: Any, labels: Any, rate: float, share: tuple[int, int | None], seed: int
) -> tuple[Any, float]:
    """Scores of a network as a function, and seconds of a step."""
    outer, negatives = share
    problem = losses.average_precision(
        lambda net, row: jax.nn.sigmoid(net(row)[0]), rows, labels, MARGIN,
        inner_batch=(SAMPLES - outer) // (1 + (negatives or 0)), negatives=negatives,
    )  # fmt: skip
    scheme = mvrc.OptaxScheme(optax.adamw(rate, weight_decay=1e-5))
    method = mvrc.Method(
        Sox(mvrc.Power(GAMMA), mvrc.Power(1.0), "first"), scheme, mvrc.Sizes(outer),
        period=STEPS,
    )  # fmt: skip
    result = mvrc.minimize(problem, network(seed), method, epochs=1, seed=seed, measure_samples=64)
    return lambda x: np.asarray(jax.vmap(result.x)(x))[:, 0], result.seconds / STEPS


def theirs(rows: Any, labels: Any, rate: float, positives: int, seed: int) -> tuple[Any, float]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    first, last = (torch.nn.Linear(*size) for size in ((64, 32), (32, 1)))
    with torch.no_grad():
        for layer, same in zip((first, last), network(seed).layers, strict=True):
            layer.weight.copy_(torch.tensor(np.asarray(same.weight)))
            layer.bias.copy_(torch.tensor(np.asarray(same.bias)))
    net = torch.nn.Sequential(first, torch.nn.ReLU(), last, torch.nn.Sigmoid())
    loss = APLoss(data_len=len(rows), gamma=GAMMA, margin=MARGIN)
    optimizer = SOAP(net.parameters(), lr=rate, mode="adam", verbose=False)
    x, y = torch.from_numpy(rows), torch.from_numpy(labels)
    few, others = np.flatnonzero(labels), np.flatnonzero(labels == 0)
    began = time.perf_counter()
    for _ in range(STEPS):  # as its DualSampler: so many of each class
        k = np.r_[
            rng.choice(few, positives, replace=False),
            rng.choice(others, SAMPLES - positives, replace=False),
        ]
        index = torch.from_numpy(k)
        optimizer.zero_grad()
        loss(net(x[index]), y[index], index).backward()
        optimizer.step()
    seconds = (time.perf_counter() - began) / STEPS
    return lambda a: net(torch.from_numpy(a)).detach().numpy()[:, 0], seconds


SIDES: dict[str, tuple[Any, Any, str]] = {
    "mvrc, SOX": (ours, OURS, "batch_size={0[0]}, negatives={0[1]}"),
    "LibAUC 2.0.1, APLoss + SOAP": (theirs, THEIRS, "{0} of 64 positive"),
}


def held_out(train: Any, rate: float, share: Any, seeds: Any) -> np.ndarray:
    """Average precision on the rows that were not seen, for each seed."""
    found = []
    for seed in seeds:
        fit, test, known, wanted = data(seed)
        score, _ = train(fit, known, rate, share, seed)
        found.append(average_precision_score(wanted, score(test)))
    return np.array(found)


def ranks() -> list[str]:
    lines = [
        "| | average precision, held out | quartiles | share | step size |",
        "|---|--:|--:|--:|--:|",
    ]
    told = {}
    for name, (train, shares, words) in SIDES.items():
        best: tuple[float, Any] = (-1.0, None)
        for share in shares:
            for rate in RATES:
                mean = held_out(train, rate, share, CHOOSING).mean()
                print(
                    f"  choosing: {name}, {words.format(share)}, {rate:g}: {mean:.4f}", flush=True
                )
                best = max(best, (mean, (share, rate)), key=lambda pair: pair[0])
        share, rate = best[1]
        told[name] = held_out(train, rate, share, REPORTED)
        low, middle, high = np.quantile(told[name], (0.25, 0.5, 0.75))
        shown = words.format(share)
        lines.append(f"| {name} | {middle:.3f} | {low:.3f} to {high:.3f} | {shown} | {rate:g} |")
        print(lines[-1], flush=True)
    first, second = told.values()
    gap = first - second
    lines.append("")
    lines.append(
        f"Seed by seed ours is {gap.mean():+.3f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.3f} from "
        f"theirs (mean and its standard error), and ahead in {np.sum(gap > 0)} of {len(gap)}."
    )
    print(lines[-1])
    return lines


def times() -> list[str]:
    fit, _, known, _ = data(0)
    found: dict[str, list[float]] = {name: [] for name in SIDES}
    for _ in range(5):  # in turns
        for name, (train, shares, _) in SIDES.items():
            found[name].append(train(fit, known, 1e-2, shares[-1], 0)[1])
    best = {name: min(seconds) for name, seconds in found.items()}
    each = ", ".join(f"{name}: {1e6 * t:.0f} µs" for name, t in best.items())
    first, second = best.values()
    lines = [f"A step takes: {each}; ours {first / second:.2f} of theirs."]
    print(lines[0])
    return lines


def main() -> None:
    torch.set_num_threads(1)  # faster for such small batches
    parts = {"ranks": ranks, "time": times}
    for i, (name, part) in enumerate(parts.items()):  # between pairs of marks
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        lines = part()
        texts = PAGE.read_text(encoding="utf-8").split(MARK)
        texts[2 * i + 1] = "\n\n" + "\n".join(lines) + "\n\n"
        PAGE.write_text(MARK.join(texts), encoding="utf-8")


if __name__ == "__main__":
    main()
