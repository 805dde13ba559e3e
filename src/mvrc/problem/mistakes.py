"""Mistakes in a user's functions that their traces show, and that JAX passes over silently.

An argument that is not used, an index beyond the end (which JAX moves to the end), random numbers
of NumPy (drawn once, when the function is traced, and the same ever after), a column for a vector.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, NamedTuple

import jax
import numpy as np

from mvrc.oracle.dependence import TooLargeError, first_input
from mvrc.oracle.structure import specs
from mvrc.regularizers import Custom, Regularizer
from mvrc.support import cache, precision
from mvrc.support.partition import Static, combine, partition


class Found(NamedTuple):
    """What a trace shows."""

    uses_first: bool  # whether the output depends on the first argument
    beyond: str  # an index out of bounds, in words; "" for none
    changes: bool  # whether another trace is another function
    traced: bool  # whether it closes over what is being traced, as inside of jax.grad


def check(call: str, function: Any, dtype: Any, *arguments: Any, varies: bool = True) -> None:
    """Refuse, or warn of, what `function(*arguments)` does by mistake; arguments are shapes.

    `varies` says that it ought to depend on the first.
    """
    numbers, static = partition(function, dtype)
    treedef = jax.tree_util.tree_structure(arguments)
    try:
        found = _find(static, specs(numbers), treedef, specs(arguments), precision.wide())
    except TypeError:  # a function that cannot be hashed is not looked at twice
        return
    name, first = call.split("(")[0], call.split("(")[1].split(",")[0].rstrip(")")
    if found.traced:
        raise TypeError(
            f"{name} uses a traced array from outside; call mvrc outside of jit, vmap and grad."
        )
    if found.changes:
        raise ValueError(
            f"{call} is another function at each call, as with np.random or a counter inside, and "
            f"only the first would be used; draw random numbers beforehand and put them into the "
            f"data, or by jax.random from the key of a Stream."
        )
    if found.beyond:
        raise IndexError(f"{call} reads {found.beyond}, which JAX would silently move to the end.")
    if varies and not found.uses_first:
        warnings.warn(
            f"{name} does not depend on {first}, so there is nothing to minimise through it.",
            stacklevel=2,
        )


def check_regularizer(regularizer: Regularizer, x: Any) -> None:
    """The same of r and its prox, where a part of it has functions of the user's."""
    parts = jax.tree_util.tree_leaves(regularizer, is_leaf=lambda node: isinstance(node, Custom))
    if any(isinstance(part, Custom) for part in parts):
        dtype = np.result_type(*jax.tree_util.tree_leaves(x))
        step = jax.ShapeDtypeStruct((), dtype)
        x = jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), x)
        check("regularizer.value(x)", regularizer.value, dtype, x, varies=False)
        check("regularizer.prox(x, step)", regularizer.prox, dtype, x, step, varies=False)


def check_column(inner: Any, x: Any, sample: Any) -> None:
    """Warn where an x of shape (d, 1) is broadcast, as r * x is a matrix for r of shape (d,)."""
    vector = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)

    def broadcasts(x: Any) -> bool:
        try:
            with jax.numpy_rank_promotion("raise"):
                jax.eval_shape(lambda *a: inner(*a), x, sample)
        except Exception:
            return True
        return False

    if broadcasts(x) and not broadcasts(vector):
        warnings.warn(
            f"x has shape {x.shape}, a column, which inner broadcasts against arrays of one axis; "
            f"give a vector, its .ravel(), unless this is intended.",
            stacklevel=2,
        )


@cache.remember
def _find(static: Static, numbers: Any, treedef: Any, leaves: Any, wide: bool) -> Found:
    given = [jax.ShapeDtypeStruct(*spec) for spec in numbers]
    arguments = [jax.ShapeDtypeStruct(*leaf) for leaf in leaves]

    def traced() -> Any:
        def flat(numbers: Any, leaves: Any) -> Any:
            return combine(numbers, static)(*jax.tree_util.tree_unflatten(treedef, leaves))

        return jax.make_jaxpr(flat)(given, arguments)

    first, second = traced(), traced()
    changes = _text(first) != _text(second) or not all(
        _same(a, b) for a, b in zip(first.consts, second.consts, strict=False)
    )
    child = treedef.children()[0] if treedef.children() else treedef
    try:
        uses, beyond = first_input(first, len(given), child.num_leaves)
    except TooLargeError:
        uses, beyond = True, ""
    outside = any(isinstance(const, jax.core.Tracer) for const in first.consts)
    return Found(uses, beyond, changes, outside)


def _text(closed: Any) -> str:
    """The computation in words, without addresses of Python objects."""
    return re.sub(r"0x[0-9a-f]+", "", str(closed.jaxpr))


def _same(a: Any, b: Any) -> bool:
    if a is b or isinstance(a, jax.core.Tracer):
        return True
    return np.shape(a) == np.shape(b) and bool(np.array_equal(np.asarray(a), np.asarray(b)))
