"""`python -m benchmarks.trackers`: a tracker's update beside `jax.value_and_grad` of its batch.

The loss of a batch is log E exp(loss) (p = 1) or the AUC margin loss (p = 5) on an MLP of 85,002
(82,689) or 4,810 (4,225) unknowns, float32. Both are compiled, with the tracker's state donated,
and timed in turns; the table of best times over the best of the gradient goes to docs/networks.md.
Demanded at p = 1, d = 85,002 and batches of 256 and more: SCGD 1.3 ×, STORM 2.3 ×.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mvrc
from benchmarks import networks, paths
from benchmarks.report import machine
from benchmarks.timing import Spread, in_turns, wall
from mvrc.losses.auc import auc_functions

RESULTS, PAGE = paths.RESULTS / "trackers.json", paths.DOCS / "networks.md"
MARK = "<!-- trackers -->"
ESTIMATORS = ("scgd", "scsc", "storm", "nasa")
SIZES = {"85,002": (64, 256, 256), "4,810": (64, 64)}
BATCHES = (16, 256, 1024)


def tilted(x: Any, s: Any) -> Any:
    return jnp.exp(networks.cross_entropy(x, s))


def functions(p: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    if p == 1:
        return tilted, lambda y: jnp.log(y[0])
    return auc_functions(score)


def score(x: Any, a: Any) -> Any:
    return networks.scores(x, a)[0]


def times(p: int, hidden: tuple[int, ...], batch: int, seconds: float) -> dict[str, Any]:
    """Best and median seconds of the gradient and of each estimator's update."""
    inner, outer = functions(p)
    narrow = jax.tree_util.Partial(jax.tree_util.tree_map, lambda a: a.astype("f"))
    x = jax.device_put(narrow(networks.network((*hidden, 10 if p == 1 else 1))))
    data = networks.digits(batch)
    images, eight = data["a"].astype("f"), (data["label"] == 8).astype(np.int32)
    rows = jax.device_put({"a": images, "label": data["label"]} if p == 1 else (images, eight))

    def loss(x: Any, rows: Any) -> Any:
        y = jax.vmap(inner, (None, 0))(x, rows)
        return outer(jax.tree_util.tree_map(lambda a: a.mean(axis=0), y))

    plain = jax.jit(jax.value_and_grad(loss))
    runs: dict[str, Callable[[], float]] = {
        "gradient": lambda: wall(lambda: jax.block_until_ready(plain(x, rows)))
    }
    for name in ESTIMATORS:
        runs[name] = _run(mvrc.tracker(inner, outer, name), x, rows)
    for run in runs.values():
        run()
    found = in_turns(runs, seconds, 20)
    return {name: [Spread.of(t).best, Spread.of(t).median] for name, t in found.items()}


def _run(tracker: Any, x: Any, rows: Any) -> Callable[[], float]:
    """One update, from the state of the last."""
    update = jax.jit(tracker.update, donate_argnums=0)
    kept = [jax.jit(tracker.init)(x, rows)]

    def once() -> None:
        gradient, kept[0] = update(kept[0], x, rows)
        jax.block_until_ready((gradient, kept[0]))

    return lambda: wall(once)


def markdown(found: dict[str, Any]) -> str:
    names = " | ".join(f'`"{name}"`' for name in ESTIMATORS)
    lines = [
        f"| p, d, batch | gradient | {names} |",
        "|---|--:|" + "--:|" * len(ESTIMATORS),
    ]
    for key, row in found.items():
        first = row["gradient"][0]
        ratios = (f"{row[name][0] / first:.2f} ×" for name in ESTIMATORS)
        lines.append(f"| {key} | {1e3 * first:.2f} ms | {' | '.join(ratios)} |")
    return "\n".join(["", *lines, ""])


def main() -> None:
    """`python -m benchmarks.trackers [part of a case] [--seconds 8]`: goes into trackers.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wanted", nargs="?", default="")
    parser.add_argument("--seconds", type=float, default=8.0, help="for each case")
    given = parser.parse_args()
    found = json.loads(RESULTS.read_text())["cases"] if RESULTS.exists() else {}
    for p in (1, 5):
        for words, hidden in SIZES.items():
            d = words if p == 1 else {"85,002": "82,689", "4,810": "4,225"}[words]
            for batch in BATCHES:
                key = f"{p}, {d}, {batch}"
                if given.wanted in key:
                    found[key] = times(p, hidden, batch, given.seconds)
                    print(key, {k: np.round(1e3 * np.array(v), 3) for k, v in found[key].items()})
    RESULTS.write_text(json.dumps({"machine": machine.facts(), "cases": found}, indent=1) + "\n")
    text = PAGE.read_text()
    before, after = text.split(MARK)[0], text.split(MARK)[-1]
    PAGE.write_text(before + MARK + "\n" + markdown(found) + "\n" + MARK + after)


if __name__ == "__main__":
    main()
