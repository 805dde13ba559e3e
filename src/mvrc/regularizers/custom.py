"""A regulariser from the user's own pair of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.regularizers.base import Regularizer, one_step, shapes
from mvrc.support import calls, checks


class Custom(Regularizer):
    """r and its prox from a user's pair of functions.

    Args:
        value: `value(x)`, the scalar r(x).
        prox: `prox(x, step)`, the minimiser of r(u) + ‖u − x‖² / (2 step), in the structure of x;
            made of JAX operations, and for every step > 0.

    Examples:
        >>> r = mvrc.Custom(lambda x: (x**2).sum() / 2, lambda x, step: x / (1 + step))
        >>> r.prox(np.array([2.0, -3.0]), 1.0)
        Array([ 1. , -1.5], dtype=float32)
    """

    value_function: Callable[[Any], Any]
    prox_function: Callable[[Any, Any], Any]

    @checks.explain_keywords
    def __init__(self, value: Any, prox: Any) -> None:
        calls.check_function("value(x)", value, owner=" of Custom")
        calls.check_function("prox(x, step)", prox, owner=" of Custom")
        self.value_function = _as_pytree(value)
        self.prox_function = _as_pytree(prox)

    def check(self, x: Any) -> None:
        x = jax.eval_shape(lambda x: jax.tree.map(jnp.asarray, x), x)
        step = jax.ShapeDtypeStruct((), jnp.result_type(*jax.tree.leaves(x)))
        value = calls.shape_of("value(x) of Custom", self.value_function, x)
        if _form(value) != _form(0.0):
            raise ValueError(f"value(x) of Custom must be a scalar, not {shapes(value)}.")
        prox = calls.shape_of("prox(x, step) of Custom", self.prox_function, x, step)
        if _form(prox) != _form(x):
            raise ValueError(
                f"prox(x, step) of Custom must be like x, {shapes(x)}, not {shapes(prox)}."
            )

    def value(self, x: Any) -> jax.Array:
        return jnp.asarray(self.value_function(x))

    def prox(self, x: Any, step: Any) -> Any:
        return jax.tree.map(
            lambda leaf, p: jnp.asarray(p, jnp.asarray(leaf).dtype),
            x,
            self.prox_function(x, one_step(step)),
        )


def _form(tree: Any) -> tuple[Any, list[Any]]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [np.shape(leaf) for leaf in leaves]


def _as_pytree(function: Callable[..., Any]) -> Any:
    """A plain function has no leaves; a module or Partial keeps its own."""
    known = isinstance(function, eqx.Module | jax.tree_util.Partial)
    return function if known else jax.tree_util.Partial(function)
