"""One epoch: a refresh followed by a loop over period − 1 small steps.

The random numbers of an epoch depend on the run's key and the epoch's number alone, so stopping and
resuming between epochs changes nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from mvrc.compiler import fused_loop
from mvrc.engine.batches import Given, batches_of, size_of
from mvrc.engine.state import Core, offer_both, restarted
from mvrc.methods import Method
from mvrc.oracle import Counts, Geometry, Oracle
from mvrc.problem import Composition


class Made(NamedTuple):
    """What an epoch made."""

    core: Core
    finite: Bool[Array, ""]  # whether x is
    counts: Counts  # of the refresh
    step: Counts  # of a small step


def run_epoch(
    problem: Composition, geometry: Geometry, method: Method, core: Core, given: Given,
    steps: Any, fused: bool = False,
) -> Made:  # fmt: skip
    """One epoch: a refresh where the estimator has one, then so many small steps.

    `fused`: whether they may be a fused loop, as nothing runs beside them.
    """
    scheme, estimator = method.scheme, method.estimator
    functions = problem.functions(geometry)
    state, output, pool = restarted(method, core)
    state = scheme.begin(state)
    estimate, counts, picks = core.estimator, Counts(), given.picks
    batches, plan = batches_of(problem, method, given)
    if estimator.refreshes:
        oracle = Oracle(functions, batches)
        estimate = estimator.refresh(oracle, scheme.anchor(state))
        if scheme.refreshes_at_query:  # the refresh stands where the first step asks
            query = scheme.query(state)
            state = scheme.advance(state, estimator.gradient(estimate), oracle)
            pick = None if picks is None else picks[0]
            output, pool = offer_both(output, pool, query, pick)
            picks = None if picks is None else picks[1:]
        counts = oracle.counts

    tickets, opened = plan(estimate)
    traced: list[Counts] = [Counts()]  # the counts of one step, known when it is traced

    def step(carry: Any, given: Any) -> tuple[Any, None]:
        state, estimate, output, pool = carry
        ticket, pick = given
        oracle = Oracle(functions, opened(ticket))
        query = scheme.query(state)
        estimate = estimator.update(oracle, estimate, query)
        state = scheme.advance(state, estimator.gradient(estimate), oracle)
        traced.append(oracle.counts)
        return (state, estimate, *offer_both(output, pool, query, pick)), None

    carry = (state, estimate, output, pool)
    fused = fused and _is_small(problem, geometry, method)
    loop = fused_loop.scan if fused else fused_loop.plain_scan
    (state, estimate, output, pool), _ = loop(step, carry, (tickets, picks), steps)
    finite = jnp.all(jnp.isfinite(scheme.point(state)))
    if estimator.refreshes:
        estimate = None  # the next epoch begins with its own
    core = Core(state, estimate, core.epoch + 1, core.key, output, pool)
    return Made(core, finite, counts, traced[-1])


def _is_small(problem: Composition, geometry: Geometry, method: Method) -> bool:
    """Whether the samples of a step are so few that its loop may be fused; a full pass never is."""
    numbers = 0
    for role in method.estimator.roles(problem.two_level):
        inner = geometry.inner_sample if geometry.inner_drawn is None else geometry.inner_drawn
        each = geometry.outer_sample if role == "outer" else inner
        numbers += size_of(method.batch, role) * each
    return 0 < numbers * geometry.x.dtype.itemsize <= fused_loop.MOST
