"""The AUC margin loss: a ranking of positives above negatives, without pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from mvrc.problem import Composition
from mvrc.regularizers import Regularizer
from mvrc.support import calls, checks
from mvrc.support.numerics import divide


class Labelled(NamedTuple):
    """Samples of `auc_margin`."""

    features: Any
    label: Any  # 1 or 0


def auc_margin(
    score: Callable[[Any, Any], Any], features: Any, labels: Any, margin: float = 1.0,
    hinge: bool = True, regularizer: Regularizer | None = None,
) -> Composition:  # fmt: skip
    """min over x of Var₊ + Var₋ + (m + μ₋ − μ₊)₊², of scores s(x) of positives and of negatives.

    A function of five means: E 1₊s, E 1₋s, E 1₊s², E 1₋s², E 1₊ (Yuan et al., Large-scale Robust
    Deep AUC Maximization, 2021). Without the hinge it is the mean of (m − sᵢ + sⱼ)² over all pairs
    of a positive i and a negative j. Scores may drift together, as a common shift changes nothing:
    in float32 the variances then lose digits, which a small penalty on the last layer prevents.

    Args:
        score: `s(x, features)` of one sample, a number.
        features: arrays with a leading axis n.
        labels: n numbers, 1 for positive and 0 for negative; both must occur.
        margin: m.
        hinge: whether a distance beyond the margin is free.
        regularizer: r of the problem.

    Examples:
        >>> from mvrc import losses
        >>> score = lambda x, s: s @ x
        >>> ranking = losses.auc_margin(score, returns, returns[:, 0] > 1.5)
        >>> mvrc.minimize(ranking, x0).status.name
        'CONVERGED'
    """
    labels = np.asarray(labels)
    if not np.isin(labels, (0, 1)).all() or len(np.unique(labels)) < 2:
        raise ValueError("labels must be 0 and 1, and both must occur.")
    inner, outer = auc_functions(score, margin, hinge)
    data = Labelled(features, labels.astype(np.float32))
    return Composition(inner, outer, data, regularizer=regularizer)


def auc_functions(
    score: Callable[[Any, Any], Any], margin: float = 1.0, hinge: bool = True
) -> tuple[Any, Any]:
    """g and f, as `mvrc.tracker` takes them; a batch without positives gives finite numbers."""
    calls.check_function("score(x, features)", score)
    margin = checks.positive("margin", margin)

    def inner(x: Any, sample: Any) -> Any:
        features, label = sample
        s = jnp.asarray(score(x, features)).reshape(())
        positive = label.astype(s.dtype)
        each = jnp.stack([s, s**2])
        return jnp.concatenate([positive * each, (1 - positive) * each, positive[None]])

    def outer(y: Any) -> Any:
        mean, square = divide(y[:2], y[4], 0.0)
        other, other_square = divide(y[2:4], 1 - y[4], 0.0)
        gap = margin + other - mean
        gap = jnp.maximum(gap, 0) if hinge else gap
        return (square - mean**2) + (other_square - other**2) + gap**2

    return inner, outer


def pairwise_square(scores: Any, labels: Any, margin: float = 1.0) -> float:
    """The mean of (m − sᵢ + sⱼ)² over all pairs of a positive i and a negative j.

    Examples:
        >>> from mvrc import losses
        >>> losses.pairwise_square(np.array([2.0, 0.5]), np.array([1, 0]))  # (1 − 2 + ½)²
        0.25
    """
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels)
    first, second = scores[labels == 1], scores[labels == 0]
    return float(np.mean((margin - first[:, None] + second[None, :]) ** 2))
