"""Two points in one pass: what g and its derivative share at both is computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mvrc.compiler import cse
from mvrc.sampling import Samples


def two_points(function: Callable[..., Any], new: Any, old: Any, samples: Samples) -> Any:
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
        return samples.sum(jax.vmap(cse.merged(both), (None, 0))(tangent, samples.rows))

    try:
        _, pull, values = jax.vjp(sums, jnp.zeros_like(new), has_aux=True)
    except (TypeError, NotImplementedError):  # said so by JAX, early or late
        return None
    return values, pull
