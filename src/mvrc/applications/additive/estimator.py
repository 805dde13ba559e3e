"""SparseAdditiveRegressor: both sparse additive models behind scikit-learn's interface."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from mvrc.applications.additive.problems import (
    largest_penalty,
    sparse_additive,
    sparse_additive_convex,
)
from mvrc.applications.additive.splines import SplineBasis
from mvrc.applications.base import Minimizer
from mvrc.problem import Composition
from mvrc.support import checks, extras

from sklearn.base import RegressorMixin  # isort: skip  (after base, which says how to install it)
from sklearn.utils.validation import check_is_fitted, validate_data  # isort: skip

FORMS = ("spline", "paper")


class SparseAdditiveRegressor(RegressorMixin, Minimizer):
    """ŷ = intercept + Σ_j h_j(x_j) with few h_j that are not zero.

    "spline": h_j is a spline, and the convex problem is a group lasso,
    min mean (y − ŷ)² + λ Σ_j √(mean h_j(x_j)²), with λ = penalty · (the smallest λ at which every
    h_j is zero). "paper": ŷ = |Σ_j θ_j x_j| ≥ 0 without an intercept, and the paper's nonconvex
    problem on X and y divided by their root mean squares; see
    `mvrc.applications.additive.sparse_additive`.

    Args:
        form: "spline" or "paper".
        penalty: spline: the fraction of the smallest λ that makes every h_j zero, 0.1 by default,
            so it needs no units; paper: its λ, 1.0 by default.
        l1: paper: μ, the weight of ‖θ‖₁, 0.001 by default; not used by splines.
        n_knots: spline: knots of each h_j, at quantiles of the feature, both ends counted.
        degree: spline: degree of the pieces.
        method: recipe or name of `mvrc.METHODS`; None for `mvrc.Auto`.
        tol: the fit ends when the gradient mapping is at most this fraction of its value at the
            start.
        max_epochs: limit on epochs; a fit that needs more warns.
        random_state: seed or RandomState, for the samples that `method` draws.
        verbose: show a progress bar.

    Attributes:
        coef_: paper: θ in the units of X and y, one number per feature. Spline: a column for each
            feature with the coefficients of its orthonormal basis; its norm is √(mean h_j²).
        intercept_: mean of y; 0 in the paper's form.
        selected_features_: indices of the features whose h_j is not zero.
        penalty_: the λ of the problem that was solved.
        result_, objective_, n_iter_: of `mvrc.minimize`.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    A column that does not vary is never selected by splines; in the paper's form it is the
    intercept that the model lacks. Splines keep their end values outside the range of the training
    data.

    Examples:
        >>> from mvrc.applications import SparseAdditiveRegressor
        >>> model = SparseAdditiveRegressor().fit(returns[:, :2], returns[:, 0] ** 2)
        >>> bool(model.score(returns[:, :2], returns[:, 0] ** 2) > 0.9)
        True
    """

    @checks.explain_keywords
    def __init__(
        self,
        form: str = "spline",
        penalty: float | None = None,
        l1: float | None = None,
        n_knots: int = 6,
        degree: int = 3,
        method: Any = None,
        tol: float = 1e-5,
        max_epochs: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.form = form
        self.penalty = penalty
        self.l1 = l1
        self.n_knots = n_knots
        self.degree = degree
        self.method = method
        self.tol = tol
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> SparseAdditiveRegressor:
        """Choose features and their functions from X, n rows, and y, n numbers."""
        form = checks.choice("form", self.form, FORMS)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = np.asarray(y, np.float64)
        self._lower, self._upper = X.min(axis=0), X.max(axis=0)
        prepare, keep = {
            "spline": (self._prepare_splines, self._keep_splines),
            "paper": (self._prepare_paper, self._keep_paper),
        }[form]
        problem, start = prepare(X, y)
        result = self._minimize(problem, start)
        keep(result.x)
        self.selected_features_ = np.flatnonzero(np.any(np.atleast_2d(self.coef_) != 0, axis=0))
        return self

    def _prepare_splines(self, X: np.ndarray, y: np.ndarray) -> tuple[Composition, Any]:
        """The problem, and where to start."""
        if self.l1 is not None:
            raise ValueError(
                f"l1 is {checks.shown(self.l1)} but form is 'spline', where penalty alone sets "
                f"the sparsity; leave it out."
            )
        share = checks.nonnegative("penalty", 0.1 if self.penalty is None else self.penalty)
        n_knots = checks.integer("n_knots", self.n_knots, least=2)
        degree = checks.integer("degree", self.degree)
        made = [SplineBasis.of(column, n_knots, degree) for column in X.T]
        self._bases = [basis for basis, _ in made]
        sizes = [basis.size for basis in self._bases]
        if sum(sizes) == 0:
            raise ValueError("X has no column that varies; at least one feature must.")
        B = np.hstack([values for _, values in made])
        groups = np.repeat(np.arange(len(sizes)), sizes)
        self.intercept_ = float(y.mean())
        centred = y - self.intercept_
        self.penalty_ = share * largest_penalty(B, centred, groups)
        problem = sparse_additive_convex(B, centred, groups, self.penalty_)
        return problem, np.zeros(B.shape[1])

    def _keep_splines(self, beta: np.ndarray) -> None:
        sizes = [basis.size for basis in self._bases]
        self.coef_ = np.zeros((max(sizes), len(sizes)))
        for j, block in enumerate(np.split(beta, np.cumsum(sizes)[:-1])):
            self.coef_[: sizes[j], j] = block

    def _prepare_paper(self, X: np.ndarray, y: np.ndarray) -> tuple[Composition, Any]:
        """Likewise."""
        for name, default in (("n_knots", 6), ("degree", 3)):
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name} is {checks.shown(getattr(self, name))} but form is 'paper', which "
                    f"has no splines; leave it out."
                )
        self.penalty_ = checks.nonnegative("penalty", 1.0 if self.penalty is None else self.penalty)
        l1 = checks.nonnegative("l1", 0.001 if self.l1 is None else self.l1)
        scale, unit = _root_mean_square(X), float(_root_mean_square(y))
        X = X / scale
        problem = sparse_additive(X, y / unit, self.penalty_, l1)
        start = np.where(np.any(X != 0, axis=0), 0.01, 0.0)  # θ = 0 is stationary
        self._units = unit / scale
        self._sums = X.sum(axis=0)
        return problem, start

    def _keep_paper(self, theta: np.ndarray) -> None:
        sign = -1.0 if self._sums @ theta < 0 else 1.0  # θ and −θ predict the same
        self.coef_ = sign * theta * self._units + 0.0  # no −0
        self.intercept_ = 0.0

    def predict(self, X: Any) -> np.ndarray:
        """The predictions for the rows of X."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if self.coef_.ndim == 1:
            return np.abs(X @ self.coef_)
        parts = (self._part(int(j), X[:, j]) for j in self.selected_features_)
        return self.intercept_ + sum(parts, np.zeros(len(X)))

    def partial(self, feature: Any, grid: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The function h_j of one feature: the grid and h_j on it, to be plotted.

        Args:
            feature: index of the feature, or its name when X had names.
            grid: where h_j is wanted; 100 points over the range of the training data by default.
        """
        check_is_fitted(self)
        j = self._index(feature)
        if grid is None:
            grid = np.linspace(self._lower[j], self._upper[j], 100)
        grid = np.asarray(grid, dtype=np.float64)
        if grid.ndim != 1 or not np.all(np.isfinite(grid)):
            raise ValueError(f"grid must be a list of finite numbers, not {checks.shown(grid)}.")
        return grid, self._part(j, grid)

    def plot(self, ax: Any = None) -> Any:
        """The functions of all selected features, one panel each; needs matplotlib.

        Args:
            ax: one matplotlib axis for each selected feature; made when missing.
        """
        check_is_fitted(self)
        count = len(self.selected_features_)
        if count == 0:
            raise ValueError("No feature is selected, so there is nothing to plot.")
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise extras.missing("plot() needs matplotlib", "plot") from error
            size = (min(2.6 * count, 16), 2.8)
            ax = plt.subplots(1, count, figsize=size, sharey=True, layout="constrained")[1]
        panels = np.ravel(ax)
        if len(panels) != count:
            raise ValueError(
                f"ax must hold an axis for each of the {count} selected features, not "
                f"{len(panels)}."
            )
        names = getattr(self, "feature_names_in_", None)
        for panel, j in zip(panels, self.selected_features_, strict=True):
            panel.plot(*self.partial(j))
            panel.set_xlabel(f"feature {j}" if names is None else str(names[j]))
            panel.grid(alpha=0.3)
        panels[0].set_ylabel("part of the prediction")
        return panels[0].figure

    def _part(self, j: int, x: np.ndarray) -> np.ndarray:
        if self.coef_.ndim == 1:
            return self.coef_[j] * x
        basis = self._bases[j]
        return basis(x) @ self.coef_[: basis.size, j]

    def _index(self, feature: Any) -> int:
        names = list(getattr(self, "feature_names_in_", []))
        if isinstance(feature, str) and feature in names:
            return names.index(feature)
        whole = isinstance(feature, numbers.Integral) and not isinstance(feature, bool)
        if not whole or not 0 <= feature < self.n_features_in_:
            by_name = f" or one of the names {checks.cut(', '.join(names))}" if names else ""
            raise ValueError(
                f"feature must be an integer from 0 to {self.n_features_in_ - 1}{by_name}, "
                f"not {checks.shown(feature)}."
            )
        return int(feature)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self.form == "paper"  # cannot predict negative numbers
        return tags


def _root_mean_square(values: np.ndarray) -> Any:
    """√(mean v²) of each column; 1 where all is zero."""
    size = np.sqrt(np.mean(values**2, axis=0))
    return np.where(size > 0, size, 1.0)
