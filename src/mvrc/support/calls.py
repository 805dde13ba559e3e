"""Calls of the user's functions: refused in a sentence where they do not fit."""

from __future__ import annotations

import inspect
from typing import Any

import jax

from mvrc.support import checks, settings


def shape_of(call: str, function: Any, *args: Any, hint: str = "", draw: Any = None) -> Any:
    """Output shapes of a user's function (or of its `draw`), traced twice; a failure becomes a
    sentence, with the user's own checks of code in force."""
    try:
        with settings.users_checks(draw or function):
            first = jax.eval_shape(lambda *a: function(*a), *args)
            second = jax.eval_shape(lambda *a: function(*a), *args)
    except Exception as error:
        got = ", ".join(describe(arg) for arg in args)
        raise ValueError(f"{call} failed on {got}: {checks.reason(error)}{hint}.") from error
    if jax.tree_util.tree_map(_spec, first) != jax.tree_util.tree_map(_spec, second):
        raise ValueError(
            f"{call} returned {describe(first)} in one call and {describe(second)} in the "
            f"next; its shape must be the same in every call."
        )
    return first


def check_function(call: str, function: Any, why: str = "", owner: str = "") -> None:
    """Refuse what cannot be called in that way."""
    name = call.split("(")[0] + owner
    if not callable(function):
        raise TypeError(f"{name} must be a function {call}, not {checks.shown(function)}.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    try:
        signature.bind(*call.split(","))
    except TypeError:
        taken = checks.cut(str(signature))
        raise TypeError(f"{name} takes {taken} but is called as {call}{why}.") from None


def _spec(leaf: Any) -> tuple[Any, Any]:
    return (leaf.shape, leaf.dtype)


def describe(tree: Any) -> str:
    leaves = jax.tree_util.tree_leaves(tree)
    words = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves[:3]]
    more = [f"{len(leaves) - 3} more"] if len(leaves) > 3 else []
    return " and ".join(words + more) or "nothing"
