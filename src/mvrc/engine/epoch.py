"""One epoch: a refresh followed by a loop over period − 1 small steps.

The random numbers of an epoch depend on the run's key and the epoch's number alone, so stopping and
resuming between epochs changes nothing.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from mvrc.compiler import fused_loop
from mvrc.engine.batches import batches_of, keys_of, size_of
from mvrc.engine.state import Core, offer_both, restarted
from mvrc.methods import Method
from mvrc.oracle import Counts, Geometry, Oracle, add_counts
from mvrc.problem import Composition


def run_epoch(
    problem: Composition, geometry: Geometry, method: Method, core: Core, fused: bool = False
) -> tuple[Core, Bool[Array, ""], Counts]:
    """One epoch: a refresh where the estimator has one, then the small steps.

    `fused`: whether they may be a fused loop, as nothing runs beside them.
    """
    scheme, estimator = method.scheme, method.estimator
    functions = problem.functions(geometry)
    keys = keys_of(core.key, core.epoch + 1)
    state, output, pool = restarted(method, core)
    state = scheme.begin(state)
    picking = core.output is not None or core.restart is not None
    picks = None
    if picking:  # in float32, so that both precisions pick the same
        picks = jax.random.uniform(keys["pick"], (method.steps, 2), jnp.float32)
    estimate, counts = core.estimator, Counts()
    made = int(estimator.refreshes and scheme.refreshes_at_query)
    steps = method.steps - made
    batches, plan = batches_of(problem, method, keys, steps, estimator.refreshes)
    if estimator.refreshes:
        oracle = Oracle(functions, batches)
        estimate = estimator.refresh(oracle, scheme.anchor(state))
        if scheme.refreshes_at_query:  # the refresh stands where the first step asks
            query = scheme.query(state)
            state = scheme.advance(state, estimator.gradient(estimate), oracle)
            pick = None if picks is None else picks[0]
            output, pool = offer_both(output, pool, query, pick)
        counts = oracle.counts

    tickets, open_batches = plan(estimate)
    traced: list[Counts] = [Counts()]  # the counts of one step, known when it is traced

    def step(carry: Any, given: Any) -> tuple[Any, None]:
        state, estimate, output, pool = carry
        ticket, pick = given
        oracle = Oracle(functions, open_batches(ticket))
        query = scheme.query(state)
        estimate = estimator.update(oracle, estimate, query)
        state = scheme.advance(state, estimator.gradient(estimate), oracle)
        traced.append(oracle.counts)
        return (state, estimate, *offer_both(output, pool, query, pick)), None

    carry = (state, estimate, output, pool)
    if steps:
        inputs = (tickets, None if picks is None else picks[made:])
        fused = fused and _is_small(problem, geometry, method)
        loop = fused_loop.scan if fused else jax.lax.scan
        carry, _ = loop(step, carry, inputs, steps)
    state, estimate, output, pool = carry
    counts = add_counts(counts, *[traced[-1]] * steps)
    finite = jnp.all(jnp.isfinite(scheme.point(state)))
    return Core(state, estimate, core.epoch + 1, core.key, output, pool), finite, counts


def _is_small(problem: Composition, geometry: Geometry, method: Method) -> bool:
    """Whether the samples of a step are so few that its loop may be fused; a full pass never is."""
    numbers = 0
    for role in method.estimator.roles(problem.two_level):
        each = geometry.outer_sample if role == "outer" else geometry.inner_sample
        numbers += size_of(method.batch, role) * each
    return 0 < numbers * geometry.x.dtype.itemsize <= fused_loop.MOST
