"""A portfolio estimator as one of skfolio's, for its model selection, populations and pipelines."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from mvrc.applications.portfolio.base import Portfolio
from mvrc.support import checks, extras

try:
    from skfolio.optimization import BaseOptimization
except ImportError as error:
    raise extras.missing("ForSkfolio needs skfolio", "data") from error


class ForSkfolio(BaseOptimization):
    """An estimator of this library whose `predict` gives a portfolio of skfolio's.

    So `cross_val_predict`, `Population`, `GridSearchCV` with skfolio's measures and its pipelines
    take it. `fit` expects returns as skfolio's `prices_to_returns` gives them, fractions.

    Args:
        estimator: such as `MeanCVaRPortfolio(0.5)`; its parameters are `estimator__…`.
        portfolio_params, fallback, previous_weights, raise_on_failure: those of skfolio's
            estimators.

    Attributes:
        weights_: one for each asset.
        estimator_: the one that was fitted, with its `result_`.

    Examples:
        >>> from mvrc.applications import ForSkfolio, MeanVariancePortfolio
        >>> model = ForSkfolio(MeanVariancePortfolio(risk_aversion=0.5)).fit(returns / 100)
        >>> type(model.predict(returns / 100)).__name__
        'Portfolio'
    """

    def __init__(
        self,
        estimator: Any,
        portfolio_params: dict[str, Any] | None = None,
        fallback: Any = None,
        previous_weights: Any = None,
        raise_on_failure: bool = True,
    ) -> None:
        super().__init__(portfolio_params, fallback, previous_weights, raise_on_failure)
        self.estimator = estimator

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the weights for returns X, days × assets; y is not used."""
        checks.instance("estimator", self.estimator, Portfolio)
        validate_data(self, X, skip_check_array=True)
        self.estimator_ = clone(self.estimator).fit(X)
        self.weights_ = np.asarray(self.estimator_.weights_, float)
        return self
