"""The applications as they are timed: seeded data of the usual size, problem and start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mvrc
from benchmarks.cases import problems

Made = tuple[mvrc.Composition, Any]


def _variance(dtype: str) -> Made:
    from mvrc.applications import mean_variance

    data = problems.returns(dtype=np.dtype(dtype))
    return mean_variance(data, 0.2, 0.01), np.zeros(data.shape[1], dtype)


def _semideviation(dtype: str) -> Made:
    from mvrc.applications import mean_semideviation

    data = problems.returns(dtype=np.dtype(dtype))
    d = data.shape[1]
    return mean_semideviation(data), np.full(d, 1 / d, dtype)


def _cvar(dtype: str) -> Made:
    from mvrc.applications import mean_cvar

    data = problems.returns(dtype=np.dtype(dtype))
    d = data.shape[1]
    return mean_cvar(data), {"weights": np.full(d, 1 / d, dtype), "threshold": np.zeros((), dtype)}


def _bellman(form: str) -> Callable[[str], Made]:
    def make(dtype: str) -> Made:
        from mvrc.applications import bellman
        from mvrc.datasets import random_mdp

        chain = random_mdp(400, 10)
        arrays = (chain.transition, chain.rewards, chain.features)
        problem = bellman(*(a.astype(dtype) for a in arrays), chain.gamma, form)
        return problem, np.zeros(10, dtype)

    return make


def additive(dtype: str) -> Made:
    from mvrc.applications import sparse_additive

    rng = np.random.default_rng(0)
    X = rng.standard_normal((5_000, 100)).astype(dtype)
    return sparse_additive(X, np.abs(X[:, 0])), np.full(100, 0.01, dtype)


def _splines(dtype: str) -> Made:
    from mvrc.applications import sparse_additive_convex

    rng = np.random.default_rng(0)
    B = rng.standard_normal((20_000, 64)).astype(dtype)
    groups = np.repeat(np.arange(8), 8)
    return sparse_additive_convex(B, B[:, 0].copy(), groups, 0.1), np.zeros(64, dtype)


def _embedding(dtype: str) -> Made:
    from mvrc.applications import neighbor_embedding

    rng = np.random.default_rng(0)
    points = rng.standard_normal((1_797, 64)).astype(dtype)
    problem = neighbor_embedding(points, perplexity=30, keep=90)
    return problem, (0.1 * rng.standard_normal((1_797, 2))).astype(dtype)


PROBLEMS: dict[str, Callable[[str], Made]] = {
    "mean–variance, 24,452 × 30": _variance,
    "mean–semideviation, 24,452 × 30": _semideviation,
    "mean–CVaR, 24,452 × 30": _cvar,
    "Bellman residual, 400 states": _bellman("one-level"),
    "Bellman residual, 400 states, two levels": _bellman("two-level"),
    "sparse additive, 5,000 × 100": additive,
    "sparse additive with splines, 20,000 × 64": _splines,
    "neighbour embedding, 1,797 points": _embedding,
}

# One of each kind, for the short run.
SHORT = (
    "mean–CVaR, 24,452 × 30",
    "Bellman residual, 400 states, two levels",
    "sparse additive, 5,000 × 100",
    "neighbour embedding, 1,797 points",
)
