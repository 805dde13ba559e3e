"""The exact mean–variance optimum, from the covariance: the reference for stochastic runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mvrc.applications.portfolio.returns import check_returns
from mvrc.support import checks


@checks.explain_keywords
def exact_mean_variance(
    returns: Any, risk_aversion: float = 0.2, l1: float = 0.01, rounds: int = 10**6
) -> tuple[np.ndarray, float]:
    """The minimiser and minimum of `mean_variance` without constraint.

    FISTA with restart on −r̄ᵀx + κ xᵀCx + μ‖x‖₁, C the covariance, until a step moves no
    coordinate by more than rounding.
    """
    returns = check_returns(returns).astype(float)
    risk = checks.positive("risk_aversion", risk_aversion)
    mean, covariance = returns.mean(axis=0), np.cov(returns.T, bias=True)
    step = 1 / (2 * risk * np.linalg.eigvalsh(covariance)[-1])

    def forward_backward(x: np.ndarray) -> np.ndarray:
        u = x - step * (2 * risk * covariance @ x - mean)
        return np.sign(u) * np.maximum(np.abs(u) - step * l1, 0)

    x = y = np.zeros_like(mean)
    t = 1.0
    for _ in range(rounds):
        new = forward_backward(y)
        if np.abs(x - new).max() <= 1e-15 * max(1, np.abs(x).max()) and t > 1:
            break
        if (y - new) @ (new - x) > 0:  # the momentum points uphill: start it anew
            y, t = x, 1.0
            continue
        t_new = (1 + math.sqrt(1 + 4 * t * t)) / 2
        x, y, t = new, new + (t - 1) / t_new * (new - x), t_new
    return x, float(-mean @ x + risk * x @ covariance @ x + l1 * np.abs(x).sum())
