"""A linear classifier with the largest average precision, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from mvrc.applications.base import Minimizer
from mvrc.losses.ranking import average_precision
from mvrc.regularizers import L2
from mvrc.support import checks


class AveragePrecisionClassifier(ClassifierMixin, Minimizer):
    """Scores wᵀx by which positives come first: a smooth average precision is maximised.

    For labels that are rarely positive, where accuracy says little. The class that is positive is
    the last one of `classes_`. Columns of X should have comparable scales, as StandardScaler gives
    them.

    Args:
        alpha: weight of the penalty (alpha/2)‖w‖².
        margin: distance in score at which a pair no longer counts.
        method: a recipe, a name, or None for `mvrc.Auto`, full passes over all pairs of a positive
            and a sample; with many of them "sox" or "msvr".
        tol: the fit ends when the gradient is at most this fraction of its value at the start.
        max_epochs: limit on epochs.
        random_state: a seed or a `np.random.RandomState`.
        verbose: show a progress bar.

    Attributes:
        coef_, intercept_: of the scores; they are positive for as many of the training samples as
            are of the positive class.
        classes_: the two classes.
        objective_, result_, n_iter_: the value reached, the `mvrc.Result`, epochs made.

    Examples:
        >>> from mvrc.applications import AveragePrecisionClassifier
        >>> model = AveragePrecisionClassifier(alpha=0.1).fit(returns, returns[:, 0] > 1.5)
        >>> model.predict(returns).shape
        (200,)
    """

    @checks.explain_keywords
    def __init__(
        self,
        alpha: float = 1e-3,
        margin: float = 1.0,
        method: Any = None,
        tol: float = 1e-4,
        max_epochs: int = 500,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.alpha = alpha
        self.margin = margin
        self.method = method
        self.tol = tol
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Find the scores for rows X with labels y of two classes."""
        rows, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) == 1:
            raise ValueError(f"y has one class, {self.classes_[0]}; it must have two classes.")
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: y "
                f"has {len(self.classes_)} classes; fit one against the others."
            )
        center = rows.mean(axis=0)
        start = rows[labels == 1].mean(axis=0) - rows[labels == 0].mean(axis=0)
        problem = average_precision(
            _score, rows - center, labels, self.margin, L2(checks.positive("alpha", self.alpha))
        )
        size = float(np.std((rows - center) @ start))
        result = self._minimize(problem, (start / (size or 1.0)).astype(rows.dtype), "best")
        self.coef_ = result.x[None]
        scores = np.sort(rows @ result.x)[::-1]
        positive = int(labels.sum())
        self.intercept_ = -np.array([(scores[positive - 1] + scores[positive]) / 2])
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of rows X: the larger, the sooner they are of the positive class."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return rows @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:
        """The classes of rows X."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _score(w: Any, row: Any) -> Any:
    return row @ w
