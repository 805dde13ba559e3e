"""The state of a run of compiled epochs, and how it begins."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

from mvrc.engine.batches import Given, batches_of
from mvrc.methods import Method
from mvrc.oracle import Counts, Geometry, Oracle, Vector
from mvrc.problem import Composition
from mvrc.support.numerics import NONE_YET


class Reservoir(NamedTuple):
    """One point drawn uniformly from all those offered so far, without keeping the path."""

    point: Vector
    offered: Int[Array, ""]  # how many points were


class Core(NamedTuple):
    """All that an epoch needs and changes."""

    scheme: Any  # iterates, the scheme's NamedTuple
    estimator: Any  # the estimator's NamedTuple; None of one that every epoch refreshes
    epoch: Int[Array, ""]  # epochs made
    key: UInt32[Array, 2]  # of the whole run
    output: Reservoir | None  # zₜ of the run, when the random output is wanted; see `restarted`
    restart: Reservoir | None  # zₜ since the last restart, when restarts are random


def start_core(
    problem: Composition,
    geometry: Geometry,
    method: Method,
    key: UInt32[Array, 2],
    state: Any,
    random: bool,
    tickets: dict[str, Any] | None,
) -> tuple[Core, Counts]:
    """The whole state from that of the scheme, with an estimate from a first large batch.

    Without tickets there is none, as every epoch begins with one.
    """
    reservoir = Reservoir(method.scheme.point(state), NONE_YET)
    core = Core(
        state,
        None,
        NONE_YET,
        key,
        reservoir if random else None,
        reservoir if method.scheme.restarts()[0] == "random" else None,
    )
    if tickets is None:
        return core, Counts()
    batches, _ = batches_of(problem, method, Given(tickets, {}))
    oracle = Oracle(problem.functions(geometry), batches)
    estimate = method.estimator.refresh(oracle, method.scheme.query(core.scheme))
    return core._replace(estimator=estimate), oracle.counts


def restarted(method: Method, core: Core) -> tuple[Any, Reservoir | None, Reservoir | None]:
    """Iterates and reservoirs at the start of an epoch, restarted when it is time.

    With random restarts the random output is of the last run alone (Theorems 3 and 4).
    """
    kind, every = method.scheme.restarts()
    if kind == "never":
        return core.scheme, core.output, core.restart
    due = (core.epoch % every == 0) & (core.epoch > 0)
    point = method.scheme.point(core.scheme) if core.restart is None else core.restart.point
    fresh = method.scheme.init(point)
    state = jax.tree_util.tree_map(lambda a, b: jnp.where(due, a, b), fresh, core.scheme)
    if core.restart is None:
        return state, core.output, None
    return state, _emptied(core.output, due), _emptied(core.restart, due)


def _emptied(reservoir: Reservoir | None, due: Any) -> Reservoir | None:
    if reservoir is None:
        return None
    return reservoir._replace(offered=jnp.where(due, 0, reservoir.offered))


def offer_both(output: Any, pool: Any, point: Vector, pick: Any) -> tuple[Any, Any]:
    if pick is None:
        return output, pool
    return offer(output, point, pick[0]), offer(pool, point, pick[1])


def offer(reservoir: Reservoir | None, point: Vector, uniform: Any) -> Reservoir | None:
    """Reservoir sampling: the k-th point offered is taken with probability 1/k."""
    if reservoir is None:
        return None
    offered = reservoir.offered + 1
    taken = uniform * offered < 1
    return Reservoir(jnp.where(taken, point, reservoir.point), offered)
