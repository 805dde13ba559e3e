"""Equal subexpressions of a user's function computed once, before it is differentiated.

XLA merges equal expressions only after differentiation, when `(r @ x)` written twice has already
become two products in the backward pass, which it cannot merge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from mvrc.support import tricks


def merged(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, traced, without repeated equations; the values are the same bit for bit."""
    if not tricks.on("cse"):
        return function

    def run(*args: Any) -> Any:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        leaves = core.jaxpr_as_fun(_without_repeats(closed))(*jax.tree_util.tree_leaves(args))
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shape), leaves)

    return run


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
        _literal(atom) if isinstance(atom, core.Literal) else atom for atom in equation.invars
    )
    key = (equation.primitive, tuple(sorted(equation.params.items())), inputs)
    try:
        hash(key)
    except TypeError:
        return None
    return None if equation.effects else key


def _literal(atom: Any) -> Any:
    """A constant by all of its bytes: as words two tables may look the same."""
    value = np.asarray(atom.val)
    return str(atom.aval), value.dtype.str, value.shape, value.tobytes()
