"""`python -m benchmarks.training`: networks by `minimize` alone against naive minibatch Adam.

`Auto` has half of the seconds of Adam, which takes the gradient of the loss of its batch of 256 at
the best of four step sizes: all four are tried with the first seed, the best of them and its better
neighbour with the others. Both are judged by Φ over all samples; compiling is not counted.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import mvrc
from benchmarks import networks, paths
from benchmarks.report import machine
from mvrc import losses

RESULTS, PAGE = paths.RESULTS / "training.json", paths.DOCS / "networks.md"
MARK = "<!-- training -->"
RATES = (3e-4, 1e-3, 3e-3, 1e-2)
BATCH, CHUNK, SEEDS = 256, 100, 5
LARGE, SMALL = 60_000, 33_000  # samples
SMALL_NET, LARGE_NET = (64, 64, 10), (64, 256, 256, 10)


class Task(NamedTuple):
    """A problem, its start at a seed, and the seconds of Adam."""

    problem: mvrc.Composition
    start: Callable[[int], Any]
    seconds: float


def cross_entropy(x: Any, s: Any) -> Any:
    return networks.cross_entropy(x, s)[0]


def digits(rows: int, wrong: bool) -> dict[str, np.ndarray]:
    data = networks.digits(rows)
    if wrong:
        rng = np.random.default_rng(3)
        other = rng.integers(0, 10, rows).astype(np.int32)
        data["label"] = np.where(rng.random(rows) < 0.1, other, data["label"])
    return {"a": data["a"].astype("f"), "label": data["label"]}


def weights(sizes: tuple[int, ...]) -> Callable[[int], Any]:
    narrow = jax.tree_util.Partial(jax.tree_util.tree_map, lambda a: a.astype("f"))
    return lambda seed: narrow(networks.network(sizes, 1 + seed))


def classifier(loss: str, large: bool, wrong: bool) -> Task:
    data = digits(LARGE if large else SMALL, wrong)
    if loss == "tilted":
        problem = losses.tilted(cross_entropy, data, t=5.0, shift=2.5)
    else:
        problem = mvrc.Composition(networks.cross_entropy, lambda y: y[0], data)
    return Task(problem, weights(LARGE_NET if large else SMALL_NET), 40.0 if large else 20.0)


def ranking(large: bool) -> Task:
    data = digits(LARGE if large else SMALL, False)
    problem = losses.auc_margin(
        lambda x, a: networks.scores(x, a)[0], data["a"], (data["label"] == 8).astype(int)
    )
    sizes = (*(LARGE_NET if large else SMALL_NET)[:-1], 1)
    return Task(problem, weights(sizes), 40.0 if large else 20.0)


def sinusoids() -> Task:
    """MAML: 20 tasks, 2,000 support and 50 query points of each, α = 0.02."""
    rng = np.random.default_rng(0)
    height, phase = rng.uniform(0.1, 5, 20), rng.uniform(0, np.pi, 20)
    a, q = rng.uniform(-5, 5, (2000, 20)), rng.uniform(-5, 5, (20, 50))
    targets = height * np.sin(a + phase), height[:, None] * np.sin(q + phase[:, None])

    def squared(x: Any, s: Any) -> Any:
        return (networks.scores(x, s[0][None])[0] - s[1]) ** 2

    support = a.astype("f"), targets[0].astype("f")
    query = q.astype("f"), targets[1].astype("f")
    return Task(losses.maml(squared, support, query, 0.02), weights((1, 40, 40, 1)), 40.0)


TASKS: dict[str, Callable[[], Task]] = {
    "cross-entropy, d = 4,810": lambda: classifier("mean", False, False),
    "cross-entropy, 10 % wrong labels, d = 4,810": lambda: classifier("mean", False, True),
    "tilted t = 5, d = 4,810": lambda: classifier("tilted", False, False),
    "tilted t = 5, 10 % wrong labels, d = 4,810": lambda: classifier("tilted", False, True),
    "cross-entropy, d = 85,002": lambda: classifier("mean", True, False),
    "cross-entropy, 10 % wrong labels, d = 85,002": lambda: classifier("mean", True, True),
    "tilted t = 5, d = 85,002": lambda: classifier("tilted", True, False),
    "tilted t = 5, 10 % wrong labels, d = 85,002": lambda: classifier("tilted", True, True),
    "AUC margin, d = 4,225": lambda: ranking(False),
    "AUC margin, d = 82,689": lambda: ranking(True),
    "MAML on 20 sinusoids, d = 1,761": sinusoids,
}


def adam(task: Task, x0: Any, rate: float, seed: int, value: Any) -> float:
    """Φ after so many seconds of plain minibatch Adam."""
    problem, optimizer = task.problem, optax.adam(rate)
    data = jax.tree_util.tree_map(jnp.asarray, problem.inner_data)

    def batch_loss(x: Any, batch: Any) -> Any:
        y = jax.vmap(problem.inner, (None, 0))(x, batch)
        return problem.outer(jax.tree_util.tree_map(lambda a: a.mean(axis=0), y))

    def step(carry: Any, key: Any) -> Any:
        x, state = carry
        rows = jax.random.randint(key, (BATCH,), 0, problem.n)
        slope = jax.grad(batch_loss)(x, jax.tree_util.tree_map(lambda a: a[rows], data))
        updates, state = optimizer.update(slope, state, x)
        return (optax.apply_updates(x, updates), state), None

    @jax.jit
    def chunk(carry: Any, key: Any) -> Any:
        return jax.lax.scan(step, carry, jax.random.split(key, CHUNK))[0]

    keys = jax.random.split(jax.random.key(seed), 100_000)
    carry = jax.tree_util.tree_map(jnp.asarray, x0), optimizer.init(x0)
    jax.block_until_ready(chunk(carry, keys[0]))
    start = time.perf_counter()
    for key in keys:
        carry = jax.block_until_ready(chunk(carry, key))
        if time.perf_counter() - start > task.seconds:
            break
    return value(carry[0])


def compared(task: Task, seed: int, rates: tuple[float, ...]) -> dict[str, Any]:
    x0 = task.start(seed)

    def value(x: Any) -> float:
        found = float(task.problem.objective(jax.tree_util.tree_map(np.asarray, x)))
        return found if np.isfinite(found) else np.inf

    start = time.perf_counter()
    result = mvrc.minimize(task.problem, x0, seconds=task.seconds / 2, seed=seed)
    row = {
        "auto": value(result.x), "status": result.status.name, "whole": time.perf_counter() - start,
        "seconds": float(result.history["wall_seconds"][-1]), "start": value(x0),
        "passes": result.counts.inner_values / (task.problem.n or 1),
    }  # fmt: skip
    return row | {"adam": {str(rate): adam(task, x0, rate, seed, value) for rate in rates}}


def chosen(first: dict[str, float]) -> tuple[float, ...]:
    """The best step size and its better neighbour."""
    values = [first[str(rate)] for rate in RATES]
    best = int(np.argmin(values))
    near = [i for i in (best - 1, best + 1) if 0 <= i < len(RATES)]
    return RATES[best], RATES[min(near, key=values.__getitem__)]


def markdown(found: dict[str, list[dict[str, Any]]]) -> str:
    lines = [
        "| problem | seeds | `Auto`, half of the time | best Adam | won |",
        "|---|---|---|---|---|",
    ]
    for name, rows in found.items():
        mine = [row["auto"] for row in rows]
        other = [min(row["adam"].values()) for row in rows]
        won = sum(a <= b for a, b in zip(mine, other, strict=True))
        middle, rival = float(np.median(mine)), float(np.median(other))
        lines.append(f"| {name} | {len(rows)} | {middle:.3g} | {rival:.3g} | {won} |")
    return "\n".join(["", *lines, ""])


def main() -> None:
    """`python -m benchmarks.training [part of a name] [--seeds 5]`: goes on where it stopped."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("wanted", nargs="?", default="")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--fresh", action="store_true", help="measure anew what is there")
    given = parser.parse_args()
    found = json.loads(RESULTS.read_text())["tasks"] if RESULTS.exists() else {}
    names = [name for name in TASKS if given.wanted in name]
    for name in names if given.fresh else ():
        found.pop(name, None)
    for seed in range(given.seeds):
        for name in names:
            rows = found.setdefault(name, [])
            if len(rows) > seed:
                continue
            rates = chosen(rows[0]["adam"]) if rows else RATES
            rows.append(compared(TASKS[name](), seed, rates))
            print(name, seed, rows[-1], flush=True)
            kept = {"machine": machine.facts(), "tasks": found}
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    text = PAGE.read_text()
    before, after = text.split(MARK)[0], text.split(MARK)[-1]
    ordered = {name: found[name] for name in TASKS if name in found}
    PAGE.write_text(before + MARK + "\n" + markdown(ordered) + "\n" + MARK + after)


if __name__ == "__main__":
    main()
