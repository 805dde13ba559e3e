"""LinearValueFunction: the mean squared Bellman residual, minimised by a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mvrc import checks
from mvrc.applications.base import Minimizer
from mvrc.applications.bellman import inputs
from mvrc.applications.bellman.problems import bellman, observed
from mvrc.problem import Composition
from mvrc.regularizers import Regularizer

try:
    from sklearn.utils import Tags
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("The estimators need scikit-learn: pip install 'mvrc[sklearn]'.") from error


class Transitions(NamedTuple):
    """Observed transitions, with equal rows of features taken as one state."""

    features: np.ndarray  # the distinct states that were left
    slots: np.ndarray  # for each transition its row of `features`
    rewards: np.ndarray
    next_features: np.ndarray  # 0 where the transition was terminal

    def mean_change(self, gamma: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """φ_s − γ mean φ(s'), the mean rewards and the shares of the visits, for each state."""
        counts = np.bincount(self.slots)
        following = np.zeros_like(self.features)
        np.add.at(following, self.slots, self.next_features)
        rewards = np.bincount(self.slots, self.rewards) / counts
        return self.features - gamma * following / counts[:, None], rewards, counts / counts.sum()


class Chain(NamedTuple):
    """A known Markov chain."""

    features: np.ndarray
    transition: np.ndarray
    rewards: np.ndarray  # R, S × S

    def mean_change(self, gamma: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """φ_s − γ E φ(s'), the expected rewards and equal shares, for each state."""
        states = len(self.features)
        change = self.features - gamma * (self.transition @ self.features)
        expected = (self.transition * self.rewards).sum(axis=1)
        return change, expected, np.full(states, 1 / states)


class LinearValueFunction(Minimizer):
    """V(s) ≈ φ(s)ᵀw, where w minimises the mean squared Bellman residual

        Σ_s ω_s [φ(s)ᵀw − E(r + γφ(s')ᵀw | s)]² + r(w).

    `fit` takes three kinds of data:

    * a known chain: X is the feature table Φ, y the rewards, and `transition` is given; the states
      count equally,
    * transitions: X are features of states, y rewards, `next_features` those of the next states,
    * one trajectory, when neither is given: row t + 1 of X comes after row t. The last row has no
      successor, and its reward is not used unless it is terminal.

    In the last two, equal rows of X are one state, whose expectation is the mean over its rows; the
    states count by their visits. A state that is left only once has one sample for its
    expectation, which biases w wherever transitions are random: with features that never repeat,
    round them or use `mvrc.applications.bellman.lstd_transitions`.

    A trajectory is known by the order of its rows alone. A splitter that shuffles or leaves out
    rows in the middle (`train_test_split`, `KFold`) makes transitions that never happened where it
    joins the rest: split by `TimeSeriesSplit`, or give `next_features`, with which any will do.

    Args:
        gamma: discount γ, from 0 to below 1.
        regularizer: r(w), such as `mvrc.L1(0.01)`; none by default.
        method: a recipe or its name; None is `mvrc.Auto`.
        tol: the run ends when the gradient mapping is at most this share of its value at w = 0.
        max_epochs: limit on epochs.
        random_state: a seed or a `np.random.RandomState`.
        verbose: show a progress bar.

    Attributes:
        coef_: w.
        result_, objective_, n_iter_: the `mvrc.Result`, its objective and its epochs. Without a
            regularizer the result's x is w with every coordinate scaled.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.
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
    ) -> None:
        self.gamma = gamma
        self.regularizer = regularizer
        self.method = method
        self.tol = tol
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose

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
            next_features: features of the next states, in the shape of X and, if they have names,
                with the same.
            terminal: booleans, True where the value after the row is 0; not with `transition`,
                where such states lead to themselves with reward 0.
            transition: P, S × S.
        """
        gamma = inputs.discount(self.gamma)
        data = self._read(X, y, next_features, terminal, transition, reset=True)
        scale = np.ones(data.features.shape[1])
        if self.regularizer is None:
            # Columns of equal size converge faster, and without r(w) the minimum is the same.
            size = np.sqrt(np.mean(data.features**2, axis=0))
            scale = np.divide(1, size, out=scale, where=size > 0)
        result = self._minimize(self._problem(data, scale, gamma), np.zeros(len(scale)))
        self.coef_ = scale * result.x
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
        """Minus the mean squared Bellman residual on data given as to `fit`; 0 is best."""
        check_is_fitted(self)
        if self.kind_ is not None and next_features is None and transition is None:
            given = "transition" if self.kind_ is Chain else "next_features"
            raise ValueError(
                f"score was given no {given}, which fit was given; without it the rows would be "
                f"taken as a trajectory (in a search, ask for it by set_score_request)."
            )
        data = self._read(X, y, next_features, terminal, transition, reset=False)
        change, rewards, shares = data.mean_change(inputs.discount(self.gamma))
        return -float(shares @ (change @ self.coef_ - rewards) ** 2)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _problem(self, data: Chain | Transitions, scale: np.ndarray, gamma: float) -> Composition:
        """The problem in the scaled variables w / scale."""
        if isinstance(data, Chain):
            return bellman(
                data.transition, data.rewards, data.features * scale, gamma,
                regularizer=self.regularizer,
            )  # fmt: skip
        return observed(
            data.slots, data.rewards, data.next_features * scale, data.features * scale, gamma,
            "visits", self.regularizer,
        )  # fmt: skip

    def _read(
        self, X: Any, y: Any, next_features: Any, terminal: Any, transition: Any, reset: bool
    ) -> Chain | Transitions:
        """The user's data, checked, as one of the two kinds."""
        if transition is None:
            X, y = validate_data(
                self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2, reset=reset
            )
            following = None if next_features is None else self._following(next_features, X.shape)
            return _transitions(X, y.astype(np.float64), following, terminal)
        for name, value in (("next_features", next_features), ("terminal", terminal)):
            if value is not None:
                raise ValueError(
                    f"{name} was given beside transition, which already says where states lead; "
                    f"give one of the two."
                )
        if y is None:
            raise ValueError("y is missing: with transition, y are the rewards of the states.")
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2, reset=reset)
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


def _transitions(
    X: np.ndarray, y: np.ndarray, following: np.ndarray | None, terminal: Any
) -> Transitions:
    ended = inputs.flags("terminal", terminal, len(X), "X")
    if following is None:  # a trajectory
        rows = len(X) if ended[-1] else len(X) - 1
        following = np.roll(X, -1, axis=0)[:rows]
        X, y, ended = X[:rows], y[:rows], ended[:rows]
    states, slots = np.unique(X, axis=0, return_inverse=True)
    return Transitions(states, slots.ravel(), y, np.where(ended[:, None], 0.0, following))
