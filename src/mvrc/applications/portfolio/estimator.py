"""Portfolios as scikit-learn estimators: fit on returns, predict portfolio returns."""

from __future__ import annotations

import abc
import warnings
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from mvrc.applications.base import Minimizer
from mvrc.applications.portfolio.problems import (
    check_returns,
    mean_cvar,
    mean_semideviation,
    mean_variance,
)
from mvrc.datasets.returns import Returns
from mvrc.problem import Composition
from mvrc.regularizers import Regularizer, Simplex
from mvrc.support import checks

FRACTION = 0.1  # standard deviation of daily returns below which they are no per cents


class _Portfolio(Minimizer, abc.ABC):
    """What the portfolios share: data in, weights out."""

    constraint: Any

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the weights for returns X, days × assets, in percent; y is not used.

        X is an array, a DataFrame or `mvrc.datasets.Returns` (which needs pandas).
        Missing values are refused: which days or assets to drop is a choice that changes the
        answer, so it is yours.
        """
        returns = self._returns(X, reset=True)
        if isinstance(self.constraint, str) and self.constraint != "simplex":
            raise ValueError(
                f"constraint must be None, 'simplex' (long only, weights sum to 1) or a set such "
                f"as mvrc.NonNegative() or mvrc.Simplex(upper=0.2), not {self.constraint!r}."
            )
        if np.all(returns > 0):
            warnings.warn(
                "All returns are positive, as prices are; give returns in percent, 100 (p[1:] / "
                "p[:-1] - 1) of prices p.",
                stacklevel=2,
            )
        constraint = Simplex() if self.constraint == "simplex" else self.constraint
        problem = self._problem(returns, constraint)
        x = np.zeros(returns.shape[1], returns.dtype)
        if isinstance(constraint, Regularizer):
            with problem.precision(x):
                x = np.asarray(constraint.prox(x + 1 / len(x), 1.0))
        result = self._minimize(problem, self._start(x, returns), output="best")
        self.weights_ = self._weights(result.x)
        spread = float(np.max(np.std(returns, axis=0)))
        if not np.any(self.weights_) and spread < FRACTION:
            warnings.warn(
                f"All weights are 0, and the returns have a standard deviation of at most "
                f"{spread:.2g}, as fractions have; give them in percent, 100 times as large.",
                stacklevel=2,
            )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Returns of the portfolio on the days of X."""
        check_is_fitted(self)
        return self._returns(X, reset=False) @ self.weights_

    def score(self, X: Any, y: Any = None) -> float:
        """Mean return minus risk_aversion times the risk on the days of X; larger is better.

        Scores with different risk_aversion are not comparable: to choose it by a search, give your
        own scorer, such as mean over standard deviation of `predict`.
        """
        earned = self.predict(X)
        return float(earned.mean() - self.risk_aversion * self._risk(earned))

    def _returns(self, X: Any, reset: bool) -> np.ndarray:
        X = X.to_pandas() if isinstance(X, Returns) else X
        X = X.mask(X.isna(), np.nan) if hasattr(X, "isna") else X  # pandas.NA among objects
        kinds = [np.float64, np.float32]
        array = validate_data(self, X, reset=reset, dtype=kinds, ensure_all_finite=not reset)
        return check_returns(array, getattr(X, "columns", None)) if reset else array

    risk_aversion: float

    @abc.abstractmethod
    def _problem(self, returns: np.ndarray, constraint: Any) -> Composition: ...

    @abc.abstractmethod
    def _risk(self, earned: np.ndarray) -> float: ...

    def _start(self, x: np.ndarray, returns: np.ndarray) -> Any:
        return x

    def _weights(self, x: Any) -> np.ndarray:
        return x


