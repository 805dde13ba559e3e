"""Stochastic neighbour embedding: the paper's formula, safety at any distance, digits."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import trustworthiness
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mvrc
from mvrc.applications import StochasticNeighborEmbedding, neighbor_embedding
from mvrc.applications.embedding.neighbors import neighbors
from mvrc.metrics import measure


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(0).normal(size=(30, 6))


def conditional(square):
    """p_{i|k} in row k, without i = k, from squared distances over 2σ²."""
    log = -square.copy()
    np.fill_diagonal(log, -np.inf)
    top = log.max(axis=1, keepdims=True)
    weight = np.exp(log - top)
    total = weight.sum(axis=1, keepdims=True)
    return weight / total, log - top - np.log(total)


def direct(data, x, sigma):
    """Φ(x) = −(1/n²) Σᵢ Σₖ p_{i|k} log q_{i|k}, as the appendix has it."""
    n = len(data)
    p, _ = conditional(((data[:, None] - data) ** 2).sum(-1) / (2 * sigma**2))
    _, log_q = conditional(((x[:, None] - x) ** 2).sum(-1) / 2)
    np.fill_diagonal(log_q, 0)
    return -np.sum(p * log_q) / n**2


@pytest.mark.parametrize("outer", ["points", "pairs"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 40.0, 1e4])
def test_the_formula_at_any_distance(outer, size, points):
    """At distance 40 exp(−d²/2) is 0 in float64; the objective is exact all the same."""
    x = size * np.random.default_rng(1).normal(size=(30, 2))
    problem = neighbor_embedding(points, sigma=2.0, outer=outer)
    assert problem.kind == "Σ²"
    found = measure(problem, x)
    assert found.objective == pytest.approx(direct(points, x, 2.0), rel=1e-10)
    assert np.all(np.isfinite(found.gradient))


def test_many_points_use_their_nearest_for_the_shift(points, monkeypatch):
    """The same objective with the shift of large data, as long as neighbours are not far."""
    x = points[:, :2]
    want = neighbor_embedding(points, sigma=2.0).objective(x)
    monkeypatch.setattr("mvrc.applications.embedding.problems.ALL", 10)
    problem = neighbor_embedding(points, sigma=2.0)
    assert problem.inner.closest.shape == (30, 8)
    assert problem.objective(x) == pytest.approx(want, rel=1e-12)
    assert np.isfinite(problem.objective(1e4 * x[::-1]))


@pytest.mark.parametrize("outer", ["points", "pairs"])
def test_derivatives(outer, points):
    x = np.random.default_rng(1).normal(size=(30, 2))
    problem = neighbor_embedding(points, perplexity=5, outer=outer)
    assert problem.check(x).ok


def test_the_shift_cancels(points):
    """The gradient is that of the plain formula, by autodiff of a twin without any shift."""
    x = np.random.default_rng(1).normal(size=(30, 2))
    table = neighbors(points, sigma=2.0)
    p = np.zeros((30, 30))
    np.put_along_axis(p, table.nearest, table.probability, axis=1)
    with jax.enable_x64(True):

        def plain(x):
            square = jax.numpy.sum((x[:, None] - x) ** 2, axis=-1) / 2
            total = jax.numpy.sum(jax.numpy.exp(-square), axis=1) - 1
            return (jax.numpy.log(total).sum() + (p * square).sum()) / 30**2

        want = np.asarray(jax.grad(plain)(jax.numpy.asarray(x)))
    got = measure(neighbor_embedding(points, sigma=2.0), x).gradient
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_bandwidths_have_the_perplexity(points):
    p = neighbors(points, perplexity=7.0).probability
    entropy = -np.sum(p * np.log(p), axis=1)
    np.testing.assert_allclose(np.exp(entropy), 7, rtol=1e-8)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert np.all(np.diff(p, axis=1) <= 0), "nearest first"


def test_nearest_are_the_nearest(points):
    square = ((points[:, None] - points) ** 2).sum(-1)
    np.fill_diagonal(square, np.inf)
    index = neighbors(points, perplexity=3, keep=9).nearest
    np.testing.assert_array_equal(index, np.argsort(square, axis=1)[:, :9])


def test_an_estimate_below_the_least_mean_is_finite(points):
    problem = neighbor_embedding(points, perplexity=5)
    x = np.zeros((30, 2), np.float32)
    y = problem.inner(x, 0)
    row = jax.tree.map(lambda a: a[0], problem.outer_data)
    for mean in (-1.0, 0.0, 1e-9):
        assert np.isfinite(problem.outer((x, np.full(30, mean), y[2]), row))


@pytest.mark.parametrize("name", ["mvrc", "nested-spider", "vrsc-pg", "fista"])
def test_methods_descend(name, points):
    x0 = np.random.default_rng(1).normal(size=(30, 2))
    problem = neighbor_embedding(points, perplexity=5)
    sizes = {} if name == "fista" else {"batch_size": 15, "outer_batch_size": 30, "period": 4}
    method = mvrc.METHODS[name](step_size=20.0, **sizes)
    result = mvrc.minimize(problem, x0, method, epochs=60)
    assert result.gradient_mapping < 0.3 * result.history["gradient_mapping"][0]
    assert result.objective < result.history["objective"][0]


# --- the estimator ------------------------------------------------------------------------------


@parametrize_with_checks([StochasticNeighborEmbedding(max_epochs=3)])
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:500], y[:500]


def test_classes_are_apart(digits):
    """Nearest neighbours in the picture have the same label, and are neighbours in the data."""
    from sklearn.neighbors import KNeighborsClassifier

    X, y = digits
    model = StochasticNeighborEmbedding(random_state=0)
    E = model.fit_transform(X)
    assert E.shape == (500, 2) and E.dtype == np.float32
    assert trustworthiness(X, E, n_neighbors=5) > 0.95
    assert KNeighborsClassifier(5).fit(E, y).score(E, y) > 0.93
    assert 0 < model.kl_divergence_ < 3


@pytest.mark.slow
def test_all_digits_against_tsne():
    from sklearn.manifold import TSNE

    X, _ = load_digits(return_X_y=True)
    ours = StochasticNeighborEmbedding(random_state=0).fit_transform(X)
    theirs = TSNE(random_state=0).fit_transform(X)
    ours, theirs = (trustworthiness(X, E, n_neighbors=5) for E in (ours, theirs))
    assert ours >= theirs - 0.03


def test_options(points):
    def fit(**options):
        return StochasticNeighborEmbedding(max_epochs=2, random_state=0, **options).fit(points)

    with pytest.warns(ConvergenceWarning, match="did not converge to tol"):
        assert fit(n_components=3, tol=1e-6).embedding_.shape == (30, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert fit(sigma=2.0).embedding_.shape == (30, 2)
        assert fit(outer="pairs", perplexity=4).embedding_.shape == (30, 2)
        x0 = np.ones((30, 2), np.float32) * np.arange(30)[:, None]
        assert fit(init=x0).embedding_.shape == (30, 2)
        one = fit(init="random").embedding_
        np.testing.assert_array_equal(one, fit(init="random").embedding_)
        pipe = make_pipeline(StandardScaler(), clone(fit(perplexity=4)))
        assert pipe.fit_transform(points).shape == (30, 2)
        assert fit(method=mvrc.MVRC(step_size=20, batch_size=15)).n_iter_ == 2


def test_a_few_duplicates_are_fine(points):
    X = np.concatenate([points, points[:3]])
    E = StochasticNeighborEmbedding(random_state=0).fit_transform(X)
    assert np.all(np.isfinite(E))


def test_a_bad_step_is_tried_again(points):
    """One stranger far away: whatever the first step does, the result is below the start."""
    X = np.concatenate([points, [[1e3] * 6]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StochasticNeighborEmbedding(random_state=0).fit(X)
    assert np.all(np.isfinite(model.embedding_))
    assert model.objective_ <= model.result_.history["objective"][0]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"perplexity": 40}, "perplexity must lie between 1 and the number of neighbours, 29"),
        ({"perplexity": 5, "sigma": 1.0}, "perplexity and sigma are both given; give one"),
        ({"init": "pac"}, "init must be 'pca' or 'random', not 'pac' (did you mean 'pca'?)."),
        ({"init": np.zeros((3, 2))}, "init must have one row for each row of X"),
        ({"outer": "both"}, "outer must be 'points' or 'pairs', not 'both'."),
        ({"n_components": 0}, "n_components must be a whole number of at least 1, not 0."),
    ],
)
def test_wrong_options(options, words, points):
    with pytest.raises(ValueError) as error:
        StochasticNeighborEmbedding(**options).fit(points)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_wrong_data(points):
    many = np.concatenate([np.repeat(points[:1], 12, axis=0), points])
    with pytest.raises(ValueError, match="data has a point with 12 duplicates .distance 0."):
        StochasticNeighborEmbedding(perplexity=5).fit(many)
    with pytest.raises(ValueError, match="data must have at least four points"):
        neighbor_embedding(points[:3])
    with pytest.raises(ValueError, match="data contains NaN or inf"):
        neighbor_embedding(np.where(points > 2, np.nan, points))
