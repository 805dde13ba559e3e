"""Epochs and first states as compiled programs, compiled once for all runs that share them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, UInt32

from mvrc.compiler import fused_loop, quick
from mvrc.engine.batches import Given, drawn, drawn_refresh, first_steps
from mvrc.engine.epoch import run_epoch
from mvrc.engine.state import Core, start_core
from mvrc.methods import Method
from mvrc.oracle import Counts, Geometry, Vector, add_counts
from mvrc.problem import Composition
from mvrc.sampling import key_bits
from mvrc.support import cache
from mvrc.support.partition import Signature, Static, combine, partition, signature

_ROOM = 8  # numbers of steps in a factor of two that have programs of their own


class Epoch:
    """A compiled epoch and what it evaluates.

    While it runs the host draws what the next one needs.
    """

    def __init__(self, run: Callable[..., Any], draws: Draws, counts: Counts) -> None:
        self._run, self._draws, self.counts = run, draws, counts

    def run(self, core: Core) -> tuple[Core, Bool[Array, ...]]:
        """The next state, and whether it is finite."""
        given = self._draws.after(core)
        found = self._run(core._replace(estimator=None), core.estimator, given)
        self._draws.ahead()
        return found


class Draws:
    """What is random in the epochs of a run; the last that was drawn is kept.

    Args:
        draw: what the run with a key of these bits draws for the epoch of a number.
    """

    def __init__(self, draw: Callable[[Any, int], Given]) -> None:
        self._draw = draw
        self._number, self._bits, self._given = -1, np.zeros(2, np.uint32), Given({}, {})

    def after(self, core: Core) -> Given:
        """For the epoch after a state."""
        bits, number = np.asarray(core.key), int(np.asarray(core.epoch).flat[0]) + 1
        if number != self._number or not np.array_equal(bits, self._bits):
            self._number, self._bits, self._given = number, bits, self._draw(bits, number)
        return self._given

    def ahead(self) -> None:
        """For the next one, while nobody waits."""
        self._number, self._given = self._number + 1, self._draw(self._bits, self._number + 1)


def first_core(
    problem: Composition,
    geometry: Geometry,
    method: Method,
    x: Vector,
    seeds: list[int],
    axis: int | None,
    random: bool,
) -> tuple[Core, Counts]:
    """The state before the first epoch, with the axis of seeds, and what it evaluated.

    An estimator without refreshes is started here, from its first batch.
    """
    keys = np.stack([key_bits(seed) for seed in seeds])
    whole, problem = problem, packed(problem, geometry, method)
    state = jax.device_put(method.scheme.init(x))  # here, as a scheme may look at its numbers
    if method.estimator.refreshes:
        core, counts = start_core(problem, geometry, method, keys[0], state, random, None)
        if axis is not None:
            core = jax.tree_util.tree_map(lambda a: np.broadcast_to(a, (axis, *np.shape(a))), core)
            core = core._replace(key=keys)
        return jax.device_put(core), counts
    dynamic, static = partition((problem, method), geometry.x.dtype)
    tickets = _stacked([drawn_refresh(whole, method, bits, 0) for bits in keys], axis)
    arguments = (dynamic, keys[0] if axis is None else keys, state, tickets)
    executable, counts = _compile_first(static, geometry, axis, random, signature(arguments))
    return executable(*arguments), counts.at(whole.n, whole.N)


def compile_epoch(
    problem: Composition,
    geometry: Geometry,
    method: Method,
    core: Core,
    axis: int | None,
    keep: bool = True,
) -> Epoch:
    """`run_epoch` compiled for these shapes; compiled once for all runs that share them.

    Unless states are to be kept whole, an epoch changes a table in place, without a copy: the
    estimate of the state before it, and only that, is gone then. The number of steps is an
    argument.
    """
    whole, problem = problem, packed(problem, geometry, method)
    anyhow = dataclasses.replace(method, period=None, notes=())
    dynamic, static = partition((problem, anyhow), geometry.x.dtype)
    steps = method.steps - first_steps(method)
    picking = core.output is not None or core.restart is not None
    sources = whole.inner_source, whole.outer_source
    room = steps if any(s is not None and not s.traceable for s in sources) else _room(steps)

    def draw(bits: Any, number: int) -> Given:
        each = [drawn(whole, method, own, number, picking, room) for own in bits.reshape(-1, 2)]
        return _stacked(each, axis)

    donate = method.estimator.keeps_table and not keep
    estimate, rest = core.estimator, core._replace(estimator=None)
    draws = Draws(draw)
    arguments = (dynamic, rest, estimate, draws.after(core), np.int32(steps))
    executable, refresh, step = _compile(static, geometry, axis, donate, signature(arguments))
    all_steps = Counts(*(steps * count for count in step))
    counts = add_counts(refresh, all_steps).at(whole.n, whole.N)
    return Epoch(lambda *a: executable(dynamic, *a, np.int32(steps)), draws, counts)


def _room(steps: int) -> int:
    """A number of steps, at least as many, whose program others share."""
    least = 2 ** max(0, steps.bit_length() - (_ROOM.bit_length() - 1))
    return -(-steps // least) * least


def _stacked(trees: list[Any], axis: int | None) -> Any:
    if axis is None:
        return trees[0]
    return jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *trees)


def packed(problem: Composition, geometry: Geometry, method: Method) -> Composition:
    """The problem for a program that serves every n, unless the method's shapes follow n.

    A table has n rows, and a batch of n is every row. The sizes of batches and the period are part
    of the program in any case.
    """
    roles = method.estimator.roles(problem.two_level)
    all_rows = {"values": problem.n, "jacobians": problem.n, "outer": problem.N}
    follows = any(getattr(method.batch, role) == all_rows[role] for role in roles)
    if method.estimator.keeps_table or follows:
        return problem
    return problem.packed(geometry)


@cache.remember
def _compile(
    static: Static, geometry: Geometry, axis: int | None, donate: bool, signature: Signature
) -> tuple[Any, Counts, Counts]:
    traced: list[tuple[Counts, Counts]] = []

    def compiled(fused: bool) -> Any:
        def epoch(dynamic: Any, core: Core, estimate: Any, given: Given, steps: Any) -> Any:
            problem, method = combine(dynamic, static)
            core = core._replace(estimator=estimate)

            def one(core: Core, given: Given) -> tuple[Core, Any]:
                made = run_epoch(problem, geometry, method, core, given, steps, fused)
                traced.append((made.counts, made.step))
                return made.core, made.finite

            return one(core, given) if axis is None else jax.vmap(one)(core, given)

        program = quick.Program(epoch, signature.specs(), (2,) if donate else ())
        program.wait()
        return program

    if axis is not None or not fused_loop.available():
        return compiled(fused=False), *traced[-1]
    try:
        executable = compiled(fused=True)
    except jax.errors.JaxRuntimeError:  # an operation that it cannot hold after all
        executable = compiled(fused=False)
    return executable, *traced[-1]


@cache.remember
def _compile_first(
    static: Static, geometry: Geometry, axis: int | None, random: bool, signature: Signature
) -> tuple[Any, Counts]:
    traced: list[Counts] = []

    def first(dynamic: Any, key: Any, state: Any, tickets: Any) -> Core:
        problem, method = combine(dynamic, static)

        def one(key: UInt32[Array, 2], tickets: Any) -> Core:
            made = start_core(problem, geometry, method, key, state, random, tickets)
            core, counts = made
            traced.append(counts)
            return core

        return one(key, tickets) if axis is None else jax.vmap(one)(key, tickets)

    return quick.Program(first, signature.specs()), traced[-1]
