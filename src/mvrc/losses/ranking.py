"""Average precision and one-way partial AUC: a mean of its own for every positive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.problem import Coupled
from mvrc.regularizers import Regularizer
from mvrc.support import calls, checks
from mvrc.support.numerics import divide

Score = Callable[[Any, Any], Any]


def average_precision(
    score: Score, features: Any, labels: Any, margin: float = 1.0,
    regularizer: Regularizer | None = None, inner_batch: int | None = None,
    negatives: int | None = None,
) -> Coupled:  # fmt: skip
    """min over x of −(1/N₊) Σₖ [Σ_j 1₊(j)ℓ(sⱼ − sₖ) / Σ_j ℓ(sⱼ − sₖ)] over positives k, all j.

    With ℓ(t) = (m + t)₊² in the place of 1[t ≥ 0] it is a smooth form of the average precision (Qi
    et al., Stochastic Optimization of Areas Under Precision–Recall Curves with Provable
    Convergence, 2021): gₖ has the means of 1₊ℓ and of ℓ, and fₖ(y) = −y₁/y₂.

    Args:
        score: `s(x, features)` of one sample, a number.
        features: arrays with a leading axis n.
        labels: n numbers, 1 for positive and 0 for negative; both must occur.
        margin: m.
        regularizer: r of the problem.
        inner_batch: |B₂|, inner samples that a positive is compared with in a small batch.
        negatives: None: an inner sample is a row of the data, and the precision that of the data.
            m: an inner sample is one positive with m negatives, and the precision that of m
            negatives to a positive, −E₊ℓ/(E₊ℓ + m·E₋ℓ), as where a sampler balances the classes.
            Where positives are rare it often ranks better: ℓ is above 0 also for negatives that
            are well behind, and all of these together hide the few that come first.

    Examples:
        >>> from mvrc import losses
        >>> score = lambda x, s: s @ x
        >>> ranking = losses.average_precision(score, returns, returns[:, 0] > 1.5)
        >>> mvrc.minimize(ranking, x0, "sox", epochs=2).x.shape
        (3,)
    """
    s = _scalar(score)
    margin = checks.positive("margin", margin)
    rows, label = _labelled(features, labels)
    positives = jax.tree_util.tree_map(lambda a: a[label == 1], rows)

    def losses(x: Any, k: Any, others: Any) -> Any:
        return jnp.maximum(margin + jax.vmap(lambda o: s(x, o))(others) - s(x, k), 0) ** 2

    def inner(x: Any, k: Any, sample: Any) -> Any:
        others, ours, all_ = sample
        loss = losses(x, k, others)
        return jnp.stack([ours @ loss, all_ @ loss])

    def outer(y: Any, k: Any) -> Any:
        return -divide(y[0], y[1], 0.0)

    index, ours, all_ = _together(label, negatives)
    shown = jax.tree_util.tree_map(lambda a: a[index], rows)
    kind = np.result_type(np.float32, *(a.dtype for a in _floats(rows)))
    data = shown, ours.astype(kind), all_.astype(kind)
    return Coupled(inner, outer, data, positives, regularizer, inner_batch=inner_batch)


def _together(
    label: np.ndarray, negatives: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each inner sample its rows, and what their losses count among positives and in all."""
    n = len(label)
    if negatives is None:
        return np.arange(n)[:, None], label[:, None], np.ones((n, 1))
    m = checks.integer("negatives", negatives)
    first, rest = (np.random.default_rng(0).permutation(np.flatnonzero(label == v)) for v in (1, 0))
    size = max(len(first), -(-len(rest) // m))
    leader = np.arange(size) % len(first)
    places = np.arange(size * m).reshape(m, size).T  # spread evenly over the inner samples
    index = np.column_stack([first[leader], rest[places % len(rest)]])
    # So that the means over inner samples are E₊ℓ and E₊ℓ + m·E₋ℓ, every row counted alike.
    ours, all_ = np.zeros((2, size, 1 + m))
    ours[:, 0] = all_[:, 0] = size / len(first) / np.bincount(leader)[leader]
    all_[:, 1:] = m * size / len(rest) * (places < len(rest))
    return index, ours, all_


def _floats(rows: Any) -> list[Any]:
    return [a for a in jax.tree_util.tree_leaves(rows) if a.dtype.kind == "f"]


def average_precision_value(
    scores: Any, labels: Any, margin: float = 1.0, negatives: int | None = None
) -> float:
    """The same of given scores, by all pairs.

    Examples:
        >>> from mvrc import losses
        >>> losses.average_precision_value(np.array([9.0, 0.0]), np.array([1, 0]))  # the best
        -1.0
    """
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels)
    loss = np.maximum(margin + scores[None, :] - scores[labels == 1][:, None], 0) ** 2
    if negatives is None:
        return float(-np.mean(loss @ (labels == 1) / loss.sum(axis=1)))
    first, rest = (loss[:, labels == v].mean(axis=1) for v in (1, 0))
    return float(-np.mean(first / (first + negatives * rest)))


def partial_auc(
    score: Score, features: Any, labels: Any, temperature: float = 0.5, margin: float = 1.0,
    regularizer: Regularizer | None = None, inner_batch: int | None = None,
) -> Coupled:  # fmt: skip
    """min over x of (1/N₊) Σₖ λ log E exp(ℓ(σ(sⱼ) − σ(sₖ))/λ) over positives k and negatives j.

    With ℓ(t) = (m + t)₊² and the logistic σ, the negatives that score highest count most, as in a
    partial AUC up to a small false positive rate (one-way, in its soft form: Zhu et al., When AUC
    meets DRO, 2022). λ → ∞ is the whole AUC, λ → 0 the worst negative.

    Args:
        score: `s(x, features)` of one sample, a number.
        features: arrays with a leading axis n.
        labels: n numbers, 1 for positive and 0 for negative; both must occur.
        temperature: λ.
        margin: m.
        regularizer: r of the problem.
        inner_batch: |B₂|, negatives that a positive is compared with in a small batch.

    Examples:
        >>> from mvrc import losses
        >>> score = lambda x, s: s @ x
        >>> ranking = losses.partial_auc(score, returns, returns[:, 0] > 1.5)
        >>> mvrc.minimize(ranking, x0, "sox", epochs=2).x.shape
        (3,)
    """
    s = _scalar(score)
    margin, scale = checks.positive("margin", margin), checks.positive("temperature", temperature)
    rows, label = _labelled(features, labels)
    parts = [jax.tree_util.tree_map(lambda a: a[label == v], rows) for v in (1, 0)]  # noqa: B023
    most = (margin + 1) ** 2  # of ℓ, so that exp does not overflow

    def inner(x: Any, k: Any, other: Any) -> Any:
        gap = margin + jax.nn.sigmoid(s(x, other)) - jax.nn.sigmoid(s(x, k))
        return jnp.exp((jnp.maximum(gap, 0) ** 2 - most) / scale)[None]

    def outer(y: Any, k: Any) -> Any:
        return most + scale * jnp.log(jnp.maximum(y[0], jnp.finfo(y.dtype).tiny))

    return Coupled(inner, outer, parts[1], parts[0], regularizer, inner_batch=inner_batch)


def partial_auc_value(
    scores: Any, labels: Any, temperature: float = 0.5, margin: float = 1.0
) -> float:
    """The same of given scores, by all pairs.

    Examples:
        >>> from mvrc import losses
        >>> round(losses.partial_auc_value(np.array([9.0, -9.0]), np.array([1, 0]), margin=0.0), 4)
        0.0
    """
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels)
    p = 1 / (1 + np.exp(-scores))
    loss = np.maximum(margin + p[labels == 0][None, :] - p[labels == 1][:, None], 0) ** 2
    top = loss.max()
    means = np.exp((loss - top) / temperature).mean(axis=1)
    return float(np.mean(top + temperature * np.log(means)))


def _scalar(score: Score) -> Score:
    calls.check_function("score(x, features)", score)
    return lambda x, features: jnp.asarray(score(x, features)).reshape(())


def _labelled(features: Any, labels: Any) -> tuple[Any, np.ndarray]:
    """The rows and their labels, checked."""
    labels = np.asarray(labels)
    if not np.isin(labels, (0, 1)).all() or len(np.unique(labels)) < 2:
        raise ValueError("labels must be 0 and 1, and both must occur.")
    rows = jax.tree_util.tree_map(np.asarray, features)
    counts = {len(a) for a in jax.tree_util.tree_leaves(rows)}
    if counts != {len(labels)}:
        raise ValueError(f"features has {sorted(counts)} rows and labels has {len(labels)}.")
    return rows, labels.astype(np.int32)
