"""LinearValueFunction: the mean squared Bellman residual, minimised by a scikit-learn estimator."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mvrc.applications.base import Minimizer
from mvrc.applications.bellman import inputs
from mvrc.applications.bellman.kinds import SUCCESSORS, Chain, Transitions, from_rows
from mvrc.applications.bellman.problems import bellman, observed, projected
from mvrc.applications.bellman.projection import column_scales, whitening
from mvrc.problem import Composition
from mvrc.regularizers import Regularizer
from mvrc.support import checks, extras

try:
    from sklearn.utils import Tags
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise extras.missing("The estimators need scikit-learn", "sklearn") from error

FLOATS = (np.float64, np.float32)  # kept as given, others become the first
RESIDUALS = ("auto", "plain", "projected")


class LinearValueFunction(Minimizer):
    """V(s) ≈ φ(s)ᵀw, where w minimises the mean squared Bellman residual, plain or projected,

        Σ_s ω_s [φ(s)ᵀw − E(r + γφ(s')ᵀw | s)]² + r(w)   or   ½ bᵀC⁺b + r(w),
        b = Σ_s ω_s φ(s) [φ(s)ᵀw − E(r + γφ(s')ᵀw | s)],   C = Σ_s ω_s φ(s)φ(s)ᵀ.

    `fit` takes three kinds of data:

    * a known chain: X is the feature table Φ, y the rewards, and `transition` is given; the states
      count equally,
    * transitions: X are features of states, y rewards, `next_features` those of the next states,
    * one trajectory, when neither is given: row t + 1 of X comes after row t. The last row has no
      successor, and its reward is not used unless it is terminal.

    In the last two, equal rows of X are one state, whose expectation is the mean over its rows; the
    states count by their visits. A state that is visited once has one sample for its expectation,
    and the plain residual, a square, then counts the variance of that sample as an error (double
    sampling): it prefers values that vary little. The projected residual squares means over all
    transitions only. Without r(w) its minimum is LSTD's (`mvrc.applications.bellman.lstd`,
    `lstd_transitions`); where features are linearly dependent it is that of least norm in columns
    of equal size.

    A trajectory is defined by the order of its rows alone. A splitter that shuffles or leaves out
    rows in the middle (`train_test_split`, `KFold`) makes transitions that never happened where it
    joins the rest: split by `TimeSeriesSplit`, or give `next_features`, with which any splitter
    will do.

    Args:
        gamma: discount γ, from 0 to below 1.
        regularizer: r(w), such as `mvrc.L1(0.01)`; none by default.
        method: a recipe or its name; None is `mvrc.Auto`.
        tol: the run ends when the gradient mapping is at most this fraction of its value at w = 0.
        max_epochs: limit on epochs.
        random_state: a seed or a `np.random.RandomState`.
        verbose: show a progress bar.
        residual: "plain", "projected" or "auto", which is the projected one for transitions with
            fewer than 20 per state on average, unless no value follows them (γ = 0, or all are
            terminal), and otherwise the plain one.

    Attributes:
        coef_: w.
        residual_: "plain" or "projected", as minimised; `result_.explain()` says why.
        result_, objective_, n_iter_: the `mvrc.Result`, its objective and its epochs. Without a
            regularizer the result's x is w in other coordinates.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    Examples:
        >>> from mvrc.applications import LinearValueFunction
        >>> values = LinearValueFunction(gamma=0.5).fit(returns[:, 1:], returns[:, 0])
        >>> values.predict(returns[:2, 1:]).shape
        (2,)
    """

    @checks.explain_keywords
    def __init__(
        self,
        gamma: float = 0.95,
        regularizer: Regularizer | None = None,
        method: Any = None,
        tol: float = 1e-8,
        max_epochs: int = 1000,
        random_state: Any = None,
        verbose: bool = False,
        residual: str = "auto",
    ) -> None:
        self.gamma = gamma
        self.regularizer = regularizer
        self.method = method
        self.tol = tol
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose
        self.residual = residual

    def fit(
        self,
        X: Any,
        y: Any,
        next_features: Any = None,
        terminal: Any = None,
        transition: Any = None,
    ) -> LinearValueFunction:
        """Fit to a chain, to transitions or to a trajectory.

        Args:
            X: features, rows are states.
            y: rewards of the rows; with `transition` expected rewards (S) or R (S × S).
            next_features: features of the next states, with the shape of X and, if X has names, the
                same ones.
            terminal: booleans, True where the value after the row is 0; not with `transition`,
                where such states lead to themselves with reward 0.
            transition: P, S × S.
        """
        gamma = inputs.discount(self.gamma)
        checks.choice("residual", self.residual, RESIDUALS)
        data = self._read(X, y, next_features, terminal, transition, reset=True)
        self.residual_, reason = self._chosen(data, gamma)
        stated = self._plain if self.residual_ == "plain" else self._projected
        problem, basis = stated(data, gamma)
        result = self._minimize(problem, np.zeros(basis.shape[-1]))
        self.result_ = dataclasses.replace(result, notes=(*reason, *result.notes))
        self.coef_ = basis * result.x if basis.ndim == 1 else basis @ result.x
        self.kind_ = type(data) if next_features is not None or transition is not None else None
        return self

    def predict(self, X: Any) -> np.ndarray:
        """φᵀw for each row of X."""
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False) @ self.coef_

    def score(
        self,
        X: Any,
        y: Any,
        next_features: Any = None,
        terminal: Any = None,
        transition: Any = None,
    ) -> float:
        """Minus what was minimised, without r(w), on data given as to `fit`; 0 is best.

        The projection is on the features of these data: it needs more rows than columns.
        """
        check_is_fitted(self)
        if self.kind_ is not None and next_features is None and transition is None:
            given = "transition" if self.kind_ is Chain else "next_features"
            raise ValueError(
                f"score was not given {given}, but fit was; without it the rows would be taken "
                f"as a trajectory (in a search, ask for it by set_score_request)."
            )
        data = self._read(X, y, next_features, terminal, transition, reset=False)
        change, rewards = data.mean_change(inputs.discount(self.gamma))
        residuals = change @ self.coef_ - rewards
        if self.residual_ == "plain":
            return -float(data.shares @ residuals**2)
        white = data.features @ whitening(data.features, data.shares)
        return -float(np.sum(((data.shares * residuals) @ white) ** 2) / 2)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _chosen(self, data: Chain | Transitions, gamma: float) -> tuple[str, tuple[str, ...]]:
        """The residual, and why, in a sentence where there was something to choose."""
        if self.residual != "auto":
            return self.residual, ()
        if isinstance(data, Chain):  # expectations are known
            return "plain", ()
        if data.biased(gamma):
            return "projected", (
                f"The projected Bellman residual is minimised: {data.seen()}, and with fewer than "
                f"{SUCCESSORS} per state the plain one would count the variance of the next value "
                f"as an error.",
            )
        return "plain", (f"The plain Bellman residual is minimised: {data.seen()}.",)

    def _plain(self, data: Chain | Transitions, gamma: float) -> tuple[Composition, np.ndarray]:
        """The problem in scaled variables x, and the scales: w is their product with x."""
        features, scale = data.features, np.ones(data.features.shape[1])
        if self.regularizer is None:
            # Columns of equal size converge faster, and without r(w) the minimum is the same.
            scale = column_scales(features, data.shares)
        if isinstance(data, Chain):
            problem = bellman(
                data.transition, data.rewards, features * scale, gamma,
                regularizer=self.regularizer,
            )  # fmt: skip
            return problem, scale
        scaled = data._replace(features=features * scale, next_features=data.next_features * scale)
        return observed(scaled, gamma, "visits", self.regularizer), scale

    def _projected(self, data: Chain | Transitions, gamma: float) -> tuple[Composition, np.ndarray]:
        """The problem in x, and the scales or the matrix whose product with x is w."""
        change, rewards = data.mean_change(gamma)
        basis = whitening(data.features, data.shares)
        white = data.features @ basis
        if self.regularizer is not None:
            problem = projected(white, change, rewards, data.shares, self.regularizer)
            return problem, np.ones(len(basis))
        # Without r(w) in the whitened features: E[ψ(ψ − γψ')ᵀ] has singular values from about 1 − γ
        # to 1 + γ, whatever the features are.
        return projected(white, change @ basis, rewards, data.shares, None), basis

    def _read(
        self, X: Any, y: Any, next_features: Any, terminal: Any, transition: Any, reset: bool
    ) -> Chain | Transitions:
        """The user's data, checked, as one of the two kinds."""
        if transition is None:
            X, y = validate_data(
                self, X, y, dtype=FLOATS, y_numeric=True, ensure_min_samples=2, reset=reset
            )
            following = None if next_features is None else self._following(next_features, X.shape)
            return from_rows(X, y.astype(np.float64), following, terminal)
        for name, value in (("next_features", next_features), ("terminal", terminal)):
            if value is not None:
                raise ValueError(
                    f"{name} was given beside transition, which already says where states lead; "
                    f"give one of the two."
                )
        if y is None:
            raise ValueError("y is missing: with transition, y are the rewards of the states.")
        X = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2, reset=reset)
        matrix = inputs.chain(transition).astype(np.float64)
        if len(matrix) != len(X):
            raise ValueError(
                f"transition has {len(matrix)} states and X has {len(X)} rows; X must have one "
                f"row for each state."
            )
        return Chain(X, matrix, inputs.reward_matrix("y", y, len(X)).astype(np.float64))

    def _following(self, next_features: Any, shape: tuple[int, ...]) -> np.ndarray:
        """The features of the next states, with the shape and the names of X."""
        following = inputs.numbers("next_features", next_features).astype(np.float64)
        if following.shape != shape:
            raise ValueError(
                f"next_features must have the shape of X, {shape}, not "
                f"{checks.shown(following.shape)}."
            )
        validate_data(self, next_features, reset=False, skip_check_array=True)
        return following
