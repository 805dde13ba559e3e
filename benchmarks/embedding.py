"""`python -m benchmarks.embedding [tsne] [coupled] [today] [page]`: 20,000 points in the plane.

Images of digits, turned, moved and scaled at random, by scikit-learn's TSNE, and in the same
seconds, neighbours and compilation counted, by SOX with Adam on `neighbor_embedding_coupled` and by
`Auto` on `neighbor_embedding`. What each part finds is kept in the folder of temporary files; page
writes docs/embedding.md and docs/images/embedding_coupled.png.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import optax
from scipy.ndimage import affine_transform
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE

import mvrc
from benchmarks import paths
from mvrc.applications import neighbor_embedding, neighbor_embedding_coupled
from mvrc.estimators import Sox

PAGE, MARK = paths.DOCS / "embedding.md", "<!-- many -->"
FILE = paths.IMAGES / "embedding_coupled.png"
KEPT = Path(tempfile.gettempdir()) / "mvrc-embedding"
POINTS, PERPLEXITY, NEIGHBOURS = 20_000, 10.0, 30
OUTER, INNER, RATE = 1000, 500, 0.5  # |B₁|, |B₂|, Adam's step size, falling along a cosine
NAMES = {
    "tsne": "scikit-learn's TSNE",
    "coupled": "`neighbor_embedding_coupled`, SOX",
    "today": "`neighbor_embedding`, `Auto`",
}


def images(count: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    pixels, digit = load_digits(return_X_y=True)
    rng = np.random.default_rng(1)
    chosen = rng.permutation(np.arange(count) % len(pixels))
    made = np.empty((count, 64), "f")
    centre = np.array([3.5, 3.5])
    for i, j in enumerate(chosen):
        angle, scale = rng.uniform(-0.15, 0.15), rng.uniform(0.92, 1.08)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) * scale
        shift = centre - turn @ (centre + rng.uniform(-0.3, 0.3, 2))
        made[i] = affine_transform(pixels[j].reshape(8, 8), turn, shift, order=1).ravel()
    return made, digit[chosen]


def start(X: np.ndarray) -> np.ndarray:
    """The first two principal axes, with a standard deviation of 1 along the first."""
    centred = X - X.mean(axis=0)
    flat = centred @ np.linalg.svd(centred.T @ centred)[0][:, :2]
    return (flat / flat[:, 0].std()).astype("f")


def quality(X: np.ndarray, places: np.ndarray, digit: np.ndarray) -> tuple[float, float]:
    """Trustworthiness with five neighbours, and how often ten neighbours in the plane vote for the
    right digit, over 2,000 of the points beside all others."""
    few, n, k = np.random.default_rng(0).choice(len(X), 2000, replace=False), len(X), 5
    missed, right = 0.0, 0
    for part in np.array_split(few, 20):
        far, near = cdist(X[part], X), cdist(places[part], places)
        for block in (far, near):
            block[np.arange(len(part)), part] = np.inf
        rank = np.argsort(np.argsort(far, axis=1), axis=1)
        order = np.argsort(near, axis=1)
        ranks = np.take_along_axis(rank, order[:, :k], 1)
        missed += np.maximum(ranks + 1 - k, 0).sum()
        votes = np.array([np.bincount(row, minlength=10).argmax() for row in digit[order[:, :10]]])
        right += int(np.sum(votes == digit[part]))
    return 1 - 2 * missed / (len(few) * k * (2 * n - 3 * k - 1)), right / len(few)


def tsne(X: np.ndarray) -> tuple[Any, str]:
    model = TSNE(perplexity=PERPLEXITY, init=1e-4 * start(X), random_state=0)
    return model.fit_transform(X), f"{model.n_iter_ + 1:,} iterations"


def coupled(X: np.ndarray) -> tuple[Any, str]:
    began, limit = time.perf_counter(), seconds_of("tsne")
    problem = neighbor_embedding_coupled(
        X, PERPLEXITY, keep=NEIGHBOURS, kernel="student", inner_batch=INNER
    )

    def method(steps: int, period: int) -> mvrc.Method:
        falling = optax.cosine_decay_schedule(RATE, steps, 0.01)
        sox = Sox(mvrc.Power(0.5), mvrc.Power(1.0), "first")
        scheme = mvrc.OptaxScheme(optax.adam(falling))
        return mvrc.Method(sox, scheme, mvrc.Sizes(OUTER), period=period)

    options: dict[str, Any] = {"record_every": 1000, "measure_samples": 100}
    x0 = start(X)
    trial = mvrc.minimize(problem, x0, method(200, 200), epochs=1, **options)  # how fast it is
    left = 0.93 * (limit - (time.perf_counter() - began))
    steps = int(left / (trial.seconds / 200))
    result = mvrc.minimize(problem, x0, method(steps, 200), epochs=steps // 200, **options)
    return result.x, f"{steps:,} steps of {1e3 * result.seconds / steps:.1f} ms"


def today(X: np.ndarray) -> tuple[Any, str]:
    began, limit = time.perf_counter(), seconds_of("tsne")
    problem = neighbor_embedding(X, PERPLEXITY, keep=NEIGHBOURS)
    left = limit - (time.perf_counter() - began)
    result = mvrc.minimize(problem, start(X), seconds=left)
    return result.x, f"{result.epochs} passes"


PARTS = {"tsne": tsne, "coupled": coupled, "today": today}


def seconds_of(name: str) -> float:
    return float(np.load(KEPT / f"{name}.npz")["seconds"])


def page() -> None:
    X, digit = images()
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained")
    lines = [
        "| 20,000 points | seconds | work | trustworthiness | right digit of 10 neighbours |",
        "|---|--:|--:|--:|--:|",
    ]
    for axis, (name, words) in zip(axes, NAMES.items(), strict=True):
        found = np.load(KEPT / f"{name}.npz")
        trust, right = quality(X, found["places"], digit)
        seconds, work = float(found["seconds"]), str(found["work"])
        lines.append(f"| {words} | {seconds:.0f} | {work} | {trust:.3f} | {100 * right:.1f} % |")
        print(lines[-1], flush=True)
        places = found["places"]
        axis.scatter(*places.T, c=digit, s=0.5, cmap="tab10", linewidths=0, rasterized=True)
        low, high = np.quantile(places, (0.001, 0.999), axis=0)
        room = 0.05 * (high - low)
        axis.set(
            title=words.replace("`", ""), xticks=[], yticks=[],
            xlim=(low[0] - room[0], high[0] + room[0]), ylim=(low[1] - room[1], high[1] + room[1]),
        )  # fmt: skip
    figure.savefig(FILE, dpi=120)
    before, _, after = PAGE.read_text(encoding="utf-8").split(MARK)
    table = "\n\n" + "\n".join(lines) + "\n\n"
    PAGE.write_text(before + MARK + table + MARK + after, encoding="utf-8")


def main() -> None:
    KEPT.mkdir(exist_ok=True)
    asked = sys.argv[1:] or [*PARTS, "page"]
    for name in asked:
        if name == "page":
            page()
            continue
        X, _ = images()
        began = time.perf_counter()
        places, work = PARTS[name](X)
        took = time.perf_counter() - began
        np.savez(KEPT / f"{name}.npz", places=places, work=work, seconds=took)
        print(f"{name}: {took:.1f} s, {work}", flush=True)


if __name__ == "__main__":
    main()
