"""Exact references by linear algebra: the Bellman residual's minimiser, LSTD and the values."""

from __future__ import annotations

from typing import Any

import numpy as np

from mvrc.applications.bellman import inputs
from mvrc.support import checks


@checks.explain_keywords
def least_squares(transition: Any, rewards: Any, features: Any, gamma: float) -> np.ndarray:
    """argmin over w of ‖Φw − r̄ − γPΦw‖², with r̄_i = Σ_j P_ij R_ij (of least norm if not unique)."""
    matrix, expected, table, gamma = _checked(transition, rewards, features, gamma)
    return np.linalg.lstsq(table - gamma * (matrix @ table), expected)[0]


@checks.explain_keywords
def lstd(
    transition: Any, rewards: Any, features: Any, gamma: float, weights: Any = None
) -> np.ndarray:
    """w with ΦᵀD(Φw − r̄ − γPΦw) = 0: the fixed point of the Bellman operator projected on Φ.

    Bradtke & Barto, Linear Least-Squares Algorithms for Temporal Difference Learning, 1996.

    Args:
        transition, rewards, features, gamma: P, R (or r̄), Φ and γ.
        weights: the diagonal of D, such as the stationary distribution; equal by default.
    """
    matrix, expected, table, gamma = _checked(transition, rewards, features, gamma)
    left = table.T
    if weights is not None:
        left = left * inputs.column("weights", weights, len(matrix), "transition")
    return np.linalg.lstsq(left @ (table - gamma * (matrix @ table)), left @ expected)[0]


@checks.explain_keywords
def lstd_transitions(
    features: Any, rewards: Any, next_features: Any, gamma: float, terminal: Any = None
) -> np.ndarray:
    """w with Σ_k φ_k (φ_kᵀw − r_k − γφ'_kᵀw) = 0: LSTD from observed transitions.

    No square is taken of what is random, so, unlike the Bellman residual, this has no bias from
    states that are seen once.

    Args:
        features, next_features: φ and φ', n × d.
        rewards: r, n.
        gamma: γ, from 0 to below 1.
        terminal: n booleans, True where the value after the transition is 0.
    """
    left, change, gains = inputs.transitions(features, rewards, next_features, gamma, terminal)
    return np.linalg.lstsq(left.T @ change, left.T @ gains)[0]


@checks.explain_keywords
def exact_values(transition: Any, rewards: Any, gamma: float) -> np.ndarray:
    """V = (I − γP)⁻¹ r̄, the value of every state."""
    matrix, expected, identity, gamma = _checked(transition, rewards, None, gamma)
    return np.linalg.solve(identity - gamma * matrix, expected)


def _checked(
    transition: Any, rewards: Any, features: Any, gamma: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """P, r̄, Φ (the identity when not given) and γ, in float64."""
    matrix = inputs.chain(transition).astype(np.float64)
    states = len(matrix)
    expected = (matrix * inputs.reward_matrix("rewards", rewards, states)).sum(axis=1)
    table = np.eye(states) if features is None else inputs.feature_table(features, states)
    return matrix, expected, table.astype(np.float64), inputs.discount(gamma)
