"""The global contrastive loss: every anchor against all other samples, not those of its batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.problem import Coupled
from mvrc.regularizers import Regularizer
from mvrc.support import calls, checks


def contrastive(
    embed: Callable[[Any, Any], Any], first: Any, second: Any, temperature: float = 0.1,
    regularizer: Regularizer | None = None, inner_batch: int | None = None,
) -> Coupled:  # fmt: skip
    """min over x of the mean over anchors k of −⟨zₖ, zₖ'⟩/τ + log E_{j≠k} exp(⟨zₖ, zⱼ⟩/τ).

    z is the embedding, divided by its length, of one of 2n samples: two views of n objects, where
    k' is the other view of k. In a minibatch the expectation is over the batch alone, which is
    biased, the more the smaller the batch (Yuan et al., Provable Stochastic Optimization for Global
    Contrastive Learning, 2022).

    Args:
        embed: `e(x, sample)`, a vector.
        first, second: the two views, arrays with a leading axis n.
        temperature: τ.
        regularizer: r of the problem.
        inner_batch: |B₂|, samples that an anchor is compared with in a small batch.

    Examples:
        >>> from mvrc import losses
        >>> embed = lambda x, s: x * s
        >>> views = returns[:40], returns[:40] + 0.1 * returns[40:80]
        >>> problem_of_views = losses.contrastive(embed, *views, inner_batch=8)
        >>> mvrc.minimize(problem_of_views, np.ones(3), "sox", epochs=2).x.shape
        (3,)
    """
    calls.check_function("embed(x, sample)", embed)
    scale = checks.positive("temperature", temperature)
    each = jax.tree_util.tree_map
    pool = each(lambda a, b: np.concatenate([np.asarray(a), np.asarray(b)]), first, second)
    swapped = each(lambda a, b: np.concatenate([np.asarray(b), np.asarray(a)]), first, second)

    def unit(x: Any, sample: Any) -> Any:
        z = jnp.ravel(embed(x, sample))
        return z * jax.lax.rsqrt(jnp.sum(z**2) + jnp.finfo(z.dtype).tiny)

    def inner(x: Any, k: Any, sample: Any) -> Any:
        own, partner = (unit(x, view) for view in k)
        # ⟨zₖ, zⱼ⟩ is at most 1: nothing overflows.
        return jnp.stack([jnp.exp((own @ unit(x, sample) - 1) / scale), own @ partner])

    def outer(y: Any, k: Any) -> Any:
        return jnp.log(jnp.maximum(y[0], jnp.finfo(y.dtype).tiny)) + (1 - y[1]) / scale

    return Coupled(
        inner, outer, pool, (pool, swapped), regularizer, others=True, inner_batch=inner_batch
    )


def contrastive_value(embedded: Any, temperature: float = 0.1) -> float:
    """The same of given embeddings, 2n rows: all first views, then all second ones.

    Examples:
        >>> from mvrc import losses
        >>> round(losses.contrastive_value(np.eye(2)[[0, 1, 0, 1]], temperature=1.0), 4)
        -0.5472
    """
    z = np.asarray(embedded, np.float64)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    n = len(z)
    similar = z @ z.T / temperature
    partner = similar[np.arange(n), np.roll(np.arange(n), n // 2)]
    top = similar.max()
    weight = np.exp(similar - top)
    np.fill_diagonal(weight, 0)
    return float(np.mean(top + np.log(weight.sum(axis=1) / (n - 1)) - partner))
