"""A problem, a method and a start, resolved: which solver runs, from where."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mvrc.methods import MOST_RESTARTS, SHORTER, Method, Start
from mvrc.methods.recipe import Prepared
from mvrc.oracle import Geometry, add_counts
from mvrc.problem import Composition
from mvrc.run.state import State
from mvrc.solvers import catalogue
from mvrc.solvers.epochs import EpochSolver
from mvrc.solvers.solver import CoreSolver
from mvrc.support import checks

OVERFLOWING = 4096  # samples of which it is asked whether g overflows at x0


class Setup:
    """What a run needs to know of its problem, before its first step.

    Args:
        problem, x0, method: as the user gives them.
        seeds: of the run, one for each place of the axis.
        axis: length of the leading axis of seeds; None for one run without it.
        random: whether the random output of the theorems is wanted.
        keep: whether states are to be kept whole; else an epoch may change a table in place.
    """

    def __init__(
        self, problem: Any, x0: Any, method: Any, seeds: list[int], axis: int | None,
        random: bool, keep: bool,
    ) -> None:  # fmt: skip
        if not isinstance(problem, Composition):
            raise TypeError(f"problem must be a Composition, not {checks.shown(problem)}.")
        _refuse_fork()
        problem, x0, self.rest = problem.in_numbers(x0)
        self.problem: Composition = problem
        self.x0 = problem.start(x0)
        self.recipe = catalogue.find(method)
        self.seeds, self._how = seeds, (random, keep)
        with problem.precision(self.x0):
            geometry = problem.geometry(self.x0)
            self.geometry: Geometry = dataclasses.replace(geometry, seeds=axis or 1)
            self.start = Start(problem, self.x0, seed=seeds[0])
            self.axis = axis
            self._prepare(self.start)
            if self.prepared.x0 is not None:
                self.x0 = self.prepared.x0
        self.one_by_one = axis is not None and self.solver.on_host  # the seeds
        self.copies = axis if self.one_by_one and not self.solver.draws else None  # equal runs
        self.axis = None if self.solver.on_host else axis

    def _prepare(self, start: Start) -> None:
        self.prepared: Prepared = self.recipe.prepare(self.problem, self.geometry, start)
        self.method = self.recipe if self.prepared.method is None else self.prepared.method
        self.solver: CoreSolver = self._solver()

    def _solver(self) -> CoreSolver:
        if self.prepared.solver is not None:
            return self.prepared.solver
        method, (random, keep) = self.prepared.method, self._how
        assert method is not None
        return EpochSolver(self.problem, self.geometry, method, self.seeds, self.axis, random, keep)

    def precision(self) -> Any:
        """The context of the run."""
        return self.problem.precision(self.x0)

    def first(self) -> State:
        """The state before the first step."""
        flat = self.geometry.x.flatten(self.x0)
        start = time.perf_counter()
        core, info = self.solver.init(flat)
        took = time.perf_counter() - start - info.compiling if self.solver.on_host else 0.0
        shape = () if self.axis is None else (self.axis,)
        best = np.broadcast_to(np.asarray(flat), (*shape, flat.size))
        counts = np.array(add_counts(info.counts, self.prepared.setup_counts), np.int64)
        seconds = np.asarray(self.prepared.seconds + took)
        none = np.full(shape, np.inf)
        return State(core, counts, seconds, seconds, best, none, np.asarray(0))

    def tree(self, flat: Any) -> Any:
        """A flat point in the structure of the user's x0."""
        tree = self.geometry.x.unflatten(np.asarray(flat))
        return tree if self.rest is None else eqx.combine(tree, self.rest)

    def may_shorten(self, state: State) -> bool:
        """Whether the step is the default one, and not the shortest; the user's own is kept."""
        by_default = bool(self.start.found) and not self.solver.on_host
        return by_default and int(state.restarts) < MOST_RESTARTS

    def shorten(self, restarts: int) -> None:
        """The method after so many restarts, each at a shorter default step."""
        self._prepare(self.start.again(restarts))

    def refreshes_exactly(self) -> bool:
        """Whether every epoch begins with the exact gradient."""
        return isinstance(self.method, Method) and self.method.refreshes_exactly(self.problem)

    def notes(self, restarts: int) -> tuple[str, ...]:
        """What was chosen and why."""
        if not restarts:
            return self.prepared.notes
        times = "once, at a quarter of it"
        if restarts > 1:
            times = f"{restarts} times, each time at a quarter"
        step = self.solver.step_size
        return (
            *self.prepared.notes,
            f"The default step of {step / SHORTER**restarts:.3g} was too long: the run "
            f"started again {times}, and ended with {step:.3g}. "
            f"Counts, seconds and history include the failed attempts.",
        )

    def overflows(self) -> str:
        """Which of the functions at x0 is +∞ for one of its samples; "" for none."""
        problem = self.problem

        def some(source: Any) -> Any:
            return source.numbered(np.arange(min(source.everything().size, OVERFLOWING)))

        values = jax.vmap(problem.inner, (None, 0))(self.x0, some(problem.inner_source))
        leaves = [np.asarray(a) for a in jax.tree_util.tree_leaves(values)]
        if any(np.isposinf(a).any() for a in leaves):
            return "inner(x, sample)"
        y = jax.tree_util.tree_map(lambda a: a.mean(axis=0), values)
        if not problem.two_level:
            return "outer(y)" if np.isposinf(np.asarray(problem.outer(y))) else ""
        outside = jax.vmap(problem.outer, (None, 0))(y, some(problem.outer_source))
        return "outer(y, sample)" if np.isposinf(np.asarray(outside)).any() else ""


_process: list[int] = []  # the one that made the first run


def _refuse_fork() -> None:
    """JAX has threads, which a fork does not take along: a run in a forked process would hang."""
    if not _process:
        _process.append(os.getpid())
    if _process[0] != os.getpid():
        raise RuntimeError(
            "this process was forked from one that had already used mvrc, where JAX would hang; "
            "start processes by multiprocessing.get_context('spawn')."
        )
