"""The state of a run, and how far it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from mvrc.engine import Core


class State(NamedTuple):
    """The whole state of a run, one pytree; in `minimize_many` with a leading axis of seeds."""

    core: Any  # of the solver
    counts: np.ndarray  # evaluations so far, in the order of Counts
    seconds: np.ndarray  # time of the algorithm so far
    wall_seconds: np.ndarray  # the same with measuring, callbacks and saves; no compilation
    best_point: np.ndarray  # flat x with the lowest recorded objective
    best_objective: np.ndarray
    restarts: np.ndarray  # how often the run started again, with a shorter default step

    @property
    def epoch(self) -> int:
        """Epochs made; all seeds are in the same."""
        return int(np.asarray(self.core.epoch).flat[0])


def on_device(core: Any) -> Any:
    """The state of a solver where programs take it from; what is there stays."""
    put = lambda a: a if isinstance(a, jax.Array) else jax.device_put(a)  # noqa: E731
    return jax.tree_util.tree_map(put, core)


Row = dict[str, Any]  # of the history


class Progress(NamedTuple):
    """Where a run stands, its rows, and the recorded states that have no row yet."""

    state: State
    failed: list[Row]  # of attempts at longer default steps
    rows: list[Row]
    pending: tuple[State, ...]
    since: float  # when nothing was pending last, on a monotonic clock


def at_seed(tree: Any, seed: int | None) -> Any:
    """One place of the axis of seeds; everything where there is none."""
    return tree if seed is None else jax.tree_util.tree_map(lambda a: a[seed], tree)


def readable(state: State) -> State:
    """Without an estimate that a later epoch, which came to nothing, has overwritten."""
    if not isinstance(state.core, Core):
        return state
    leaves = jax.tree_util.tree_leaves(state.core.estimator)
    gone = any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)
    return state._replace(core=state.core._replace(estimator=None)) if gone else state


def with_best(state: State, points: list[Any], objectives: list[Any]) -> State:
    """A state that knows the best of some points; several points are those of a single run."""
    objective = np.stack(objectives)
    objective = np.where(np.isnan(objective), np.inf, objective)
    lowest = objective.min(axis=0)
    better = lowest < state.best_objective
    if not better.any():
        return state
    best = np.asarray(points[int(objective.argmin(axis=0).max())])
    return state._replace(
        best_point=np.where(better[..., None], best, state.best_point),
        best_objective=np.where(better, lowest, state.best_objective),
    )
