"""Epochs and first states as compiled programs, compiled once for all runs that share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, UInt32

from mvrc.compiler import fused_loop, meshes, quick
from mvrc.engine.epoch import run_epoch
from mvrc.engine.state import Core, start_core
from mvrc.methods import Method
from mvrc.oracle import Counts, Geometry, Vector
from mvrc.problem import Composition
from mvrc.sampling import key_bits
from mvrc.support import cache
from mvrc.support.partition import Signature, Static, combine, partition, signature


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
    axis: int | None,
    random: bool,
) -> tuple[Core, Counts]:
    """The state before the first epoch, with the axis of seeds, and what it evaluated.

    An estimator without refreshes is started here, from its first batch.
    """
    keys = np.stack([key_bits(seed) for seed in seeds])
    n, N, problem = problem.n, problem.N, packed(problem, geometry, method)
    dynamic, static = partition((problem, method), geometry.x.dtype)
    state = jax.device_put(method.scheme.init(x))  # here, as a scheme may look at its numbers
    if not method.estimator.refreshes:
        arguments = (dynamic, keys[0] if axis is None else keys, state)
        executable, counts = _compile_first(static, geometry, axis, random, signature(arguments))
        return executable(*arguments), counts.at(n, N)
    shapes = _first_shapes(static, geometry, random, signature((dynamic, keys[0], state)))
    core = jax.tree_util.tree_map(lambda s: np.zeros(s.shape, s.dtype), shapes)
    core = core._replace(scheme=state, key=keys[0])
    if axis is not None:
        core = jax.tree_util.tree_map(lambda a: np.broadcast_to(a, (axis, *np.shape(a))), core)
        core = core._replace(key=keys)
    return jax.device_put(core), Counts()


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
    estimate of the state before it, and only that, is gone then.
    """
    n, N, problem = problem.n, problem.N, packed(problem, geometry, method)
    dynamic, static = partition((problem, method), geometry.x.dtype)
    donate = method.estimator.keeps_table and not keep
    estimate, rest = core.estimator, core._replace(estimator=None)
    arguments = (dynamic, rest, estimate)
    executable, counts = _compile(static, geometry, axis, donate, signature(arguments))

    def run(core: Core) -> tuple[Core, Any]:
        return executable(dynamic, core._replace(estimator=None), core.estimator)

    return Epoch(run, counts.at(n, N))


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
) -> tuple[Any, Counts]:
    traced: list[Counts] = []

    def compiled(fused: bool) -> Any:
        def epoch(dynamic: Any, core: Core, estimate: Any) -> tuple[Core, Any]:
            problem, method = combine(dynamic, static)
            core = core._replace(estimator=estimate)

            def one(core: Core) -> tuple[Core, Any]:
                core, finite, counts = run_epoch(problem, geometry, method, core, fused)
                traced.append(counts)
                return core, finite

            return one(core) if axis is None else jax.vmap(one)(core)

        program = quick.Program(epoch, signature.specs(), (2,) if donate else ())
        program.wait()
        return program

    if axis is not None or not fused_loop.available():
        return compiled(fused=False), traced[-1]
    try:
        executable = compiled(fused=True)
    except jax.errors.JaxRuntimeError:  # an operation that it cannot hold after all
        executable = compiled(fused=False)
    return executable, traced[-1]


@cache.remember
def _compile_first(
    static: Static, geometry: Geometry, axis: int | None, random: bool, signature: Signature
) -> tuple[Any, Counts]:
    traced: list[Counts] = []

    def first(dynamic: Any, key: Any, state: Any) -> Core:
        problem, method = combine(dynamic, static)

        def one(key: UInt32[Array, 2]) -> Core:
            core, counts = start_core(problem, geometry, method, key, state, random)
            traced.append(counts)
            return core

        return one(key) if axis is None else jax.vmap(one)(key)

    return quick.Program(first, signature.specs()), traced[-1]


@cache.remember
def _first_shapes(static: Static, geometry: Geometry, random: bool, signature: Signature) -> Core:
    """Shapes and dtypes of the state that `start_core` gives."""

    def first(dynamic: Any, key: Any, state: Any) -> Core:
        problem, method = combine(dynamic, static)
        return start_core(problem, geometry, method, key, state, random)[0]

    return meshes.shapes(first, signature.specs())
