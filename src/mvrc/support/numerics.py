"""Small numerical steps that several rooms need, for NumPy and for JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

NONE_YET: Any = np.int32(0)  # a count; JAX would compile a program to make one


def namespace(leaf: Any, *numbers: Any) -> Any:
    """NumPy for its own arrays, where none of the numbers is JAX's; JAX's for all others."""
    own = isinstance(leaf, np.ndarray | np.generic)
    return np if own and not any(isinstance(a, jax.Array) for a in numbers) else jnp


def divide(a: Any, b: Any, otherwise: Any = 0.0) -> Any:
    """a/b where b > 0, `otherwise` elsewhere, without a division by zero."""
    xp = jnp if isinstance(a, jax.Array) or isinstance(b, jax.Array) else np
    return xp.where(b > 0, a / xp.where(b > 0, b, 1), otherwise)


def power_step(image: Any, unit: Any) -> tuple[Any, Any]:
    """One turn of a power iteration: the next unit vector, and the length of A·unit."""
    xp = namespace(image)
    length = xp.linalg.norm(image)
    return divide(image, length, unit), length


def power_iteration(apply: Callable[[Any], Any], unit: Any, turns: Any) -> tuple[Any, Any]:
    """The last unit vector, and ‖A·unit‖ at the last turn: the largest eigenvalue, in JAX."""

    def turn(_: Any, found: Any) -> tuple[Any, Any]:
        return power_step(apply(found[0]), found[0])

    return jax.lax.fori_loop(0, turns, turn, (unit, jnp.zeros((), unit.dtype)))


def extrapolate(new: Any, old: Any, t: Any, uphill: Any) -> tuple[Any, Any]:
    """FISTA's next point and t: t⁺ = (1 + √(1 + 4t²))/2, new + ((t − 1)/t⁺)(new − old).

    Anew, with t⁺ = 1, where the momentum points uphill (O'Donoghue & Candès 2015): `uphill` is
    ⟨ahead − new, new − old⟩, in the metric of the prox.
    """
    xp = namespace(new)
    after = xp.where(uphill > 0, 1.0, (1 + xp.sqrt(1 + 4 * t * t)) / 2).astype(new.dtype)
    weight = xp.where(uphill > 0, 0.0, (t - 1) / after).astype(new.dtype)
    return new + weight * (new - old), after