class MeanVariancePortfolio(_Portfolio):
    """Weights that minimise −mean + κ·variance + μ‖w‖₁ of the portfolio's return.

    Args:
        risk_aversion: κ.
        l1: μ. With a simplex it changes nothing, as ‖w‖₁ is the same for all its weights.
        constraint: None, "simplex" (no short sales, weights sum to 1), `mvrc.Simplex(upper=0.2)`,
            `mvrc.Box(-0.5, 0.5)` or `mvrc.NonNegative()`; other sets, such as balls, with l1=0.
        method: a recipe, a name of `mvrc.METHODS`, or None for `mvrc.Auto`.
        tol: the fit ends when the gradient mapping is at most this fraction of its value at the
            start.
        max_epochs: limit on epochs; reaching it gives a ConvergenceWarning.
        random_state: seed or RandomState, as everywhere in scikit-learn.
        verbose: show a progress bar.

    Attributes:
        weights_: one for each asset.
        objective_: the value reached.
        result_: the `mvrc.Result`, with its history.
        n_iter_: epochs made.
        feature_names_in_: names of the assets, when X is a DataFrame.
    """

    @checks.explain_keywords
    def __init__(
        self,
        risk_aversion: float = 0.2,
        l1: float = 0.01,
        constraint: Any = None,
        method: Any = None,
        tol: float = 1e-6,
        max_epochs: int = 1000,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.risk_aversion = risk_aversion
        self.l1 = l1
        self.constraint = constraint
        self.method = method
        self.tol = tol
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose

    def _problem(self, returns: np.ndarray, constraint: Any) -> Composition:
        return mean_variance(returns, self.risk_aversion, self.l1, constraint)

    def _risk(self, earned: np.ndarray) -> float:
        return earned.var()


class MeanSemideviationPortfolio(_Portfolio):
    """Weights that minimise −mean + κ·semideviation: only returns below the mean are risk.

    Args:
        risk_aversion: κ.
        order: 1 or 2, of the semideviation.
        constraint: "simplex" or `mvrc.Simplex(upper=0.2)`, which fix the size of the weights. In a
            set that contains 0, such as a box, zero weights are optimal from some κ on.
        smoothing: see `mvrc.applications.mean_semideviation`.
        method, tol, max_epochs, random_state, verbose: as for `MeanVariancePortfolio`.
    """

    @checks.explain_keywords
    def __init__(
        self,
        risk_aversion: float = 1.0,
        order: int = 2,
        constraint: Any = "simplex",
        smoothing: float | None = None,
        method: Any = None,
        tol: float = 1e-6,
        max_epochs: int = 1000,
        random_state: Any = None,
        verbose: bool = False,
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

    def _problem(self, returns: np.ndarray, constraint: Any) -> Composition:
        return mean_semideviation(
            returns, self.risk_aversion, self.order, constraint, self.smoothing
        )

    def _risk(self, earned: np.ndarray) -> float:
        below = np.maximum(earned.mean() - earned, 0)
        return np.mean(below**self.order) ** (1 / self.order)


class MeanCVaRPortfolio(_Portfolio):
    """Weights that minimise −mean + κ·CVaR_β, the mean of the worst 1 − β of the losses.

    Args:
        risk_aversion: κ.
        beta: β.
        constraint: "simplex" or `mvrc.Simplex(upper=0.2)`, which fix the size of the weights. In a
            set that contains 0, such as a box, zero weights are optimal from some κ on.
        smoothing: see `mvrc.applications.mean_cvar`.
        method, tol, max_epochs, random_state, verbose: as for `MeanVariancePortfolio`.

    Attributes:
        value_at_risk_: the threshold t, the β-quantile of the losses.
    """

    @checks.explain_keywords
    def __init__(
        self,
        risk_aversion: float = 1.0,
        beta: float = 0.95,
        constraint: Any = "simplex",
        smoothing: float | None = None,
        method: Any = None,
        tol: float = 1e-6,
        max_epochs: int = 1000,
        random_state: Any = None,
        verbose: bool = False,
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

    def _problem(self, returns: np.ndarray, constraint: Any) -> Composition:
        return mean_cvar(returns, self.risk_aversion, self.beta, constraint, self.smoothing)

    def _start(self, x: np.ndarray, returns: np.ndarray) -> Any:
        return {"weights": x, "threshold": np.quantile(-returns @ x, self.beta).astype(x.dtype)}

    def _weights(self, x: Any) -> np.ndarray:
        self.value_at_risk_ = float(x["threshold"])
        return x["weights"]

    def _risk(self, earned: np.ndarray) -> float:
        """CVaR of a sample: the threshold that minimises the formula is its quantile."""
        threshold = np.quantile(-earned, self.beta, method="inverted_cdf")
        return threshold + np.maximum(-earned - threshold, 0).mean() / (1 - self.beta)
