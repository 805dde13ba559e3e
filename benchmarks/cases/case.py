"""Case: one point of the grid, and what is run there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import mvrc
from benchmarks.cases import applications, problems
from benchmarks.twins import sides

FULL_PASSES = ("fista", "proximal-gradient")  # a step is a full pass
WORK = 5e8  # multiplications of a step above which an epoch has fewer than 96 steps


@dataclasses.dataclass(frozen=True)
class Case:
    """What is measured; the defaults are the portfolio problem of the paper's size.

    Args:
        problem: "portfolio", "wide", "additive" (the sparse additive model with the paper's
            batches), or an application of applications.py, which has its own sizes.
        n, d, p: samples, length of x, length of g(x).
        batch: samples of a step; 0 for the method's default.
        dtype, jacobian, seeds, method, sampling: as named.
        whole: whether an epoch starts with its full pass, as users run it. Otherwise its refresh is
            one more small batch, so that an epoch is steps alone.
    """

    problem: str = "portfolio"
    n: int = problems.ROWS
    d: int = problems.ASSETS
    p: int = 2
    batch: int = problems.BATCH
    dtype: str = "float64"
    jacobian: str = "auto"
    seeds: int = 1
    method: str = "mvrc"
    sampling: str = "replacement"
    whole: bool = False

    @property
    def steps(self) -> int:
        """Small steps of an epoch."""
        if self.method in FULL_PASSES:
            return 1
        if self.whole:
            return problems.PERIOD
        passes = min(self.p, self.d) if self.jacobian == "matrix" else 1
        inner = self.d * self.p * passes if self.problem == "wide" else self.d
        return int(np.clip(WORK / (max(self.batch, 1) * inner * self.seeds), 2, problems.PERIOD))

    @property
    def words(self) -> str:
        """What differs from the portfolio problem of the paper's size."""
        base, parts = Case(), []
        if self.problem != base.problem:
            parts.append(self.problem)
        for name in ("n", "d", "p", "batch", "seeds"):
            if getattr(self, name) != getattr(base, name):
                parts.append(f"{name} = {getattr(self, name):,}")
        if self.jacobian != "auto":
            parts.append({"matrix": "matrix", "free": "matrix-free"}[self.jacobian])
        for name in ("method", "sampling"):
            if getattr(self, name) != getattr(base, name):
                parts.append(getattr(self, name))
        return ", ".join([*parts, self.dtype])


@dataclasses.dataclass(frozen=True, eq=False)
class Built:
    """A case with its data: all that a run needs."""

    problem: mvrc.Composition
    x0: Any
    recipe: Any
    steps: int
    twins: dict[str, Callable[[int], Any]]  # an epoch of so many steps by the other sides

    @property
    def megabytes(self) -> float:
        """Size of the data."""
        import jax

        trees = (self.problem.inner_data, self.problem.outer_data)
        return 1e-6 * sum(leaf.nbytes for leaf in jax.tree_util.tree_leaves(trees))


def build(case: Case, data: Any, wanted: tuple[str, ...] = ()) -> Built:
    """The problem on data made by `draw`, the recipe, and the twins that are wanted and exist."""
    if case.problem in applications.PROBLEMS:
        problem, x0 = data
        steps = problems.PERIOD
        recipe = mvrc.MVRC(step_size=1e-6, period=steps, epsilon=None)
        return Built(problem, x0, recipe, steps, {})
    if case.problem == "additive":
        problem, x0 = data
        return Built(problem, x0, problems.additive_method(case.jacobian), problems.PERIOD, {})
    x0 = np.zeros(case.d, case.dtype)
    if case.problem == "wide":
        rows, mix = data
        problem = problems.wide(rows, mix)
        twins = sides.wide(rows, mix, case.jacobian == "matrix", case.batch, wanted)
    else:
        problem = problems.portfolio(data, case.sampling)
        twins = sides.portfolio(data, case.batch, wanted)
    if case.method == "ascgd":  # takes no regulariser
        problem = mvrc.Composition(problems.moments, problems.risk, problem.inner_data)
    return Built(problem, x0, _recipe(case), case.steps, twins)


def draw(case: Case) -> Any:
    """The data of a case; for an application problem and start."""
    if case.problem in applications.PROBLEMS:
        return applications.PROBLEMS[case.problem](case.dtype)
    if case.problem == "additive":
        return applications.additive(case.dtype)
    if case.problem == "wide":
        return problems.mixture(case.n, case.d, case.p, case.dtype)
    return problems.returns(case.n, np.dtype(case.dtype), case.d)


def _recipe(case: Case) -> Any:
    if case.method == "mvrc":
        more = {} if case.whole else {"refresh_size": case.batch}
        return problems.method(case.steps, case.batch, jacobian=case.jacobian, **more)
    recipe = mvrc.METHODS[case.method]
    if case.method in FULL_PASSES:
        return recipe(step_size=problems.STEP)
    return recipe(step_size=problems.STEP, batch_size=case.batch, period=case.steps)
