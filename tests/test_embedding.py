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
from mvrc.oracle.exact import measure


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
    """With the shift of large data the objective is exact at moderate distances; far apart, where
    a stranger is e^560 times more similar than the eight, it is a finite lower bound."""
    monkeypatch.setattr("mvrc.applications.embedding.problems.ALL", 10)
    problem = neighbor_embedding(points, sigma=2.0)
    assert problem.inner.closest.shape == (30, 8)
    x = np.random.default_rng(1).normal(size=(30, 2))
    for size in (1e-3, 1.0, 5.0):
        assert problem.objective(size * x) == pytest.approx(direct(points, size * x, 2), rel=1e-10)
    for size in (40.0, 1e4):
        found, exact = measure(problem, size * x), direct(points, size * x, 2.0)
        assert found.objective < (1 - 1e-3) * exact, "terms were cut"
        assert np.isfinite(found.objective) and np.all(np.isfinite(found.gradient))


@pytest.mark.parametrize("n, limited", [(512, False), (513, True)])
def test_from_513_points_on(n, limited):
    data = np.random.default_rng(0).normal(size=(n, 3))
    x = np.random.default_rng(1).normal(size=(n, 2))
    problem = neighbor_embedding(data, sigma=1.0)
    assert (problem.inner.closest is not None) == limited
    assert problem.objective(x) == pytest.approx(direct(data, x, 1.0), rel=1e-10)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clusters_far_apart_have_no_duplicates(dtype):
    """Distances inside of a cluster are those of a twin that sees the cluster alone; the data, in
    units of 1/64, is held exactly far away as well."""
    near = np.round(64 * np.random.default_rng(0).normal(size=(300, 5))) / 64
    X = near.copy()
    X[150:] += 16384
    table = neighbors(X.astype(dtype), perplexity=10, keep=30)
    assert table.probability.dtype == dtype
    for half in (slice(0, 150), slice(150, 300)):
        alone = neighbors(near[half], perplexity=10, keep=30)
        np.testing.assert_allclose(table.probability[half], alone.probability, atol=1e-6)
        np.testing.assert_array_equal(table.nearest[half, 0] - half.start, alone.nearest[:, 0])


def test_estimates_of_clusters_far_apart():
    """In float32 the data itself would have duplicates at 10⁸: distances are of what was given."""
    X = np.random.default_rng(0).normal(size=(60, 5))
    X[30:] += 1e8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StochasticNeighborEmbedding(perplexity=2, max_epochs=2, random_state=0).fit(X)
    assert np.all(np.isfinite(model.embedding_))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_duplicates_are_seen_and_counted(dtype):
    """Five copies of a point with 64 columns, whose ‖a‖² + ‖b‖² − 2aᵀb is not 0: the count is of
    copies, whatever the number of neighbours kept."""
    X = np.random.default_rng(0).normal(10, 1, size=(40, 64)).astype(dtype)
    X[1:5] = X[0]
    words = "data has a point in 5 copies, so 4 others at distance 0, more than the perplexity, 3"
    for keep in (None, 4):
        with pytest.raises(ValueError, match=words):
            neighbors(X, perplexity=3, keep=keep)
    p = neighbors(X, perplexity=4.5).probability
    np.testing.assert_allclose(p[0, :4], p[0, 0], rtol=1e-6)


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
    if name in ("mvrc", "nested-spider"):
        sizes["epsilon"] = None  # θ ≡ 1: 60 epochs are few for normalised steps
    method = mvrc.METHODS[name](step_size=20.0, **sizes)
    result = mvrc.minimize(problem, x0, method, epochs=60)
    assert result.gradient_mapping < 0.3 * result.history["gradient_mapping"][0]
    assert result.objective < result.history["objective"][0]


# --- the estimator ------------------------------------------------------------------------------


@parametrize_with_checks([StochasticNeighborEmbedding(max_epochs=3)])
@pytest.mark.one_in(3)
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


