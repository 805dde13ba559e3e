"""Neighbour embedding as a coupled problem, whose small steps do not grow with the points."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mvrc.applications.embedding.neighbors import Neighbors, neighbors
from mvrc.problem import Coupled
from mvrc.support import checks

KERNELS = ("gaussian", "student")
LEAST = 1e-30  # a mean similarity that is no larger is far beyond every neighbour


@checks.explain_keywords
def neighbor_embedding_coupled(
    data: Any,
    perplexity: float | None = None,
    sigma: float = 1.0,
    embedding_sigma: float = 1.0,
    keep: int | None = None,
    kernel: str = "gaussian",
    inner_batch: int | None = None,
) -> Coupled:
    """(1/n) Σₖ [−Σᵢ p_{i|k} log s(xᵢ, xₖ) + log Σ_{j≠k} s(xⱼ, xₖ)], x an array of n points.

    n times the Φ of `neighbor_embedding`, in the form where point k has the mean of its own
    similarities as its inner mean: a step on |B₁| points and |B₂| others costs |B₁|·(|B₂| + kept)
    and not n.

    Args:
        data: n points, n × D.
        perplexity: choose each point's σ such that p_{·|k} has this perplexity; None: use `sigma`.
        sigma: σ of the data, when no perplexity is given.
        embedding_sigma: σ of the embedding, a mere unit of length.
        keep: use only so many nearest neighbours of each point for p; all by default.
        kernel: "gaussian", s(a, b) = exp(−‖a − b‖²/2σ²), or "student", 1/(1 + ‖a − b‖²/2σ²), whose
            long tails leave room between clusters.
        inner_batch: |B₂|.

    Examples:
        >>> from mvrc.applications import neighbor_embedding_coupled
        >>> map = neighbor_embedding_coupled(returns[:40], perplexity=5, inner_batch=8)
        >>> mvrc.minimize(map, 0.1 * returns[:40, :2], "sox", epochs=2).x.shape
        (40, 2)
    """
    table = neighbors(data, perplexity, sigma, keep)
    return coupled_embedding(table, embedding_sigma, kernel, inner_batch)


def coupled_embedding(
    table: Neighbors, embedding_sigma: float = 1.0, kernel: str = "gaussian",
    inner_batch: int | None = None,
) -> Coupled:  # fmt: skip
    """The same from the neighbours and their probabilities."""
    checks.choice("kernel", kernel, KERNELS)
    scale = 1 / (2 * checks.positive("embedding_sigma", embedding_sigma) ** 2)
    points = np.arange(len(table.nearest), dtype=np.int32)
    rows = (points, table.nearest, table.probability)
    return Coupled(
        _Similarity(scale, kernel), _entropy, points, rows, others=True, inner_batch=inner_batch
    )


class _Similarity(eqx.Module):
    scale: float = eqx.field(static=True)  # 1/(2σ²)
    kernel: str = eqx.field(static=True)

    def __call__(self, x: Any, k: Any, j: Any) -> Any:
        """s(xⱼ, xₖ), −Σᵢ p_{i|k} log s(xᵢ, xₖ), and log (n − 1)."""
        own, nearest, probability = k
        attraction = jnp.sum(probability * self._negative_log(x[nearest], x[own]))
        similarity = jnp.exp(-self._negative_log(x[j], x[own]))
        return jnp.stack([similarity, attraction, jnp.log(jnp.asarray(len(x) - 1.0, x.dtype))])

    def _negative_log(self, a: Any, b: Any) -> Any:
        square = self.scale * jnp.sum((a - b) ** 2, axis=-1)
        return square if self.kernel == "gaussian" else jnp.log1p(square)


def _entropy(y: Any, k: Any) -> Any:
    # Below the least mean the logarithm goes on along its tangent: finite, with a slope.
    low = y[0] < LEAST
    log_mean = jnp.where(
        low, jnp.log(LEAST) + y[0] / LEAST - 1, jnp.log(jnp.where(low, LEAST, y[0]))
    )
    return y[1] + log_mean + y[2]
