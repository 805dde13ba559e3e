"""Instances on which `Auto` is compared with tuned methods: a problem, a start, a measure, a goal.

On a convex instance the measure is the relative gap (Φ(x) − Φ*)/(Φ(x₀) − Φ*), on a nonconvex one
the gradient mapping as a share of its start; the goal is 1e-6 of either. A stationary point above
Φ(x₀), such as x = 0 of the paper's SpAM, reaches none.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mvrc
from mvrc.applications import (
    bellman,
    mean_cvar,
    mean_semideviation,
    mean_variance,
    neighbor_embedding,
    sparse_additive,
    sparse_additive_convex,
)
from mvrc.applications.additive import largest_penalty
from mvrc.applications.additive.splines import SplineBasis
from mvrc.datasets import random_mdp, simulate_industry
from mvrc.experiments import sources
from mvrc.oracle import exact
from mvrc.theory.smoothness import default_step_size

GOAL = 1e-6


@dataclasses.dataclass(frozen=True, eq=False)
class Instance:
    """One comparison."""

    name: str
    convex: bool
    problem: mvrc.Composition
    x0: Any
    batch: int | None = None  # of the small batches; None: each method's own default

    @property
    def unknowns(self) -> int:
        return sum(np.size(leaf) for leaf in jax.tree_util.tree_leaves(self.x0))

    @property
    def entries(self) -> int:
        """Numbers that are kept of the Jacobian of g."""
        x0 = self.problem.start(self.x0)
        with self.problem.precision(x0):
            return self.problem.geometry(x0).jacobian.entries

    @property
    def penalised(self) -> bool:
        return not isinstance(self.problem.regularizer, mvrc.Zero)

    @functools.cached_property
    def step(self) -> float:
        """1/L, with L as found near x₀; the unit of all step sizes."""
        return 4 * default_step_size(self.problem, self.x0)

    @functools.cached_property
    def start(self) -> exact.Measurement:
        return exact.measure(self.problem, self.x0, self.step)

    @functools.cached_property
    def best(self) -> float:
        """Φ* of a convex instance: FISTA with a short step until nothing moves."""
        step, lowest = self.step / 4, math.inf
        for _ in range(3):
            recipe = mvrc.FISTA(step, period=50)
            result = mvrc.minimize(
                self.problem, self.x0, recipe, epochs=1000, rtol=1e-11, output="best"
            )
            lowest = min(lowest, result.objective)
            if result.status is mvrc.Status.CONVERGED:
                break
            step /= 4
        return lowest

    def measure(self, x: Any) -> float:
        """The relative gap or gradient mapping at x."""
        now = exact.measure(self.problem, x, self.step)
        if not self.convex:
            above = now.objective > self.start.objective
            return math.inf if above else now.gradient_mapping / self.start.gradient_mapping
        return (now.objective - self.best) / (self._first - self.best)

    @functools.cached_property
    def _first(self) -> float:
        return self.start.objective


def instances() -> dict[str, Callable[[], Instance]]:
    """All instances by name; each is built when it is called."""
    return {
        "mean–variance, 30 industries": lambda: _variance("industry30"),
        "mean–variance, 38 industries": lambda: _variance("industry38"),
        "mean–variance, S&P 500": lambda: _variance("sp500"),
        "mean–variance, 10⁶ days": _large,
        "mean–CVaR, S&P 500": lambda: cvar("sp500"),
        "mean–CVaR, 30 industries": lambda: cvar("industry30"),
        "mean–semideviation, 30 industries": _semideviation,
        "Bellman residual, 400 states": lambda: chain("one-level"),
        "Bellman residual, 400 states, two levels": lambda: chain("two-level"),
        "SpAM with splines, housing": _splines,
        "SpAM of the paper, housing": _paper,
        "SNE, 600 digits": _digits,
        "random nonconvex, two levels": random,
    }


def returns(name: str) -> np.ndarray:
    names = (name,) if name == "sp500" else (name, f"simulated-{name}")
    return sources.find(names, None).arrays[0]


def _variance(name: str) -> Instance:
    data = returns(name)
    x0 = np.zeros(data.shape[1])
    return Instance(f"mean–variance, {name}", True, mean_variance(data, 0.2, 0.01), x0, 256)


def _large() -> Instance:
    data = simulate_industry(n=1_000_000, d=30).values
    return Instance("mean–variance, 10⁶", True, mean_variance(data, 0.2, 0.01), np.zeros(30), 1024)


def cvar(name: str) -> Instance:
    data = returns(name)
    d = data.shape[1]
    x0 = {"weights": np.full(d, 1 / d), "threshold": np.zeros(())}
    return Instance(f"CVaR, {name}", True, mean_cvar(data), x0, 256)


def _semideviation() -> Instance:
    data = returns("industry30")
    d = data.shape[1]
    return Instance("semideviation", True, mean_semideviation(data), np.full(d, 1 / d), 256)


def chain(form: str, states: int = 400, features: int = 10, seed: int = 0) -> Instance:
    made = random_mdp(states, features, seed=seed)
    problem = bellman(made.transition, made.rewards, made.features, made.gamma, form)
    return Instance(f"Bellman, {form}", True, problem, np.zeros(features))


def _splines() -> Instance:
    X, y = sources.find(("housing", "simulated-housing"), None).arrays
    made = [SplineBasis.of(column, 6, 3) for column in X.T]
    groups = np.repeat(np.arange(len(made)), [basis.size for basis, _ in made])
    B, centred = np.hstack([values for _, values in made]), y - y.mean()
    penalty = 0.1 * largest_penalty(B, centred, groups)
    problem = sparse_additive_convex(B, centred, groups, penalty)
    return Instance("SpAM, convex", True, problem, np.zeros(B.shape[1]))


def _paper() -> Instance:
    X, y = sources.find(("housing", "simulated-housing"), None).arrays
    return Instance("SpAM, paper", False, sparse_additive(X, y), np.full(X.shape[1], 0.01))


def _digits() -> Instance:
    from sklearn.datasets import load_digits

    X = load_digits(return_X_y=True)[0][:600]  # of 1,797: a hundred tuned runs are made
    x0 = 0.1 * np.random.default_rng(0).standard_normal((len(X), 2))
    return Instance("SNE", False, neighbor_embedding(X, perplexity=30, keep=90), x0)


def random(seed: int = 0) -> Instance:
    rng = np.random.default_rng(seed)
    n, d, p, N = 2000, 20, 10, 500
    inner = {
        "a": rng.standard_normal((n, p, d)) / math.sqrt(d),
        "b": 0.5 * rng.standard_normal((n, p)),
    }
    outer = {"c": rng.standard_normal((N, p)), "t": 0.5 * rng.standard_normal(N)}
    problem = mvrc.Composition(_layer, _robust, inner, outer, mvrc.L2(0.01))
    return Instance("random", False, problem, rng.standard_normal(d))


def _layer(x: Any, sample: Any) -> Any:
    return jnp.tanh(sample["a"] @ x + sample["b"])


def _robust(y: Any, sample: Any) -> Any:
    error = (sample["c"] @ y - sample["t"]) ** 2
    return error / (1 + error)
