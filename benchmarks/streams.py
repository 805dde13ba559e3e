"""`python -m benchmarks.streams`: `Auto` on streams against the least gap possible.

−mean + 0.2·variance of Gaussian returns, whose minimum is known, as is tr(H⁻¹V)/2N, the least mean
gap after N samples (V: covariance of what one sample says of ∇F at the minimum). A ratio of 1 is
the best possible. The table goes to docs/auto.md.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mvrc
from benchmarks import paths

PAGE, MARK, RISK = paths.DOCS / "auto.md", "<!-- streams -->", 0.2

# d, dtype, seeds, samples of a run.
CASES = (
    (10, "float64", 32, 1_000_000), (30, "float32", 32, 1_000_000), (30, "float64", 32, 1_000_000),
    (100, "float64", 16, 1_000_000), (256, "float64", 8, 1_000_000), (400, "float64", 4, 500_000),
    (600, "float32", 3, 4_000_000),
)  # fmt: skip


def portfolio(d: int, dtype: Any, seed: int = 0) -> tuple[mvrc.Composition, Any, float, float]:
    """The problem, the gap of a point, tr(H⁻¹V)/2, the minimum."""
    rng = np.random.default_rng(seed)
    load = 0.8 * rng.uniform(0.5, 1.5, d)
    mean = 0.05 + 0.05 * rng.standard_normal(d)
    spread = rng.uniform(0.5, 2, d)
    S = np.outer(load, load) + np.diag(spread**2)
    H, best = 2 * RISK * S, np.linalg.solve(2 * RISK * S, mean)
    V = S + 4 * RISK**2 * (S * (best @ S @ best) + np.outer(S @ best, S @ best))
    given = [a.astype(dtype) for a in (mean, load, spread)]

    def draw(key: Any, size: int) -> Any:
        one, other = jax.random.split(key)
        market = jax.random.normal(one, (size, 1), dtype)
        return given[0] + market * given[1] + jax.random.normal(other, (size, d), dtype) * given[2]

    def inner(x: Any, r: Any) -> Any:
        return jnp.stack([r @ x, (r @ x) ** 2])

    def outer(y: Any) -> Any:
        return -y[0] + RISK * (y[1] - y[0] ** 2)

    def gap(x: Any) -> float:
        e = np.asarray(x, float) - best
        return float(0.5 * e @ H @ e)

    problem = mvrc.Composition(inner, outer, mvrc.Stream(draw))
    least = float(-mean @ best + RISK * best @ S @ best)
    return problem, gap, float(np.trace(np.linalg.solve(H, V)) / 2), least


def ratios(d: int, dtype: str, seeds: int, samples: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Samples of each epoch, the mean gap there over the least one, seconds of a run."""
    problem, gap, constant, _ = portfolio(d, np.dtype(dtype))
    runs, seconds = [], []
    for seed in range(seeds):
        made: list[tuple[int, float]] = []

        def keep(info: Any, made: list[tuple[int, float]] = made) -> None:
            made.append((info.counts.inner_values, gap(info.x)))

        began = time.perf_counter()
        mvrc.minimize(problem, np.zeros(d, dtype), samples=samples, seed=seed, callback=keep)
        seconds.append(time.perf_counter() - began)
        runs.append(made)
    shortest = min(map(len, runs))
    found = np.array([made[:shortest] for made in runs])
    drawn = found[:, :, 0].mean(axis=0)
    return drawn, found[:, :, 1].mean(axis=0) * drawn / constant, float(np.median(seconds))


def row(d: int, dtype: str, seeds: int, samples: int) -> str:
    drawn, found, seconds = ratios(d, dtype, seeds, samples)
    cells = []
    for mark in (2_000, 10_000, 100_000, samples):
        at = int(np.searchsorted(drawn, 0.97 * mark))
        far = at >= len(drawn) or drawn[at] > 2 * mark
        cells.append("–" if far else f"{found[at]:.2f}")
    line = f"| {d}, {dtype} | {seeds} | {' | '.join(cells)} | {seconds:.1f} |"
    print(line, flush=True)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--d", type=int, help="only this number of unknowns")
    only = parser.parse_args().d
    head = [
        "| d | seeds | gap / least gap at 2,000 samples | at 10,000 | at 100,000 | at the end "
        "(10⁶; d = 400: 5·10⁵, d = 600: 4·10⁶) | seconds per run |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    rows = [row(*case) for case in CASES if only in (None, case[0])]
    if only is None:
        before, _, after = PAGE.read_text(encoding="utf-8").split(MARK)
        table = "\n".join(["", "", *head, *rows, "", ""])
        PAGE.write_text(before + MARK + table + MARK + after, encoding="utf-8")


if __name__ == "__main__":
    main()
