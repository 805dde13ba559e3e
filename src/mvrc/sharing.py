"""Sharing: equal subexpressions of a user's function computed once, before it is differentiated.

XLA merges equal expressions only after differentiation, when `(r @ x)` written twice has already
become two products in the backward pass, which it cannot merge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core


def shared(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, traced, without repeated equations; the values are the same bit for bit."""

    def run(*args: Any) -> Any:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        leaves = core.jaxpr_as_fun(_without_repeats(closed))(*jax.tree_util.tree_leaves(args))
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shape), leaves)

    return run


def two_points(function: Callable[..., Any], new: Any, old: Any, samples: Any) -> Any:
    """Σᵢ of gᵢ(new) and gᵢ(old), and the map u, w ↦ Σᵢ gᵢ'(new)ᵀu + gᵢ'(old)ᵀw.

    Both derivatives are taken along one tangent t, so what does not depend on the point, such as
    r·t for a g of r·x, is there once. In the transpose it is one product with r, not one a point.
    None where g has no forward mode, as behind a `jax.custom_vjp`.
    """

    def both(tangent: Any, sample: Any) -> Any:
        def at(x: Any) -> Any:
            return function(x, sample)

        first, first_tangent = jax.jvp(at, (new,), (tangent,))
        second, second_tangent = jax.jvp(at, (old,), (tangent,))
        return (first_tangent, second_tangent), (first, second)

    def sums(tangent: Any) -> Any:
        each = jax.vmap(shared(both), (None, 0))(tangent, samples)
        return jax.tree_util.tree_map(lambda a: jnp.sum(a, axis=0), each)

    try:
        _, pull, values = jax.vjp(sums, jnp.zeros_like(new), has_aux=True)
    except (TypeError, NotImplementedError):  # said so by JAX, early or late
        return None
    return values, pull


def _without_repeats(closed: Any) -> Any:
    names: dict[Any, Any] = {}  # a variable, and the earlier one that it equals
    seen: dict[Any, Any] = {}
    kept = []

    def name(atom: Any) -> Any:
        return atom if isinstance(atom, core.Literal) else names.get(atom, atom)

    for equation in closed.jaxpr.eqns:
        equation = equation.replace(invars=[name(atom) for atom in equation.invars])
        key = _key(equation)
        if key is not None and key in seen:
            names.update(zip(equation.outvars, seen[key], strict=True))
            continue
        if key is not None:
            seen[key] = equation.outvars
        kept.append(equation)
    outputs = [name(atom) for atom in closed.jaxpr.outvars]
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=kept, outvars=outputs))


def _key(equation: Any) -> Any:
    """What makes two equations equal; None when that cannot be told."""
    inputs = tuple(
        (str(atom.aval), str(atom.val)) if isinstance(atom, core.Literal) else atom
        for atom in equation.invars
    )
    key = (equation.primitive, tuple(sorted(equation.params.items())), inputs)
    try:
        hash(key)
    except TypeError:
        return None
    return None if equation.effects else key