def fitted(points, **options):
    """Two epochs, and no word about it."""
    options = {"max_epochs": 2, "random_state": 0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return StochasticNeighborEmbedding(**options).fit(points)


def test_options(points, capsys):
    """Each by what it alone can do."""
    plain = fitted(points)
    assert not capsys.readouterr().out
    fitted(points, verbose=True)
    assert "objective" in capsys.readouterr().out, "the bar"
    assert fitted(points, n_components=3).embedding_.shape == (30, 3)
    assert fitted(points, max_epochs=5).n_iter_ == 5
    assert fitted(points, max_epochs=500, tol=0.5).n_iter_ < fitted(points, max_epochs=500).n_iter_
    x0 = np.random.default_rng(1).normal(size=(30, 2)).astype(np.float32)
    np.testing.assert_array_equal(fitted(points, init=x0, max_epochs=0).embedding_, x0)
    method = mvrc.MVRC(step_size=20, batch_size=15)
    counts = [m.result_.history["inner_values"][-1] for m in (plain, fitted(points, method=method))]
    assert counts[0] == 3 * 30, "the power iteration, two epochs"
    assert counts[1] != counts[0]
    with pytest.warns(ConvergenceWarning, match="did not converge to tol"):
        StochasticNeighborEmbedding(max_epochs=2, tol=1e-6).fit(points)


@pytest.mark.parametrize(
    "options, same",
    [
        ({}, {"perplexity": 29 / 3, "keep": 29}),
        ({"perplexity": 4}, {"perplexity": 4, "keep": 12}),
        ({"sigma": 2.0}, {"sigma": 2.0}),
        ({"sigma": 0.5}, {"sigma": 0.5}),
    ],
)
def test_the_objective_is_that_of_the_problem(options, same, points):
    """To the rounding of float32."""
    model = fitted(points, **options)
    problem = neighbor_embedding(points, **same)
    exact = problem.objective(model.embedding_.astype(float))
    assert model.objective_ == pytest.approx(exact, rel=1e-5)
    p = np.asarray(problem.outer_data[2])
    entropy = -np.sum(p * np.log(np.where(p > 0, p, 1))) / 30
    assert model.kl_divergence_ == pytest.approx(30 * exact - entropy, rel=1e-4)


def test_pairs_are_the_same_function_of_more_terms(points):
    x0 = np.random.default_rng(1).normal(size=(30, 2))
    by = {
        outer: [
            fitted(points, init=x0, outer=outer, perplexity=4, max_epochs=epochs)
            for epochs in (0, 2)
        ]
        for outer in ("points", "pairs")
    }
    assert by["points"][0].objective_ == pytest.approx(by["pairs"][0].objective_, rel=1e-5)
    counts = {o: models[1].result_.history["outer_gradients"][-1] for o, models in by.items()}
    assert counts["pairs"] == 12 * counts["points"], "twelve neighbours are kept"


def test_random_states(points):
    one, again, other = (
        fitted(points, init="random", random_state=seed).embedding_ for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)


def test_a_transformer_like_tsne(points):
    pandas = pytest.importorskip("pandas")
    pipe = make_pipeline(StandardScaler(), clone(fitted(points, perplexity=4)))
    pipe.set_output(transform="pandas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        frame = pipe.fit_transform(pandas.DataFrame(points, index=range(100, 130)))
    names = ["stochasticneighborembedding0", "stochasticneighborembedding1"]
    assert list(frame.columns) == names and list(frame.index) == list(range(100, 130))
    np.testing.assert_array_equal(pipe[-1].get_feature_names_out(), names)
    assert not hasattr(pipe[-1], "transform"), "there is no place for a new point"


@pytest.mark.parametrize("n", [4, 5, 6])
def test_few_points(n, points):
    model = fitted(points[:n])
    assert np.all(np.isfinite(model.embedding_)) and model.embedding_.shape == (n, 2)


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
        ({"perplexity": "a"}, "perplexity must be a positive number, not 'a'."),
        ({"sigma": "a"}, "sigma must be a positive number, not 'a'."),
        ({"init": np.zeros((3, 2))}, "init must have one row for each row of X"),
        ({"init": [["a", "b"]] * 30}, "init must have one row for each row of X"),
        ({"init": np.ones((30, 2))}, "init has all points in one place, where the gradient is 0"),
        ({"init": np.full((30, 2), np.nan)}, "init contains NaN or inf"),
        ({"outer": "both"}, "outer must be 'points' or 'pairs', not 'both'."),
        ({"n_components": 0}, "n_components must be an integer of at least 1, not 0."),
    ],
)
def test_wrong_options(options, words, points):
    with pytest.raises(ValueError) as error:
        StochasticNeighborEmbedding(**options).fit(points)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_wrong_data(points):
    many = np.concatenate([np.repeat(points[:1], 12, axis=0), points])
    with pytest.raises(
        ValueError, match="data has a point in 13 copies, so 12 others at distance 0"
    ):
        StochasticNeighborEmbedding(perplexity=5).fit(many)
    with pytest.raises(ValueError, match="data must have at least four points"):
        neighbor_embedding(points[:3])
    with pytest.raises(ValueError, match="data contains NaN or inf"):
        neighbor_embedding(np.where(points > 2, np.nan, points))
