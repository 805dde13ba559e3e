"""Runs on a problem that is known: exact ‖𝒢‖ and gap of every seed after every epoch."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from mvrc.experiments.complexity.family import Known
from mvrc.run.setup import Setup

OWN_SEEDS = 1000  # the first seed by which factors and sizes are chosen: none that is reported
_FAR = 1e6  # times its first value: diverged


class Trace(NamedTuple):
    """A row for every epoch, the start first; of ‖𝒢‖ and the gap a column for every seed."""

    samples: np.ndarray  # evaluations so far: of g; on two levels of g, g' and ∇f together
    steps: np.ndarray  # T so far
    mapping: np.ndarray  # ‖𝒢(z)‖ at the query point
    gap: np.ndarray  # Φ(z) − Φ*
    farthest: float  # the largest coordinate of a query point
    refresh: int = 0  # samples of an epoch before its first small step

    def expected(self, metric: str) -> np.ndarray:
        """The mean of the metric over the seeds, then the means without one of them."""
        values = getattr(self, metric)
        seeds = values.shape[1]
        if seeds == 1:
            return values
        total = values.sum(axis=1, keepdims=True)
        return np.concatenate([total / seeds, (total - values) / (seeds - 1)], axis=1)

    def to(self, metric: str, level: float) -> np.ndarray:
        """Samples until each column of `expected` is at most `level`, ∞ where it never is.

        Between two epochs the logarithm of the metric is taken to be linear in the samples of the
        small steps, which come after those of the refresh.
        """
        values = np.log(np.maximum(self.expected(metric), 1e-300))
        return np.array([self._crossed(column, np.log(level)) for column in values.T])

    def _crossed(self, values: np.ndarray, aim: float) -> float:
        reached = np.flatnonzero(values <= aim)
        if not len(reached):
            return np.inf
        i = int(reached[0])
        if i == 0:
            return float(self.samples[0])
        part = (values[i - 1] - aim) / (values[i - 1] - values[i])
        spent = self.samples[i] - self.samples[i - 1] - self.refresh
        return float(self.samples[i - 1] + self.refresh + part * spent)


def trace(
    known: Known,
    method: Any,
    seeds: list[int],
    goal: tuple[str, float],
    most: float,
    step: float = 1.0,
) -> Trace:
    """Epochs until the mean over the seeds has reached the goal, or `most` samples are spent.

    Args:
        known: the problem.
        method: a recipe.
        seeds: of one vmapped program.
        goal: "mapping" or "gap", and the level of its mean.
        most: limit on the samples of a seed.
        step: λ of the gradient mapping.
    """
    setup = Setup(known.problem, known.x0, method, seeds, len(seeds), False, False)
    two_level = known.knobs.two_level
    metric, level = goal
    with setup.precision():
        state = setup.first()
        core, solver = state.core, setup.solver
        solver.compile(core)
        scheme, period = solver.method.scheme, solver.method.steps  # type: ignore[attr-defined]

        @jax.jit
        def measured(states: Any) -> Any:
            def one(state: Any) -> Any:
                z = scheme.query(state)
                return known.mapping(z, step), known.value(z) - known.best, abs(z).max()

            return jax.vmap(one)(states)

        spent = count(state.counts, two_level)
        refresh = spent if solver.method.estimator.refreshes else 0  # type: ignore[attr-defined]
        rows: list[tuple[Any, ...]] = [(spent, 0, *map(np.asarray, measured(core.scheme)))]
        made = 0
        while rows[-1][0] < most:
            core, info = solver.step(core)
            spent, made = spent + count(info.counts, two_level), made + period
            values = [np.asarray(v) for v in measured(core.scheme)]
            if not info.finite or not np.all(np.isfinite(values[0])):
                break
            rows.append((spent, made, *values))
            reached = bool(np.all(_without_one(values[0 if metric == "mapping" else 1]) <= level))
            if reached or np.any(values[2] > _FAR):
                break
    samples, steps, mapping, gap, far = (np.array(column) for column in zip(*rows, strict=True))
    return Trace(samples.astype(float), steps, mapping, gap, float(far.max()), refresh)


def _without_one(values: np.ndarray) -> np.ndarray:
    """The means over all seeds but one, which are to reach the goal, too."""
    return values if len(values) == 1 else (values.sum() - values) / (len(values) - 1)


def count(counts: Any, two_level: bool) -> int:
    """Evaluations of g; on two levels of g, g' and ∇f together."""
    c = [int(v) for v in counts]
    return c[0] + c[1] + c[2] if two_level else c[0]
