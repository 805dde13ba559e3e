"""What the portfolio estimators share: data in, units, limits, weights out."""

from __future__ import annotations

import abc
import warnings
from typing import Any, Self

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from mvrc.applications.base import Minimizer
from mvrc.applications.portfolio.limits import Limits
from mvrc.applications.portfolio.returns import check_returns, scenarios
from mvrc.datasets.returns import Returns
from mvrc.problem import Composition
from mvrc.regularizers import Regularizer, Simplex
from mvrc.support import checks

FRACTION = 0.1  # standard deviation of daily returns below which they are no per cents


@jax.jit
def _nearest(constraint: Regularizer, x: Any) -> Any:
    return constraint.prox(x, 1.0)


class Portfolio(Minimizer, abc.ABC):
    """What the portfolios share: data in, weights out."""

    constraint: Any
    objective: str
    units: str
    risk_aversion: float

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the weights for returns X, days × assets; y is not used.

        X is an array, a DataFrame or `mvrc.datasets.Returns` (which needs pandas), in percent or
        as fractions (see `units`); sample_weight has a weight for each day, or scenario.
        Missing values are refused: which days or assets to drop is a choice that changes the
        answer, so it is yours.
        """
        returns = self._returns(X, reset=True)
        names = getattr(self, "feature_names_in_", None)
        if np.all(returns > 0):
            warnings.warn(
                "All returns are positive, as prices are; give returns, p[1:] / p[:-1] - 1 of "
                "prices p.",
                stacklevel=2,
            )
        self._factor = self._unit(returns)
        self.units_ = "percent" if self._factor == 1 else "fraction"
        kept, weights = scenarios(returns, sample_weight, names)
        scaled, limits = self._factor * kept, None
        if isinstance(self.constraint, Limits):
            limits = self.constraint
            scaled = scaled - self._factor * (limits.cash or 0)
        mean = np.average(scaled, axis=0, weights=weights)
        constraint = self._constraint(names, mean)
        self.positive_ = constraint is not None and limits is not None and limits.long_only
        problem = self._problem(scaled, constraint, objective=self.objective, sample_weight=weights)
        x = self._first(problem, constraint, mean.astype(scaled.dtype))
        result = self._minimize(problem, self._start(x, scaled), output="best")
        self.weights_ = self._weights(result.x)
        self.cash_ = 0.0
        if limits is not None and limits.cash is not None:
            self.cash_ = limits.most - float(self.weights_.sum())
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Returns of the portfolio on the days of X, in the unit of X; costs are not deducted."""
        check_is_fitted(self)
        rate = self.constraint.cash or 0 if isinstance(self.constraint, Limits) else 0
        return self._returns(X, reset=False) @ self.weights_ + self.cash_ * rate

    def score(self, X: Any, y: Any = None) -> float:
        """What is maximised, on the days of X in percent: mean − κ·risk, −risk, or mean/risk.

        Scores with different risk_aversion are not comparable: to choose it by a search, give your
        own scorer, such as mean over standard deviation of `predict`.
        """
        earned = self._factor * self.predict(X)
        risk = self._risk(earned)
        if self.objective == "utility":
            return float(earned.mean() - self.risk_aversion * risk)
        return float(-risk if self.objective == "risk" else earned.mean() / risk)

    def _returns(self, X: Any, reset: bool) -> np.ndarray:
        X = X.to_pandas() if isinstance(X, Returns) else X
        X = X.mask(X.isna(), np.nan) if hasattr(X, "isna") else X  # pandas.NA among objects
        kinds = [np.float64, np.float32]
        array = validate_data(self, X, reset=reset, dtype=kinds, ensure_all_finite=not reset)
        return check_returns(array, getattr(X, "columns", None)) if reset else array

    def _unit(self, returns: np.ndarray) -> float:
        """By which factor returns become per cents."""
        units = checks.choice("units", self.units, ("auto", "percent", "fraction"))
        if units == "auto":
            small = float(np.max(np.std(returns, axis=0))) < FRACTION
            units = "fraction" if small else "percent"
        return 100.0 if units == "fraction" else 1.0

    def _constraint(self, names: Any, mean: np.ndarray) -> Any:
        """A set of the library's, of what was given."""
        given = self.constraint
        if isinstance(given, Limits):
            return given.regularizer(names, mean, self._factor)
        if isinstance(given, str):
            if given not in ("long-only", "simplex"):
                raise ValueError(
                    f"constraint must be 'long-only' (weights from 0 that sum to 1), Limits(…), a "
                    f"set such as mvrc.Simplex(upper=0.2), or None, not {given!r}."
                )
            return Simplex()
        if given is None and self.objective != "utility":
            raise ValueError(
                f"objective {self.objective!r} needs a constraint that fixes the size of the "
                f"weights, such as 'long-only' or Limits(budget=1), not None."
            )
        return given

    def _first(self, problem: Composition, constraint: Any, mean: np.ndarray) -> np.ndarray:
        """Where to start: equal weights as the constraint allows them; of a ratio with a gain."""
        d = len(mean)
        if not isinstance(constraint, Regularizer):
            return np.zeros(d, mean.dtype)

        def nearest(x: np.ndarray) -> np.ndarray:
            return np.asarray(_nearest(constraint, x.astype(mean.dtype))).astype(mean.dtype)

        with problem.precision(mean):
            constraint.check(mean)
            x = nearest(np.full(d, 1 / d))
            length = 1.0
            while self.objective == "ratio" and x @ mean <= 0:
                x, length = nearest(length * mean / np.abs(mean).max()), 10 * length
                if length > 1e6:
                    raise ValueError(
                        "objective 'ratio' needs weights with a positive mean return, and the "
                        "constraint allows none on these days; use objective='risk'."
                    )
        return x

    @abc.abstractmethod
    def _problem(self, returns: np.ndarray, constraint: Any, **more: Any) -> Composition: ...

    @abc.abstractmethod
    def _risk(self, earned: np.ndarray) -> float: ...

    def _start(self, x: np.ndarray, returns: np.ndarray) -> Any:
        return x

    def _weights(self, x: Any) -> np.ndarray:
        return x
