"""The shapes of a problem, from its functions and one sample of each side; misfits are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from mvrc.oracle import Geometry, Layout, jacobian_matrix
from mvrc.oracle.structure import Structure, dense, specs, structure
from mvrc.problem import inputs, mistakes
from mvrc.support import cache, calls, precision
from mvrc.support.partition import Signature, Static, combine, partition, signature

_PROGRAMS = (core.ClosedJaxpr, core.Jaxpr)
MANY = 4096  # unknowns from which on it is asked what a sample holds


def geometry_of(
    inner: Callable[..., Any],
    outer: Callable[..., Any],
    inner_jacobian: Callable[..., Any] | None,
    x: Any,
    inner_sample: Any,
    outer_sample: Any,
) -> Geometry:
    """Shapes of x, y and the samples; refuses functions that do not fit, in a sentence.

    x and the samples are arrays or shapes; `outer_sample` is None for a single outer function.
    """
    given = jax.tree_util.tree_map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (x, inner_sample, outer_sample)
    )
    functions = (inner, outer, inner_jacobian)
    numbers, static = partition(functions, Layout.of(given[0]).dtype)
    if any(a.dtype.kind != "f" for a in numbers):  # indices, which are looked at
        return _geometry(*functions, *given)
    return _found(static, signature(numbers), signature(given))


@cache.remember
def _found(static: Static, numbers: Signature, given: Signature) -> Geometry:
    """Of the same functions and shapes it is found once: tracing takes longer than a small run.

    Functions with numbers of their own are asked with others, as programs are.
    """
    ones = [np.ones(a.shape, a.dtype) for a in numbers.specs()]
    return _geometry(*combine(ones, static), *given.specs())


def _geometry(
    inner: Any, outer: Any, inner_jacobian: Any, shape: Any, inner_sample: Any, outer_sample: Any
) -> Geometry:
    layout = Layout.of(shape)
    hint = inputs.column_hint(shape)
    y = calls.shape_of("inner(x, sample)", inner, shape, inner_sample, hint=hint)
    inputs.check_inner(y)
    two_level = outer_sample is not None
    given = (y, outer_sample) if two_level else (y,)
    call = "outer(y, sample)" if two_level else "outer(y)"
    inputs.check_outer(calls.shape_of(call, outer, *given, hint=hint), hint)
    flat = Layout.of(y, layout.dtype)
    mistakes.check("inner(x, sample)", inner, layout.dtype, shape, inner_sample)
    if hint:
        mistakes.check_column(inner, shape, inner_sample)
    mistakes.check(call, outer, layout.dtype, *given)
    written = inner_jacobian is not None
    geometry = Geometry(
        x=layout,
        y=flat,
        inner_sample=inputs.elements(inner_sample),
        outer_sample=inputs.elements(outer_sample),
        jacobian=dense(flat.size, layout.size, written=True)
        if written
        else _structure(inner, layout, flat, inner_sample),
        inner_held=_held(inner, shape, inner_sample) if layout.size > MANY else None,
    )
    if inner_jacobian is not None:
        _check_jacobian(inner, inner_jacobian, shape, inner_sample, geometry)
        call = "inner_jacobian(x, sample)"
        mistakes.check(call, inner_jacobian, layout.dtype, shape, inner_sample, varies=False)
    return geometry


def _held(inner: Any, x: Any, sample: Any) -> int | None:
    """Numbers that a further sample of a batch adds to those that g makes on its way.

    Those of a network are its activations, far fewer than its weights.
    """

    def total(rows: int) -> int:
        batch = jax.tree_util.tree_map(
            lambda a: jax.ShapeDtypeStruct((rows, *a.shape), a.dtype), sample
        )
        return _made(jax.make_jaxpr(jax.vmap(inner, (None, 0)))(x, batch).jaxpr)

    try:
        return total(3) - total(2)
    except Exception:  # a function that cannot be traced so is refused elsewhere, in a sentence
        return None


def _made(jaxpr: Any) -> int:
    """Numbers that all operations of a program return."""
    total = 0
    for equation in jaxpr.eqns:
        leaves = jax.tree_util.tree_leaves(
            list(equation.params.values()), is_leaf=lambda a: isinstance(a, _PROGRAMS)
        )
        programs = [getattr(a, "jaxpr", a) for a in leaves if isinstance(a, _PROGRAMS)]
        inside = sum(_made(program) for program in programs)
        total += inside * equation.params.get("length", 1)
        if not inside:
            total += sum(math.prod(v.aval.shape) for v in equation.outvars)
    return total


def _structure(inner: Any, x: Layout, y: Layout, sample: Any) -> Structure:
    numbers, static = partition(inner, x.dtype)
    one = (jax.tree_util.tree_structure(sample), specs(sample))
    return structure(static, specs(numbers), x, y, one, precision.wide())


def _check_jacobian(inner: Any, written: Any, x: Any, sample: Any, geometry: Geometry) -> None:
    got = calls.shape_of("inner_jacobian(x, sample)", written, x, sample)
    want = jax.eval_shape(jax.jacrev(inner), x, sample)
    shapes = [leaf.shape for leaf in jax.tree_util.tree_leaves(got)]
    wanted = [leaf.shape for leaf in jax.tree_util.tree_leaves(want)]
    if shapes != wanted:
        raise ValueError(
            f"inner_jacobian(x, sample) returned shapes {shapes}; they must be {wanted}, "
            f"those of jax.jacobian(inner)."
        )
    jax.eval_shape(lambda t: jacobian_matrix(t, geometry), got)
