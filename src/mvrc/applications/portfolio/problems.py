"""Portfolio problems: −mean + κ·risk of the return rᵀx, the risk alone, or their ratio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mvrc.applications.portfolio import risks
from mvrc.applications.portfolio.returns import kink_width, scenarios
from mvrc.problem import Composition
from mvrc.regularizers import L1, Box, Parts, Regularizer, Simplex, Zero
from mvrc.support import checks

EXPONENT = {"float64": 400.0, "float32": 50.0}  # largest of EVaR's, for one unit of weight


@checks.explain_keywords
def mean_variance(
    returns: Any,
    risk_aversion: float = 0.2,
    l1: float = 0.01,
    constraint: Regularizer | None = None,
    objective: str = "utility",
    sample_weight: Any = None,
) -> Composition:
    """−E rᵀx + κ Var(rᵀx) + μ‖x‖₁: the paper's risk-averse portfolio (Σ¹, x of length d).

    g(x, r) = (rᵀx, (rᵀx)²) and f(y) = −y₁ + κ(y₂ − y₁²).

    Args:
        returns: days × assets: an array, a DataFrame or `mvrc.datasets.Returns`. In percent, as the
            paper's numbers assume; with fractions the penalty outweighs any return and x = 0.
        risk_aversion: κ.
        l1: μ. On a simplex ‖x‖₁ is constant: any μ gives the same x, and the term is left out.
        constraint: a set for x: `Simplex()`, `Box(-0.1, 0.2)`, `NonNegative()` or a sum of sets;
            one with which an ℓ₁ norm has no prox with l1 = 0.
        objective: "utility" as above; "risk" for the variance alone; "ratio" for minus the mean
            over the standard deviation, which needs a constraint that fixes the size of x.
        sample_weight: of each day; equal when None.

    Examples:
        >>> from mvrc.applications import mean_variance
        >>> mvrc.minimize(mean_variance(returns, risk_aversion=0.5, l1=0.01), x0).x.round(2)
        array([0.24, 0.36, 0.24])
    """
    returns, weights = scenarios(returns, sample_weight)
    risk = risks.deviation if objective == "ratio" else risks.variance
    penalty = _penalty(l1, constraint)
    return _problem(returns, weights, risks.moments, risk, risk_aversion, objective, penalty)


@checks.explain_keywords
def mean_semideviation(
    returns: Any,
    risk_aversion: float = 1.0,
    order: int = 2,
    constraint: Regularizer | None = None,
    smoothing: float | None = None,
    objective: str = "utility",
    sample_weight: Any = None,
) -> Composition:
    """−E rᵀx + κ (E (E rᵀx − rᵀx)₊ᵖ)^(1/p): only falls below the mean count as risk (Σ¹).

    g(x, r) = (rᵀx, ((r̄ − r)ᵀx)₊ᵖ) with the exact mean r̄, and f(y) = −y₁ + κ y₂^(1/p).

    The risk is proportional to the size of x, so x needs a set that fixes its size, as a simplex
    does: in a box or a ball that contains 0, x = 0 is the optimum from some κ on.

    Args:
        returns: days × assets: an array, a DataFrame or `mvrc.datasets.Returns`.
        risk_aversion: κ.
        order: p, 1 or 2.
        constraint: a set for x; `Simplex()` when None.
        smoothing: width μ of the smoothed kink of (·)₊ for p = 1; for p = 2 the semideviation
            below which the root is replaced by its tangent. 0.05 of the median asset's standard
            deviation by default.
        objective, sample_weight: as for `mean_variance`.

    Examples:
        >>> from mvrc.applications import mean_semideviation
        >>> portfolio = mean_semideviation(returns, constraint=mvrc.Simplex())
        >>> round(float(mvrc.minimize(portfolio, np.ones(3) / 3).x.sum()), 6)
        1.0
    """
    returns, weights = scenarios(returns, sample_weight)
    if checks.integer("order", order) > 2:
        raise ValueError(f"order must be 1 or 2, not {order}.")
    width = kink_width(smoothing, returns, weights)
    mean = np.average(returns, axis=0, weights=weights).astype(returns.dtype)
    inner = risks.Shortfall(mean, width) if order == 1 else risks.SquaredShortfall(mean)
    risk = risks.second if order == 1 else risks.Root(width)
    return _problem(returns, weights, inner, risk, risk_aversion, objective, _set(constraint))


@checks.explain_keywords
def mean_cvar(
    returns: Any,
    risk_aversion: float = 1.0,
    beta: float = 0.95,
    constraint: Regularizer | None = None,
    smoothing: float | None = None,
    objective: str = "utility",
    sample_weight: Any = None,
) -> Composition:
    """−E rᵀx + κ CVaR_β(−rᵀx): the mean of the worst 1 − β of the losses counts (Σ¹).

    After Rockafellar and Uryasev, over x and a threshold t together:
    g((x, t), r) = (rᵀx, t + (−rᵀx − t)₊/(1 − β)) and f(y) = −y₁ + κ y₂. The unknown is the
    dictionary {"weights": x, "threshold": t}. (u)₊ is smoothed to (u + μ/2)²/(2μ) on |u| ≤ μ/2,
    which is too large by μ/8 at most. In a box or a ball that contains 0, x = 0 is the optimum from
    some κ on; a simplex fixes the size of x.

    Args:
        returns: days × assets: an array, a DataFrame or `mvrc.datasets.Returns`.
        risk_aversion: κ.
        beta: β, in (0, 1).
        constraint: a set for x; `Simplex()` when None.
        smoothing: μ; 0.05 of the median asset's standard deviation by default.
        objective, sample_weight: as for `mean_variance`.

    Examples:
        >>> from mvrc.applications import mean_cvar
        >>> portfolio = mean_cvar(returns, beta=0.9, constraint=mvrc.Simplex(), smoothing=0.1)
        >>> start = {"weights": np.ones(3) / 3, "threshold": np.zeros(())}
        >>> mvrc.minimize(portfolio, start).status.name
        'CONVERGED'
    """
    returns, weights = scenarios(returns, sample_weight)
    inner = risks.TailLoss(_tail(beta), kink_width(smoothing, returns, weights))
    penalty = Parts(weights=_set(constraint))
    return _problem(returns, weights, inner, risks.second, risk_aversion, objective, penalty)


@checks.explain_keywords
def mean_entropic(
    returns: Any,
    risk_aversion: float = 1.0,
    theta: float = 1.0,
    constraint: Regularizer | None = None,
    objective: str = "utility",
    sample_weight: Any = None,
) -> Composition:
    """−E rᵀx + κ (1/θ) log E exp(−θ rᵀx): the entropic risk (Σ¹, x of length d).

    g(x, r) = (rᵀx, e^{−θrᵀx}), continued as in `mvrc.losses.tilted` beyond exponents of 500 (60 in
    float32), and f(y) = −y₁ + (κ/θ) log y₂.

    Args:
        returns: days × assets: an array, a DataFrame or `mvrc.datasets.Returns`.
        risk_aversion: κ.
        theta: θ, in 1 over the unit of the returns: how much more large losses count.
        constraint: a set for x; `Simplex()` when None.
        objective, sample_weight: as for `mean_variance`.

    Examples:
        >>> from mvrc.applications import mean_entropic
        >>> mvrc.minimize(mean_entropic(returns), np.ones(3) / 3).status.name
        'CONVERGED'
    """
    returns, weights = scenarios(returns, sample_weight)
    theta = checks.positive("theta", theta)
    inner, risk = risks.Exponential(theta), risks.Entropic(theta)
    return _problem(returns, weights, inner, risk, risk_aversion, objective, _set(constraint))


@checks.explain_keywords
def mean_evar(
    returns: Any,
    risk_aversion: float = 1.0,
    beta: float = 0.95,
    constraint: Regularizer | None = None,
    objective: str = "utility",
    sample_weight: Any = None,
) -> Composition:
    """−E rᵀx + κ EVaR_β: the entropic value at risk, the least Chernoff bound of CVaR_β (Σ¹).

    EVaR_β = min over z > 0 of z log(E exp(−rᵀx/z)/(1 − β)) (Ahmadi-Javid, 2012), over x and z
    together: g((x, z), r) = (rᵀx, z, e^{−rᵀx/z}) and f(y) = −y₁ + κ y₂ log(y₃/(1 − β)). The unknown
    is {"weights": x, "scale": z}; z is at least the largest return over 400 (50 in float32).

    Args:
        returns: days × assets: an array, a DataFrame or `mvrc.datasets.Returns`.
        risk_aversion: κ.
        beta: β, in (0, 1).
        constraint: a set for x; `Simplex()` when None.
        objective, sample_weight: as for `mean_variance`.

    Examples:
        >>> from mvrc.applications import mean_evar
        >>> type(mean_evar(returns, beta=0.9)).__name__
        'Composition'
    """
    returns, weights = scenarios(returns, sample_weight)
    inner, risk = risks.ScaledExponential(), risks.EntropicAtRisk(_tail(beta))
    least = float(np.abs(returns).max()) / EXPONENT[str(returns.dtype)]
    penalty = Parts(weights=_set(constraint), scale=Box(least, np.inf))
    return _problem(returns, weights, inner, risk, risk_aversion, objective, penalty)


def _problem(
    returns: np.ndarray, weights: Any, inner: Any, risk: Callable[[Any], Any],
    risk_aversion: float, objective: str, penalty: Regularizer,
) -> Composition:  # fmt: skip
    checks.choice("objective", objective, risks.OBJECTIVES)
    kappa = checks.nonnegative("risk_aversion", risk_aversion)
    outer = risks.Objective(risk, kappa, objective)
    if weights is None:
        return Composition(inner, outer, returns, regularizer=penalty)
    data = {"returns": returns, "weight": weights}
    return Composition(risks.Weighted(inner), outer, data, regularizer=penalty)


def _tail(beta: float) -> float:
    if not 0 < checks.fraction("beta", beta) < 1:
        raise ValueError(f"beta must lie strictly between 0 and 1, not {beta}.")
    return 1 - float(beta)


def _penalty(l1: float, constraint: Regularizer | None) -> Regularizer:
    weight = checks.nonnegative("l1", l1)
    _check_constraint(constraint, "mvrc.Simplex() or mvrc.Box(0, 0.2)")
    if isinstance(constraint, Simplex):
        return constraint
    penalty = L1(weight) if weight else Zero()
    try:
        return penalty if constraint is None else penalty + constraint
    except TypeError:
        raise ValueError(
            f"constraint {type(constraint).__name__} has no prox together with l1 = {weight:g}; "
            f"give l1=0, or a Box, NonNegative or Simplex."
        ) from None


def _set(constraint: Regularizer | None) -> Regularizer:
    _check_constraint(constraint, "mvrc.Simplex() or mvrc.Simplex(upper=0.2)")
    return Simplex() if constraint is None else constraint


def _check_constraint(constraint: Any, such_as: str) -> None:
    if constraint is not None and not isinstance(constraint, Regularizer):
        raise TypeError(
            f"constraint must be a regulariser such as {such_as}, or None, not "
            f"{checks.shown(constraint)}."
        )
