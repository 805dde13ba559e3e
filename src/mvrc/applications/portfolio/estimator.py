"""The portfolio estimators: fit on returns, predict portfolio returns.

Longer than other files: one class per risk, each little but its docstring and example.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from mvrc.applications.portfolio.base import Portfolio
from mvrc.applications.portfolio.problems import (
    mean_cvar,
    mean_entropic,
    mean_evar,
    mean_semideviation,
    mean_variance,
)
from mvrc.losses.robust import tilted_value
from mvrc.problem import Composition
from mvrc.support import checks


class MeanVariancePortfolio(Portfolio):
    """Weights that minimise −mean + κ·variance + μ‖w‖₁ of the portfolio's return.

    Args:
        risk_aversion: κ.
        l1: μ. Of long-only weights ‖w‖₁ is their sum, and the term is left out.
        constraint: "long-only" (weights from 0 that sum to 1); `Limits(…)` for bounds, budgets,
            groups, costs, a least return and cash; a set such as `mvrc.Simplex(upper=0.2)`; None
            for any weights, as in the paper.
        method: a recipe, a name of `mvrc.METHODS`, or None for `mvrc.Auto`.
        tol: the fit ends when the gradient mapping is at most this fraction of its value at the
            start.
        max_epochs: limit on epochs; reaching it gives a ConvergenceWarning.
        random_state: seed or RandomState, as everywhere in scikit-learn.
        verbose: show a progress bar.
        objective: "utility"; "risk" for the least risk, whatever κ; "ratio" for the largest mean
            over risk, of the variance over its root: the Sharpe ratio.
        units: "percent" or "fraction" of X; "auto" takes returns with standard deviations below
            0.1 for fractions. Fractions are multiplied by 100, so that κ and μ mean the same.

    Attributes:
        weights_: one for each asset.
        cash_: what is not invested, where `Limits` have cash; else 0.
        units_: "percent" or "fraction".
        objective_: the value reached.
        result_: the `mvrc.Result`, with its history.
        n_iter_: epochs made.
        feature_names_in_: names of the assets, when X is a DataFrame.

    Examples:
        >>> from mvrc.applications import MeanVariancePortfolio
        >>> MeanVariancePortfolio(risk_aversion=0.5).fit(returns).weights_.shape
        (3,)
    """

    @checks.explain_keywords
    def __init__(
        self,
        risk_aversion: float = 0.2,
        l1: float = 0.01,
        constraint: Any = "long-only",
        method: Any = None,
        tol: float = 1e-6,
        max_epochs: int = 1000,
        random_state: Any = None,
        verbose: bool = False,
        objective: str = "utility",
        units: str = "auto",
    ) -> None:
        self.risk_aversion = risk_aversion
        self.l1 = l1
        self.constraint = constraint
        self.method = method
        self.tol = tol
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose
        self.objective = objective
        self.units = units

    def _problem(self, returns: np.ndarray, constraint: Any, **more: Any) -> Composition:
        l1 = 0.0 if self.positive_ else self.l1
        return mean_variance(returns, self.risk_aversion, l1, constraint, **more)

    def _risk(self, earned: np.ndarray) -> float:
        return earned.std() if self.objective == "ratio" else earned.var()


class MeanSemideviationPortfolio(Portfolio):
    """Weights that minimise −mean + κ·semideviation: only returns below the mean are risk.

    Args:
        risk_aversion: κ.
        order: 1 or 2, of the semideviation.
        constraint: as for `MeanVariancePortfolio`. In a set that contains 0, such as a box, zero
            weights are optimal from some κ on.
        smoothing: see `mvrc.applications.mean_semideviation`.
        method, tol, max_epochs, random_state, verbose, objective, units: as for
            `MeanVariancePortfolio`.

    Examples:
        >>> from mvrc.applications import MeanSemideviationPortfolio
        >>> MeanSemideviationPortfolio().fit(returns).weights_.shape
        (3,)
    """

    @checks.explain_keywords
    def __init__(
        self,
        risk_aversion: float = 1.0,
        order: int = 2,
        constraint: Any = "long-only",
        smoothing: float | None = None,
        method: Any = None,
        tol: float = 1e-6,
        max_epochs: int = 1000,
        random_state: Any = None,
        verbose: bool = False,
        objective: str = "utility",
        units: str = "auto",
    ) -> None:
        self.risk_aversion = risk_aversion
        self.order = order
        self.constraint = constraint
        self.smoothing = smoothing
        self.method = method
        self.tol = tol
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose
        self.objective = objective
        self.units = units

    def _problem(self, returns: np.ndarray, constraint: Any, **more: Any) -> Composition:
        return mean_semideviation(
            returns, self.risk_aversion, self.order, constraint, self.smoothing, **more
        )

    def _risk(self, earned: np.ndarray) -> float:
        below = np.maximum(earned.mean() - earned, 0)
        return np.mean(below**self.order) ** (1 / self.order)


class MeanCVaRPortfolio(Portfolio):
    """Weights that minimise −mean + κ·CVaR_β, the mean of the worst 1 − β of the losses.

    Args:
        risk_aversion: κ.
        beta: β.
        constraint: as for `MeanVariancePortfolio`. In a set that contains 0, such as a box, zero
            weights are optimal from some κ on.
        smoothing: see `mvrc.applications.mean_cvar`.
        method, tol, max_epochs, random_state, verbose, objective, units: as for
            `MeanVariancePortfolio`.

    Attributes:
        value_at_risk_: the threshold t, the β-quantile of the losses.

    Examples:
        >>> from mvrc.applications import MeanCVaRPortfolio
        >>> MeanCVaRPortfolio(beta=0.9).fit(returns).weights_.shape
        (3,)
    """

    @checks.explain_keywords
    def __init__(
        self,
        risk_aversion: float = 1.0,
        beta: float = 0.95,
        constraint: Any = "long-only",
        smoothing: float | None = None,
        method: Any = None,
        tol: float = 1e-6,
        max_epochs: int = 1000,
        random_state: Any = None,
        verbose: bool = False,
        objective: str = "utility",
        units: str = "auto",
    ) -> None:
        self.risk_aversion = risk_aversion
        self.beta = beta
        self.constraint = constraint
        self.smoothing = smoothing
        self.method = method
        self.tol = tol
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose
        self.objective = objective
        self.units = units

    def _problem(self, returns: np.ndarray, constraint: Any, **more: Any) -> Composition:
        return mean_cvar(returns, self.risk_aversion, self.beta, constraint, self.smoothing, **more)

    def _start(self, x: np.ndarray, returns: np.ndarray) -> Any:
        return {"weights": x, "threshold": np.quantile(-returns @ x, self.beta).astype(x.dtype)}

    def _weights(self, x: Any) -> np.ndarray:
        self.value_at_risk_ = float(x["threshold"]) / self._factor
        return x["weights"]

    def _risk(self, earned: np.ndarray) -> float:
        """CVaR of a sample: the threshold that minimises the formula is its quantile."""
        threshold = np.quantile(-earned, self.beta, method="inverted_cdf")
        return threshold + np.maximum(-earned - threshold, 0).mean() / (1 - self.beta)


class EntropicPortfolio(Portfolio):
    """Weights that minimise −mean + κ(1/θ) log E exp(−θ·return), the entropic risk.

    Args:
        risk_aversion: κ.
        theta: θ, for returns in percent.
        constraint, method, tol, max_epochs, random_state, verbose, objective, units: as for
            `MeanVariancePortfolio`.

    Examples:
        >>> from mvrc.applications import EntropicPortfolio
        >>> round(float(EntropicPortfolio(theta=0.5).fit(returns).weights_.sum()), 6)
        1.0
    """

    @checks.explain_keywords
    def __init__(
        self,
        risk_aversion: float = 1.0,
        theta: float = 1.0,
        constraint: Any = "long-only",
        method: Any = None,
        tol: float = 1e-6,
        max_epochs: int = 1000,
        random_state: Any = None,
        verbose: bool = False,
        objective: str = "utility",
        units: str = "auto",
    ) -> None:
        self.risk_aversion = risk_aversion
        self.theta = theta
        self.constraint = constraint
        self.method = method
        self.tol = tol
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose
        self.objective = objective
        self.units = units

    def _problem(self, returns: np.ndarray, constraint: Any, **more: Any) -> Composition:
        return mean_entropic(returns, self.risk_aversion, self.theta, constraint, **more)

    def _risk(self, earned: np.ndarray) -> float:
        return tilted_value(-earned, self.theta)


class MeanEVaRPortfolio(Portfolio):
    """Weights that minimise −mean + κ·EVaR_β, the entropic value at risk, a bound of CVaR_β.

    Args:
        risk_aversion: κ.
        beta: β.
        constraint, method, tol, max_epochs, random_state, verbose, objective, units: as for
            `MeanVariancePortfolio`.

    Examples:
        >>> from mvrc.applications import MeanEVaRPortfolio
        >>> round(float(MeanEVaRPortfolio(beta=0.9).fit(returns).weights_.sum()), 6)
        1.0
    """

    @checks.explain_keywords
    def __init__(
        self,
        risk_aversion: float = 1.0,
        beta: float = 0.95,
        constraint: Any = "long-only",
        method: Any = None,
        tol: float = 1e-6,
        max_epochs: int = 1000,
        random_state: Any = None,
        verbose: bool = False,
        objective: str = "utility",
        units: str = "auto",
    ) -> None:
        self.risk_aversion = risk_aversion
        self.beta = beta
        self.constraint = constraint
        self.method = method
        self.tol = tol
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose
        self.objective = objective
        self.units = units

    def _problem(self, returns: np.ndarray, constraint: Any, **more: Any) -> Composition:
        return mean_evar(returns, self.risk_aversion, self.beta, constraint, **more)

    def _start(self, x: np.ndarray, returns: np.ndarray) -> Any:
        spread = max(float(np.std(returns @ x)), float(np.abs(returns).max()) / 50)
        return {"weights": x, "scale": np.asarray(spread, x.dtype)}

    def _weights(self, x: Any) -> np.ndarray:
        return x["weights"]

    def _risk(self, earned: np.ndarray) -> float:
        """The least z log(E e^{−earned/z}/(1 − β)), which is unimodal in z."""
        spread = max(float(earned.std()), 1e-12)

        def at(log_z: float) -> float:
            z = math.exp(log_z)
            return tilted_value(-earned, 1 / z) - z * math.log(1 - self.beta)

        ends = math.log(spread) - 12, math.log(spread) + 12
        return float(
            minimize_scalar(at, bounds=ends, method="bounded", options={"xatol": 1e-9}).fun
        )
