"""`python -m benchmarks.held_out`: instances that had no part in choosing any constant of `Auto`.

`Auto` with nothing chosen against FISTA and VRSC-PG at the best of eight steps each. Results go to
results/held_out.json, from where `benchmarks.comparison` takes them. The arguments are those of
`benchmarks.auto`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import paths
from benchmarks.auto import STEPS, limit, one, recipe, record
from benchmarks.cases import instances
from benchmarks.cases.instances import Instance
from mvrc.applications import mean_semideviation, mean_variance, neighbor_embedding, sparse_additive
from mvrc.datasets import simulate_housing, simulate_industry

RESULTS = paths.RESULTS / "held_out.json"
METHODS = ("fista", "vrsc-pg")


def held_out() -> dict[str, Callable[[], Instance]]:
    """By name; each is built when it is called."""
    return {
        "mean–variance, simulated, seed 11": lambda: _variance(11),
        "mean–variance, simulated, seed 12": lambda: _variance(12),
        "mean–CVaR, 38 industries": lambda: instances.cvar("industry38"),
        "mean–semideviation, 38 industries": lambda: _semideviation("industry38"),
        "mean–semideviation, S&P 500": lambda: _semideviation("sp500"),
        "Bellman residual, 300 states, seed 1": lambda: instances.chain("one-level", 300, 15, 1),
        "Bellman residual, 300 states, seed 2": lambda: instances.chain("one-level", 300, 15, 2),
        "Bellman residual, two levels, seed 3": lambda: instances.chain("two-level", 300, 15, 3),
        "SpAM of the paper, simulated, seed 6": lambda: _additive(6),
        "SpAM of the paper, simulated, seed 7": lambda: _additive(7),
        "SNE, wine": _wine,
        "random nonconvex, seed 1": lambda: instances.random(1),
        "random nonconvex, seed 2": lambda: instances.random(2),
        "random nonconvex, seed 3": lambda: instances.random(3),
    }


def _variance(seed: int) -> Instance:
    data = simulate_industry(n=5_000, d=25, seed=seed).values
    return Instance("mean–variance", True, mean_variance(data, 0.2, 0.01), np.zeros(25), 256)


def _semideviation(name: str) -> Instance:
    data = instances.returns(name)
    d = data.shape[1]
    return Instance("semideviation", True, mean_semideviation(data), np.full(d, 1 / d), 256)


def _additive(seed: int) -> Instance:
    houses = simulate_housing(seed=seed)
    X, y = houses.X, houses.y
    return Instance("SpAM, paper", False, sparse_additive(X, y), np.full(X.shape[1], 0.01))


def _wine() -> Instance:
    from sklearn.datasets import load_wine

    X = load_wine(return_X_y=True)[0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    x0 = 0.1 * np.random.default_rng(0).standard_normal((len(X), 2))
    return Instance("SNE", False, neighbor_embedding(X, perplexity=20, keep=60), x0)


def compare(instance: Instance) -> dict[str, Any]:
    """Passes of g to the goal, of the best of the others."""
    most = limit(instance.problem.n or 1)
    best: dict[str, Any] | None = None
    for name in METHODS:
        for factor in STEPS:
            run = one(instance, recipe(name, instance, factor * instance.step), most)
            if run["values"] is not None and (best is None or run["values"] < best["values"]):
                best = {"method": name, "factor": factor} | run
                most = run["values"]
    facts = {"n": instance.problem.n, "d": instance.unknowns, "convex": instance.convex}
    return facts | {"best": best}


def beside(instance: Instance, row: dict[str, Any]) -> dict[str, Any]:
    """With those of `Auto`."""
    return row | {"auto": one(instance, "auto", limit(instance.problem.n or 1))}


def sentence(row: dict[str, Any]) -> str:
    """The outcome for the terminal."""
    best = row["best"] and f"{row['best']['method']} {row['best']['values']:.1f}"
    return f"Auto {row['auto']['values']}, {row['auto']['status']}; {best}"


def main() -> None:
    """The same command line as `benchmarks.auto`."""
    record(RESULTS, held_out(), compare, beside, sentence)


if __name__ == "__main__":
    main()
