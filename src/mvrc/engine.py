"""The engine: one epoch as one compiled function, and the state that it maps to itself.

An epoch is a refresh followed by a scan over period − 1 small steps. The random numbers of an
epoch depend on the run's key and the epoch's number alone, so stopping and resuming between
epochs changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

from mvrc import cache, kernel
from mvrc.oracle import Counts, Geometry, Oracle, Vector
from mvrc.sampling import Samples, Sizes, key_bits
from mvrc.split import Signature, Static, join, signature, split

if TYPE_CHECKING:
    from mvrc.methods import Method
    from mvrc.problem import Composition
    from mvrc.schemes import Scheme


ROLES = ("values", "jacobians", "outer")  # the batches A, A', B


class Reservoir(NamedTuple):
    """One point drawn uniformly from all those offered so far, without keeping the path."""

    point: Vector
    offered: Int[Array, ""]  # how many points were


class Core(NamedTuple):
    """All that an epoch needs and changes."""

    scheme: Any  # iterates, the scheme's NamedTuple
    estimator: Any  # the estimator's NamedTuple
    epoch: Int[Array, ""]  # epochs made
    key: UInt32[Array, 2]  # of the whole run
    output: Reservoir | None  # zₜ of the run, when the random output is wanted; see _restarted
    restart: Reservoir | None  # zₜ since the last restart, when restarts are random


class Epoch(NamedTuple):
    """A compiled epoch and what it evaluates."""

    run: Callable[[Core], tuple[Core, Bool[Array, ...]]]
    counts: Counts


def first_core(
    problem: Composition,
    geometry: Geometry,
    method: Method,
    x: Vector,
    seeds: list[int],
    lanes: int | None,
    random: bool,
) -> tuple[Core, Counts]:
    """The state before the first epoch (with a leading axis of lanes), and what it evaluated.

    An estimator without refreshes is started here, from its first batch.
    """
    keys = np.stack([key_bits(seed) for seed in seeds])
    dynamic, static = split((problem, method), geometry.x.dtype)
    state = jax.device_put(method.scheme.start(x))  # here, as a scheme may look at its numbers
    if not method.estimator.refreshes:
        arguments = (dynamic, keys[0] if lanes is None else keys, state)
        executable, counts = _compile_first(static, geometry, lanes, random, signature(arguments))
        return executable(*arguments), counts
    shapes = _first_shapes(static, geometry, random, signature((dynamic, keys[0], state)))
    core = jax.tree_util.tree_map(lambda s: np.zeros(s.shape, s.dtype), shapes)
    core = core._replace(scheme=state, key=keys[0])
    if lanes is not None:
        core = jax.tree_util.tree_map(lambda a: np.broadcast_to(a, (lanes, *np.shape(a))), core)
        core = core._replace(key=keys)
    return jax.device_put(core), Counts()


def start_core(
    problem: Composition,
    geometry: Geometry,
    method: Method,
    key: UInt32[Array, 2],
    state: Any,
    random: bool,
) -> tuple[Core, Counts]:
    """The whole state from that of the scheme, with an estimate from a first large batch."""
    reservoir = Reservoir(method.scheme.point(state), jnp.int32(0))
    core = Core(
        state,
        None,
        jnp.int32(0),
        key,
        reservoir if random else None,
        reservoir if method.scheme.restarts()[0] == "random" else None,
    )
    oracle = Oracle(problem, geometry, _large(problem, method, _keys(core, core.epoch)))
    estimate = method.estimator.refresh(oracle, method.scheme.query(core.scheme))
    return core._replace(estimator=estimate), oracle.counts


def run_epoch(
    problem: Composition, geometry: Geometry, method: Method, core: Core, alone: bool = False
) -> tuple[Core, Bool[Array, ""], Counts]:
    """One epoch: a refresh where the estimator has one, then the small steps.

    `alone`: the steps may be a kernel, as nothing runs beside them.
    """
    scheme, estimator = method.scheme, method.estimator
    keys = _keys(core, core.epoch + 1)
    state, output, pool = _restarted(method, core)
    state = scheme.begin(state)
    picking = core.output is not None or core.restart is not None
    picks = None
    if picking:  # in float32, so that both precisions pick the same
        picks = jax.random.uniform(keys["pick"], (method.steps, 2), jnp.float32)
    estimate, counts, made = core.estimator, Counts(), 0
    if estimator.refreshes:
        oracle = Oracle(problem, geometry, _large(problem, method, keys))
        estimate = estimator.refresh(oracle, scheme.anchor(state))
        if scheme.judges:
            state, estimate = _judged(scheme, estimator, oracle, state, estimate)
        if scheme.anchored:  # the refresh stands where the first step asks
            query = scheme.query(state)
            state = scheme.advance(state, estimator.gradient(estimate), oracle.prox)
            pick = None if picks is None else picks[0]
            output, pool = _offer_both(output, pool, query, pick)
            made = 1
        counts = oracle.counts

    steps = method.steps - made
    tickets, open_batches = _plan(problem, method, keys, steps)
    traced: list[Counts] = [Counts()]  # the counts of one step, known when it is traced

    def step(carry: Any, inputs: Any) -> Any:
        state, estimate, output, pool = carry
        ticket, pick = inputs
        oracle = Oracle(problem, geometry, open_batches(ticket))
        query = scheme.query(state)
        estimate = estimator.update(oracle, estimate, query)
        state = scheme.advance(state, estimator.gradient(estimate), oracle.prox)
        traced.append(oracle.counts)
        return (state, estimate, *_offer_both(output, pool, query, pick))

    carry, seen = (state, estimate, output, pool), True
    if steps:
        inputs = (tickets, None if picks is None else picks[made:])
        if alone and _small(problem, geometry, method):
            carry, seen = kernel.loop(step, carry, inputs, steps, core.epoch >= 0)
        else:
            carry, _ = jax.lax.scan(lambda c, given: (step(c, given), None), carry, inputs, steps)
    state, estimate, output, pool = carry
    counts = Counts(*(a + steps * b for a, b in zip(counts, traced[-1], strict=True)))
    finite = jnp.all(jnp.isfinite(scheme.point(state))) & seen
    return Core(state, estimate, core.epoch + 1, core.key, output, pool), finite, counts


def _judged(
    scheme: Scheme, estimator: Any, oracle: Oracle, state: Any, estimate: Any
) -> tuple[Any, Any]:
    """State and estimate after the scheme has seen Φ at the refresh."""
    inside = oracle.outer_value(estimate.inner, oracle.batch("outer"))
    objective = inside + oracle.penalty(scheme.anchor(state))
    return scheme.judge(state, estimate, estimator.gradient(estimate), objective, oracle)


def compile_epoch(
    problem: Composition,
    geometry: Geometry,
    method: Method,
    core: Core,
    lanes: int | None,
    keep: bool = True,
) -> Epoch:
    """`run_epoch` compiled for these shapes; compiled once for all runs that share them.

    Unless states are to be kept whole, an epoch changes a table in place, without a copy: the
    estimate of the state before it, and only that, is gone then.
    """
    dynamic, static = split((problem, method), geometry.x.dtype)
    spend = method.estimator.keeps_table and not keep
    estimate, rest = core.estimator, core._replace(estimator=None)
    arguments = (dynamic, rest, estimate)
    executable, counts = _compile(static, geometry, lanes, spend, signature(arguments))

    def run(core: Core) -> tuple[Core, Any]:
        return executable(dynamic, core._replace(estimator=None), core.estimator)

    return Epoch(run, counts)


@cache.remember
def _compile(
    static: Static, geometry: Geometry, lanes: int | None, spend: bool, signature: Signature
) -> tuple[Any, Counts]:
    traced: list[Counts] = []

    def compiled(alone: bool) -> Any:
        def epoch(dynamic: Any, core: Core, estimate: Any) -> tuple[Core, Any]:
            problem, method = join(dynamic, static)
            core = core._replace(estimator=estimate)

            def one(core: Core) -> tuple[Core, Any]:
                core, finite, counts = run_epoch(problem, geometry, method, core, alone)
                traced.append(counts)
                return core, finite

            return one(core) if lanes is None else jax.vmap(one)(core)

        program = jax.jit(epoch, donate_argnums=2 if spend else ())
        return program.lower(*signature.specs()).compile()

    if lanes is not None or not kernel.available():
        return compiled(alone=False), traced[-1]
    try:
        executable = compiled(alone=True)
    except jax.errors.JaxRuntimeError:  # an operation that a kernel cannot hold after all
        executable = compiled(alone=False)
    return executable, traced[-1]


@cache.remember
def _compile_first(
    static: Static, geometry: Geometry, lanes: int | None, random: bool, signature: Signature
) -> tuple[Any, Counts]:
    traced: list[Counts] = []

    def first(dynamic: Any, key: Any, state: Any) -> Core:
        problem, method = join(dynamic, static)

        def one(key: UInt32[Array, 2]) -> Core:
            core, counts = start_core(problem, geometry, method, key, state, random)
            traced.append(counts)
            return core

        return one(key) if lanes is None else jax.vmap(one)(key)

    return jax.jit(first).lower(*signature.specs()).compile(), traced[-1]


@cache.remember
def _first_shapes(static: Static, geometry: Geometry, random: bool, signature: Signature) -> Core:
    """Shapes and dtypes of the state that `start_core` gives."""

    def first(dynamic: Any, key: Any, state: Any) -> Core:
        problem, method = join(dynamic, static)
        return start_core(problem, geometry, method, key, state, random)[0]

    return jax.eval_shape(first, *signature.specs())


def _keys(core: Core, number: Any) -> dict[str, Any]:
    """The keys of epoch `number` (0: the start): small batches, refreshes, picks."""
    key = jax.random.fold_in(jax.random.wrap_key_data(core.key), number)
    names = (*ROLES, *(f"refresh {role}" for role in ROLES), "pick")
    return dict(zip(names, jax.random.split(key, len(names)), strict=True))


def _large(problem: Composition, method: Method, keys: dict[str, Any]) -> dict[str, Samples | None]:
    """The batches of a refresh; A and A' are one when both are everything, or no A' is drawn."""
    inner, outer, sizes = problem.inner_source, problem.outer_source, method.refresh
    values = inner.large(keys["refresh values"], sizes.values)
    both = problem.n is not None and sizes.values is None and sizes.jacobians is None
    jacobians: Samples | None = values
    if "jacobians" not in method.estimator.roles(problem.two_level):
        jacobians = None
    elif not both:
        jacobians = inner.large(keys["refresh jacobians"], sizes.jacobians)
    last = None if outer is None else outer.large(keys["refresh outer"], sizes.outer)
    return {"values": values, "jacobians": jacobians, "outer": last}


def _plan(
    problem: Composition, method: Method, keys: dict[str, Any], steps: int
) -> tuple[Any, Callable[[Any], Any]]:
    """Tickets of all small steps of an epoch, and the way from a ticket to its batches."""
    tickets, openers = {}, {}
    for role in method.estimator.roles(problem.two_level):
        source = problem.outer_source if role == "outer" else problem.inner_source
        assert source is not None
        tickets[role], openers[role] = source.plan(keys[role], steps, _size(method.batch, role))
    return tickets, lambda ticket: {role: openers[role](t) for role, t in ticket.items()}


def _small(problem: Composition, geometry: Geometry, method: Method) -> bool:
    """Whether the samples of a step are so few that it may be a kernel; a full pass never is."""
    numbers = 0
    for role in method.estimator.roles(problem.two_level):
        each = geometry.outer_sample if role == "outer" else geometry.inner_sample
        numbers += _size(method.batch, role) * each
    return 0 < numbers * geometry.x.dtype.itemsize <= kernel.MOST


def _size(sizes: Sizes, role: str) -> int:
    return getattr(sizes, role)


def _restarted(method: Method, core: Core) -> tuple[Any, Reservoir | None, Reservoir | None]:
    """Iterates and reservoirs at the start of an epoch, restarted when it is time.

    With random restarts the random output is of the last run alone (Theorems 3 and 4).
    """
    kind, every = method.scheme.restarts()
    if kind == "never":
        return core.scheme, core.output, core.restart
    due = (core.epoch % every == 0) & (core.epoch > 0)
    point = method.scheme.point(core.scheme) if core.restart is None else core.restart.point
    fresh = method.scheme.start(point)
    state = jax.tree_util.tree_map(lambda a, b: jnp.where(due, a, b), fresh, core.scheme)
    if core.restart is None:
        return state, core.output, None
    return state, _emptied(core.output, due), _emptied(core.restart, due)


def _emptied(reservoir: Reservoir | None, due: Any) -> Reservoir | None:
    if reservoir is None:
        return None
    return reservoir._replace(offered=jnp.where(due, 0, reservoir.offered))


def _offer_both(output: Any, pool: Any, point: Vector, pick: Any) -> tuple[Any, Any]:
    if pick is None:
        return output, pool
    return _offer(output, point, pick[0]), _offer(pool, point, pick[1])


def _offer(reservoir: Reservoir | None, point: Vector, uniform: Any) -> Reservoir | None:
    """Reservoir sampling: the k-th point offered is taken with probability 1/k."""
    if reservoir is None:
        return None
    offered = reservoir.offered + 1
    taken = uniform * offered < 1
    return Reservoir(jnp.where(taken, point, reservoir.point), offered)
