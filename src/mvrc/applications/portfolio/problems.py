"""Portfolio problems: −mean + κ·risk of the return rᵀx, for three risks."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.datasets.returns import Returns
from mvrc.problem import Composition
from mvrc.regularizers import L1, Parts, Regularizer, Simplex, Zero
from mvrc.support import checks

SMOOTHING = 0.05  # default width of a smoothed kink, as a share of a typical standard deviation


@checks.explain_keywords
def mean_variance(
    returns: Any,
    risk_aversion: float = 0.2,
    l1: float = 0.01,
    constraint: Regularizer | None = None,
) -> Composition:
    """−E rᵀx + κ Var(rᵀx) + μ‖x‖₁: the paper's risk-averse portfolio (Σ¹, x of length d).

    g(x, r) = (rᵀx, (rᵀx)²) and f(y) = −y₁ + κ(y₂ − y₁²).

    Args:
        returns: days × assets: an array, a DataFrame or `mvrc.datasets.Returns`. In percent, as the
            paper's numbers assume; with fractions the penalty outweighs any return and x = 0.
        risk_aversion: κ.
        l1: μ. On a simplex ‖x‖₁ is constant: any μ gives the same x, and the term is left out.
        constraint: a set for x: `Simplex()` or `Simplex(upper=0.2)`, `Box(-0.1, 0.2)` or
            `NonNegative()`; another one with l1 = 0.
    """
    returns = check_returns(returns)
    return Composition(
        _moments,
        _MeanVariance(checks.nonnegative("risk_aversion", risk_aversion)),
        returns,
        regularizer=_penalty(l1, constraint),
    )


@checks.explain_keywords
def mean_semideviation(
    returns: Any,
    risk_aversion: float = 1.0,
    order: int = 2,
    constraint: Regularizer | None = None,
    smoothing: float | None = None,
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
    """
    returns = check_returns(returns)
    if checks.integer("order", order) > 2:
        raise ValueError(f"order must be 1 or 2, not {order}.")
    width = kink_width(smoothing, returns)
    mean = returns.mean(axis=0)
    return Composition(
        _Shortfall(mean, width) if order == 1 else _SquaredShortfall(mean),
        _Weighted(checks.nonnegative("risk_aversion", risk_aversion))
        if order == 1
        else _Rooted(checks.nonnegative("risk_aversion", risk_aversion), width),
        returns,
        regularizer=_set(constraint),
    )


