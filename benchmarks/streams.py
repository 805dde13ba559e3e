"""`python -m benchmarks.streams`: `Auto` on streams against the least gap possible.

−mean + 0.2·variance of Gaussian returns, whose minimum is known, as is tr(H⁻¹V)/2N, the least mean
gap after N samples (V: covariance of what one sample says of ∇F at the minimum). A ratio of 1 is
the best possible. The table goes to docs/auto.md.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mvrc
from benchmarks import paths
from benchmarks.report import machine

PAGE, MARK, RISK = paths.DOCS / "auto.md", "<!-- streams -->", 0.2

RESULTS = paths.RESULTS / "streams.json"
MARKS = (2_000, 10_000, 100_000)
COVERED, SHORT = 100, 20_000  # runs whose intervals are judged, and their samples

# d, dtype, seeds, samples of a run.
CASES = (
    (10, "float64", 32, 1_000_000), (30, "float32", 16, 1_000_000), (30, "float64", 16, 1_000_000),
    (100, "float64", 8, 500_000), (256, "float64", 4, 500_000), (400, "float64", 2, 500_000),
    (600, "float32", 2, 2_000_000),
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


def row(d: int, dtype: str, seeds: int, samples: int) -> dict[str, Any]:
    drawn, found, seconds = ratios(d, dtype, seeds, samples)
    cells = []
    for mark in (*MARKS, samples):
        at = int(np.searchsorted(drawn, 0.97 * mark))
        far = at >= len(drawn) or drawn[at] > 2 * mark
        cells.append(None if far else float(found[at]))
    later = [v for n, v in zip(drawn, found, strict=True) if n >= samples / 100]
    return {
        "d": d, "dtype": dtype, "seeds": seeds, "samples": samples, "ratios": cells,
        "worst": max(later), "seconds": seconds, "path": [drawn.tolist(), found.tolist()],
    }  # fmt: skip


def covered(d: int = 10) -> int:
    """Of so many runs, how many intervals have Φ at the point that is returned."""
    problem, gap, _, least = portfolio(d, np.dtype("float64"))
    inside = 0
    for seed in range(COVERED):
        result = mvrc.minimize(problem, np.zeros(d), samples=SHORT, seed=seed)
        low, high = result.interval
        inside += low <= least + gap(result.x) <= high
    return inside


def markdown(found: dict[str, Any]) -> str:
    head = " | ".join(f"at {mark:,}" for mark in MARKS)
    lines = [
        f"| d | seeds | gap / least gap {head} | at the end | worst of the last two decades "
        "| seconds per run |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for case in CASES:
        line = found["rows"].get(f"{case[0]}, {case[1]}")
        if line is None:
            continue
        cells = ["–" if v is None else f"{v:.2f}" for v in line["ratios"]]
        cells[-1] += f" ({line['samples']:,})"
        lines.append(
            f"| {line['d']}, {line['dtype']} | {line['seeds']} | {' | '.join(cells)} "
            f"| {line['worst']:.2f} | {line['seconds']:.1f} |"
        )
    if "covered" in found:
        lines += ["", f"Of {COVERED} runs of {SHORT:,} samples (d = 10) {found['covered']} had Φ, "
                  "which is known here, within their interval of 90 %."]  # fmt: skip
    return "\n".join(["", "", *lines, "", ""])


def main() -> None:
    """`python -m benchmarks.streams [--d 30] [--intervals]`: streams.json, docs/auto.md's table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--d", type=int, help="only this number of unknowns; others are kept")
    parser.add_argument("--intervals", action="store_true", help="only how often they are right")
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}
    for case in () if given.intervals else CASES:
        if given.d in (None, case[0]):
            made = row(*case)
            print({k: v for k, v in made.items() if k != "path"}, flush=True)
            found["rows"][f"{case[0]}, {case[1]}"] = made
    if given.intervals or given.d is None:
        found["covered"] = covered()
        print(f"{found['covered']} of {COVERED} intervals")
    found["machine"] = machine.facts()
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    before, _, after = PAGE.read_text(encoding="utf-8").split(MARK)
    PAGE.write_text(before + MARK + markdown(found) + MARK + after, encoding="utf-8")


if __name__ == "__main__":
    main()
