"""Stochastic neighbour embedding as a composition, safe at any distance."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.applications.embedding.neighbors import Neighbors, neighbors
from mvrc.problem import Composition
from mvrc.support import checks

OUTER = ("points", "pairs")
ALL = 512  # up to so many points the shift of the log-sum-exp looks at all of them,
CLOSEST = 8  # beyond at so many of each point's nearest in the data


@checks.explain_keywords
def neighbor_embedding(
    data: Any,
    perplexity: float | None = None,
    sigma: float = 1.0,
    embedding_sigma: float = 1.0,
    keep: int | None = None,
    outer: str = "points",
) -> Composition:
    """The paper's stochastic neighbour embedding (Σ²), x an array of n points.

    Φ(x) = −(1/n²) Σₖ Σᵢ p_{i|k} log q_{i|k}, with q_{i|k} = s(xᵢ, xₖ)/Σ_{j≠k} s(xⱼ, xₖ) and
    s(a, b) = exp(−‖a − b‖²/2σ²); p likewise from the data. With the shift
    cₖ(x) = max over i ≠ k of log s(xᵢ, xₖ), which keeps the sum from under- and overflowing at any
    distance and cancels in the end,

    g(x, j) = (x, [exp(log s(xⱼ, xₖ) − cₖ) for k ≠ j, 0 for k = j], c),
    f_{i,k}(y) = p_{i|k} (log y²ₖ + y³ₖ + log n − log s(y¹ᵢ, y¹ₖ)) − p_{i|k} log n.

    With more than 512 points the maximum is over k's eight nearest in the data only, as a step on a
    small batch must not visit all pairs, and a term is cut at e^560 (in float32 e^70). So Φ is
    exact as long as no point is more similar to k than k's eight nearest data points all are by
    that factor, which holds wherever these are near k in x too, as in an embedding that has
    converged. Elsewhere, such as for random points far apart, Φ is too low, but finite.

    Args:
        data: n points, n × D.
        perplexity: choose each point's σ such that p_{·|k} has this perplexity; None: use `sigma`.
        sigma: σ of the data, when no perplexity is given.
        embedding_sigma: σ of the embedding, a mere unit of length.
        keep: use only so many nearest neighbours of each point for p; all by default.
        outer: "points": the outer sum has a term for each k; "pairs": for each (i, k).

    Examples:
        >>> from mvrc.applications import neighbor_embedding
        >>> problem = neighbor_embedding(returns[:40])
        >>> mvrc.minimize(problem, 0.1 * returns[:40, :2], epochs=5).x.shape
        (40, 2)
    """
    table = neighbors(data, perplexity, sigma, keep)
    return embedding_problem(table, embedding_sigma, outer)


def embedding_problem(
    table: Neighbors, embedding_sigma: float = 1.0, outer: str = "points"
) -> Composition:
    """The same from the neighbours and their probabilities."""
    checks.choice("outer", outer, OUTER)
    scale = 1 / (2 * checks.positive("embedding_sigma", embedding_sigma) ** 2)
    n, kept = table.nearest.shape
    center = np.arange(n, dtype=np.int32)
    rows: Any = (center, table.nearest, table.probability)
    if outer == "pairs":
        rows = (np.repeat(center, kept), table.nearest.ravel(), table.probability.ravel())
    weight = 1 / n if outer == "points" else kept / n
    return Composition(
        _Similarities(None if n <= ALL else table.nearest[:, :CLOSEST], scale),
        _CrossEntropy(scale, weight),
        center,
        outer_data=rows,
    )


def _square(a: jax.Array, b: jax.Array) -> jax.Array:
    """‖a − b‖² over the last axis, which is so short that XLA's reduction would be 20 times slower
    than a sum of columns."""
    columns = range(b.shape[-1])
    if len(columns) > 8:
        return jnp.sum((a - b) ** 2, axis=-1)
    first, *others = ((a[..., c] - b[..., c]) ** 2 for c in columns)
    return sum(others, first)


class _Similarities(eqx.Module):
    closest: np.ndarray | None  # n × few, indices of each point's nearest in the data; None: all
    scale: float  # 1/(2σ²)

    def __call__(self, x: jax.Array, j: jax.Array) -> tuple[jax.Array, ...]:
        shift = -self.scale * _square(x[self._nearest(jax.lax.stop_gradient(x))], x)
        log_similarity = -self.scale * _square(x, x[j])
        most = 0.8 * float(np.log(jnp.finfo(x.dtype).max))
        similarity = jnp.exp(jnp.minimum(log_similarity - shift, most))
        return x, jnp.where(jnp.arange(len(x)) == j, 0, similarity), shift

    def _nearest(self, x: jax.Array) -> jax.Array:
        """For each k the i ≠ k with the largest s(xᵢ, xₖ)."""
        if self.closest is None:
            apart = _square(x[:, None], x)
            return jnp.argmin(jnp.where(jnp.eye(len(x), dtype=bool), jnp.inf, apart), axis=1)
        best = jnp.argmin(_square(x[self.closest], x[:, None]), axis=1)
        return jnp.take_along_axis(self.closest, best[:, None], axis=1)[:, 0]


class _CrossEntropy(eqx.Module):
    scale: float  # 1/(2σ²)
    weight: float  # makes a mean over terms the sum over all pairs by n²

    def __call__(self, y: tuple[jax.Array, ...], pair: tuple[jax.Array, ...]) -> jax.Array:
        """For one pair, or one k with all its i."""
        x, similarity, shift = y
        k, i, probability = pair
        apart = _square(x[i], x[k])
        # The mean over j is at least 1/n, one neighbour at the shift; an estimate may be less.
        least = 0.5 / len(x)
        mean = similarity[k]
        log_mean = jnp.where(
            mean > least, jnp.log(jnp.maximum(mean, least)), jnp.log(least) + mean / least - 1
        )
        log_sum = log_mean + jnp.log(len(x)) + shift[k]
        return self.weight * jnp.sum(probability * (log_sum + self.scale * apart))
