"""Stochastic neighbour embedding as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import validate_data

from mvrc.applications.base import Minimizer
from mvrc.applications.embedding.neighbors import neighbors
from mvrc.applications.embedding.problems import embedding_problem
from mvrc.support import checks

INITS = ("pca", "random")


class StochasticNeighborEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Minimizer):
    """Place points in a few dimensions so that each keeps its neighbours (Hinton & Roweis, 2002).

    Minimises Φ(x) = −(1/n²) Σₖ Σᵢ p_{i|k} log q_{i|k} with Gaussian similarities, see
    `mvrc.applications.neighbor_embedding`.

    Args:
        n_components: dimensions of the embedding.
        perplexity: effective number of neighbours of a point, from which each point's bandwidth
            is found; by default 10, or a third of n − 1 if that is less, but at least 1.5.
        sigma: one bandwidth for all points in place of a perplexity.
        init: "pca", "random" or an array n × n_components, taken as it is.
        outer: "points" or "pairs", the terms of the outer sum.
        method: a recipe, a name of `mvrc.METHODS`, or None for `mvrc.Auto`. A batch has few
            points near any given one, so stochastic methods need small steps here.
        tol: the fit ends when the gradient is at most this fraction of its value at the start.
        max_epochs: limit on epochs, one pass each for the default method.
        random_state: a seed or a `np.random.RandomState`.
        verbose: show a progress bar.

    Attributes:
        embedding_: n × n_components, float32.
        kl_divergence_: Σₖ KL(p_{·|k} ‖ q_{·|k})/n, a mean over the points.
        objective_, result_, n_iter_: the value reached, the `mvrc.Result`, epochs made.

    Examples:
        >>> from mvrc.applications import StochasticNeighborEmbedding
        >>> StochasticNeighborEmbedding(random_state=0).fit_transform(returns[:40]).shape
        (40, 2)
    """

    @checks.explain_keywords
    def __init__(
        self,
        n_components: int = 2,
        perplexity: float | None = None,
        sigma: float | None = None,
        init: Any = "pca",
        outer: str = "points",
        method: Any = None,
        tol: float = 0.05,
        max_epochs: int = 500,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.sigma = sigma
        self.init = init
        self.outer = outer
        self.method = method
        self.tol = tol
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Embed the rows of X; y is not used."""
        points = validate_data(self, X, dtype=[np.float32, np.float64], ensure_min_samples=4)
        n = len(points)
        components = checks.integer("n_components", self.n_components)
        perplexity = self._perplexity(n)
        kept = n - 1 if perplexity is None else min(n - 1, max(3, round(3 * perplexity)))
        table = neighbors(points, perplexity, 1.0 if self.sigma is None else self.sigma, kept)
        table = table._replace(probability=table.probability.astype(np.float32))
        problem = embedding_problem(table, outer=self.outer)
        x0 = self._first(points, components)
        result = self._minimize(problem, x0, output="best")
        self.embedding_ = result.x
        p = table.probability
        entropy = -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=1).mean()
        self.kl_divergence_ = float(n * result.objective - entropy)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Embed the rows of X and return where they are."""
        return self.fit(X).embedding_

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # always float32
        return tags

    def _perplexity(self, n: int) -> float | None:
        """The perplexity for n points; None when there is a sigma."""
        if self.perplexity is not None and self.sigma is not None:
            raise ValueError("perplexity and sigma are both given; give one of them.")
        if self.perplexity is not None:
            return checks.positive("perplexity", self.perplexity)
        return None if self.sigma is not None else max(1.5, min(10.0, (n - 1) / 3))

    def _first(self, points: np.ndarray, components: int) -> np.ndarray:
        """The start: as given, or with a standard deviation of 1 along its first axis."""
        n = len(points)
        if not isinstance(self.init, str):
            return _given_start(self.init, (n, components))
        rng = check_random_state(self.random_state)
        x = rng.standard_normal((n, components))
        if checks.choice("init", self.init, INITS) == "pca":
            centred = points - points.mean(axis=0)
            axes = np.linalg.svd(centred.T @ centred)[0][:, :components]
            flat = centred @ axes
            x = 1e-2 * flat[:, 0].std() * x  # also where X has fewer columns or rank
            x[:, : flat.shape[1]] += flat
        return (x / max(x[:, 0].std(), 1e-30)).astype(np.float32)


def _given_start(init: Any, shape: tuple[int, int]) -> np.ndarray:
    """The user's start, float32."""
    given = np.asarray(init)
    if given.dtype.kind not in "iuf" or given.shape != shape:
        raise ValueError(
            f"init must have one row for each row of X and n_components columns of numbers, "
            f"{shape}, not shape {given.shape} and dtype {given.dtype}."
        )
    given = given.astype(np.float32)
    if not np.isfinite(given).all():
        raise ValueError("init contains NaN or inf (in float32); all must be finite.")
    if np.all(given == given[0]):
        raise ValueError(
            "init has all points in one place, where the gradient is 0 and nothing moves; spread "
            "them, for instance by init='random'."
        )
    return given
