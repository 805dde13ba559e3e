"""Stochastic neighbour embedding as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from mvrc import checks
from mvrc.applications.base import Minimizer
from mvrc.applications.embedding.neighbors import neighbors
from mvrc.applications.embedding.problems import embedding_problem
from mvrc.methods import FISTA
from mvrc.result import Status

INITS = ("pca", "random")


class StochasticNeighborEmbedding(Minimizer):
    """Place points in a few dimensions such that each keeps its neighbours (Hinton & Roweis, 2002).

    Minimises Φ(x) = −(1/n²) Σₖ Σᵢ p_{i|k} log q_{i|k} with Gaussian similarities, see
    `mvrc.applications.neighbor_embedding`.

    Args:
        n_components: dimensions of the embedding.
        perplexity: effective number of neighbours of a point, from which each point's bandwidth
            is found; 10 by default, or a third of n − 1 if that is less.
        sigma: one bandwidth for all points in place of a perplexity.
        init: "pca", "random" or an array n × n_components.
        outer: "points" or "pairs", the terms of the outer sum.
        method: a recipe, a name of `mvrc.METHODS`, or None: FISTA on full passes. A batch has few
            points near any given one, so stochastic methods need small steps here.
        tol: the fit ends when the gradient is down to this share of its start.
        max_epochs: limit on epochs, one pass each for the default method; the gradient is looked
            at after every tenth.
        random_state: seed or generator, as everywhere in scikit-learn.
        verbose: show a progress bar.

    Attributes:
        embedding_: n × n_components, float32.
        kl_divergence_: Σₖ KL(p_{·|k} ‖ q_{·|k})/n, a mean over the points.
        objective_, result_, n_iter_: the value reached, the `mvrc.Result`, epochs made.
    """

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
        points = validate_data(
            self, X, dtype=[np.float32, np.float64], ensure_min_samples=4
        ).astype(np.float32)
        n = len(points)
        components = checks.whole("n_components", self.n_components)
        if self.perplexity is not None and self.sigma is not None:
            raise ValueError("perplexity and sigma are both given; give one of them.")
        perplexity = self.perplexity
        if perplexity is None and self.sigma is None:
            perplexity = min(10.0, (n - 1) / 3)
        kept = n - 1 if perplexity is None else min(n - 1, max(3, round(3 * perplexity)))
        table = neighbors(points, perplexity, 1.0 if self.sigma is None else self.sigma, kept)
        problem = embedding_problem(table, outer=self.outer)
        x0 = self._first(points, components)
        # In Φ a point's curvature is about 1/n²; a step of n²/8 is long, and tried first.
        for step in (n**2 / 8, n**2 / 64, n**2 / 512):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                result = self._minimize(problem, x0, FISTA(step_size=step), record_every=10)
            started = result.history["objective"][0]
            if result.status is not Status.DIVERGED and result.objective <= started:
                break
            if self.method is not None:  # the step is the user's
                break
        for warning in caught:
            warnings.warn(warning.message, stacklevel=2)
        self.embedding_ = result.x
        p = table.probability
        entropy = -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=1).mean()
        self.kl_divergence_ = float(n * result.objective - entropy)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Embed the rows of X and return where they are."""
        return self.fit(X).embedding_

    def _first(self, points: np.ndarray, components: int) -> np.ndarray:
        """The start, with a standard deviation of 1 along its first axis."""
        n = len(points)
        if not isinstance(self.init, str):
            given = np.asarray(self.init, np.float32)
            if given.shape != (n, components):
                raise ValueError(
                    f"init must have one row for each row of X and n_components columns, "
                    f"{(n, components)}, not {given.shape}."
                )
            return given
        rng = check_random_state(self.random_state)
        x = rng.standard_normal((n, components))
        if checks.choice("init", self.init, INITS) == "pca":
            centred = points - points.mean(axis=0)
            axes = np.linalg.svd(centred.T @ centred)[0][:, :components]
            flat = centred @ axes
            x = 1e-2 * flat[:, 0].std() * x  # also where X has fewer columns or rank
            x[:, : flat.shape[1]] += flat
        return (x / max(x[:, 0].std(), 1e-30)).astype(np.float32)