@checks.explain_keywords
def mean_cvar(
    returns: Any,
    risk_aversion: float = 1.0,
    beta: float = 0.95,
    constraint: Regularizer | None = None,
    smoothing: float | None = None,
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
    """
    returns = check_returns(returns)
    if not 0 < checks.fraction("beta", beta) < 1:
        raise ValueError(f"beta must lie strictly between 0 and 1, not {beta}.")
    return Composition(
        _TailLoss(1 - float(beta), kink_width(smoothing, returns)),
        _Weighted(checks.nonnegative("risk_aversion", risk_aversion)),
        returns,
        regularizer=Parts(weights=_set(constraint)),
    )


def check_returns(returns: Any, names: Any = None) -> np.ndarray:
    """Days × assets as an array of floats, or a sentence.

    Args:
        returns: an array, a DataFrame or `mvrc.datasets.Returns`.
        names: of the assets, when returns does not have them.
    """
    if isinstance(returns, Returns):
        return check_returns(returns.values, returns.assets)
    names = getattr(returns, "columns", None) if names is None else names
    values = _plain(returns)
    if values.dtype.kind not in "iuf" or values.ndim != 2:
        raise ValueError(
            f"returns must be a table of numbers, days × assets, not an array of dtype "
            f"{values.dtype} and shape {values.shape}."
        )
    days, assets = values.shape
    if days < 2:
        raise ValueError(f"returns must have at least two days, and has n_samples = {days}.")
    if assets < 2:
        raise ValueError(f"returns must have at least two assets, and has n_features = {assets}.")
    values = values if values.dtype in (np.float32, np.float64) else values.astype(float)
    broken = ~np.isfinite(values)
    if broken.any():
        raise ValueError(
            f"returns has {broken.sum()} missing values (NaN or inf) on {broken.any(1).sum()} "
            f"of {days} days, in {_columns(names, broken.any(0))}; drop those days or assets, "
            f"or fill them."
        )
    constant = np.ptp(values, axis=0) == 0
    if constant.any():
        raise ValueError(
            f"returns has {_columns(names, constant)} with the same return every day, an asset "
            f"without risk; remove it."
        )
    return values


def _plain(returns: Any) -> np.ndarray:
    """An array of numbers where one can be made: of objects, bools and pandas' nullable columns."""
    values = np.asarray(returns)
    if values.dtype.kind not in "Ob":
        return values
    try:
        missing = returns.isna() if hasattr(returns, "isna") else False  # None and pandas.NA too
        return np.where(missing, np.nan, values).astype(float)
    except (TypeError, ValueError):
        return values  # refused by its dtype


def _columns(names: Any, chosen: np.ndarray) -> str:
    """'column 3' or 'columns Oil, Coal, …' by name where there are names."""
    every = range(len(chosen)) if names is None else names
    listed = [str(name) for name, is_one in zip(every, chosen, strict=True) if is_one]
    more = ", …" if len(listed) > 5 else ""
    return f"column{'s' if len(listed) > 1 else ''} {', '.join(listed[:5])}{more}"


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


def kink_width(smoothing: Any, returns: np.ndarray) -> float:
    """μ: what was given, or a share of the median asset's standard deviation."""
    if smoothing is not None:
        return checks.positive("smoothing", smoothing)
    return SMOOTHING * float(np.median(returns.std(axis=0)))


def smooth_plus(u: Any, width: Any) -> jax.Array:
    """(u)₊, with (u + μ/2)²/(2μ) on |u| ≤ μ/2: convex, slope 1/μ-Lipschitz."""
    near = jnp.clip(u + width / 2, 0, width)
    return near**2 / (2 * width) + jnp.maximum(u - width / 2, 0)


def _moments(x: jax.Array, r: jax.Array) -> jax.Array:
    earned = r @ x
    return jnp.stack([earned, earned**2])


class _MeanVariance(eqx.Module):
    risk_aversion: float

    def __call__(self, y: jax.Array) -> jax.Array:
        return -y[0] + self.risk_aversion * (y[1] - y[0] ** 2)


class _Weighted(eqx.Module):
    risk_aversion: float

    def __call__(self, y: jax.Array) -> jax.Array:
        return -y[0] + self.risk_aversion * y[1]


class _Rooted(eqx.Module):
    """−y₁ + κ√y₂; below δ² the root is its tangent, as an estimate of y₂ may be negative."""

    risk_aversion: float
    delta: float

    def __call__(self, y: jax.Array) -> jax.Array:
        tangent = (y[1] + self.delta**2) / (2 * self.delta)
        root = jnp.sqrt(jnp.maximum(y[1], self.delta**2))
        return -y[0] + self.risk_aversion * jnp.where(y[1] > self.delta**2, root, tangent)


class _Shortfall(eqx.Module):
    mean: np.ndarray
    width: float

    def __call__(self, x: jax.Array, r: jax.Array) -> jax.Array:
        return jnp.stack([r @ x, smooth_plus((self.mean - r) @ x, self.width)])


class _SquaredShortfall(eqx.Module):
    mean: np.ndarray

    def __call__(self, x: jax.Array, r: jax.Array) -> jax.Array:
        return jnp.stack([r @ x, jnp.maximum((self.mean - r) @ x, 0) ** 2])


class _TailLoss(eqx.Module):
    tail: float  # 1 − β
    width: float

    def __call__(self, z: dict[str, jax.Array], r: jax.Array) -> jax.Array:
        earned = r @ z["weights"]
        over = smooth_plus(-earned - z["threshold"], self.width)
        return jnp.stack([earned, z["threshold"] + over / self.tail])
