"""Sparse additive models: objectives by hand, an independent group lasso, the paper's data."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mvrc
from mvrc import datasets
from mvrc.applications import SparseAdditiveRegressor
from mvrc.applications.additive import (
    largest_penalty,
    modified_root,
    sparse_additive,
    sparse_additive_convex,
    sparse_additive_root,
)
from mvrc.applications.additive.splines import SplineBasis

HOUSING = Path(__file__).resolve().parents[2] / "shared" / "data" / "usa_housing.csv"


def additive_data(n=400, d=12, seed=0):
    """y = 2 sin 3x₀ + 2x₁² + x₂ + noise; the other features do nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    y = 2 * np.sin(3 * X[:, 0]) + 2 * X[:, 1] ** 2 + X[:, 2] + 0.1 * rng.standard_normal(n)
    return X, y


def simulated_housing(n=1000, seed=0):
    """Like the paper's data: four positive features that add up to a price, 96 Gaussian ones."""
    return datasets.simulate_housing(n, seed=seed)[:2]


def housing(seed=0):
    """The paper's: four features of 5000 houses, and 96 Gaussian ones."""
    if not HOUSING.exists():
        pytest.skip(f"The house prices are not at {HOUSING}.")
    return datasets.housing(HOUSING, seed=seed)[:2]


def unit(values):
    return values / np.sqrt(np.mean(values**2, axis=0))


def basis(X, n_knots=6):
    made = [SplineBasis.of(column, n_knots, 3) for column in X.T]
    groups = np.repeat(np.arange(len(made)), [spline.size for spline, _ in made])
    return np.hstack([values for _, values in made]), groups


# The problems


@pytest.mark.parametrize(("penalty", "l1"), [(1.0, 0.001), (0.3, 0.02), (0.0, 0.0)])
def test_the_paper_objective_by_hand(penalty, l1):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 5)), rng.uniform(0, 2, 30)
    theta = np.array([0.3, -1.7, 0.0, 2.0, 0.01])  # terms on both sides of |y| = 1
    fit = np.mean((y - np.abs(X @ theta)) ** 2)
    squares = np.mean((X * theta) ** 2, axis=0)
    assert squares.min() < 1 < squares.max()
    roots = [v**0.5 if v >= 1 else 1.75 * v**2 - 0.75 * v**4 for v in squares]
    value = (fit + penalty * sum(roots)) / 6 + l1 * np.abs(theta).sum()
    problem = sparse_additive(X, y, penalty, l1)
    assert problem.kind == "Σ²"
    assert problem.N == 6
    assert problem.objective(theta) == pytest.approx(value, abs=1e-10)
    theta[2] = 0.1  # central differences, with an error of step² and eps/step
    steps = 1e-5 * np.eye(5)
    slopes = [(problem.objective(theta + e) - problem.objective(theta - e)) / 2e-5 for e in steps]
    np.testing.assert_allclose(problem.gradient(theta) + l1 * np.sign(theta), slopes, atol=1e-8)


def test_zero_is_stationary_and_has_no_nan():
    X, y = additive_data(20, 4)
    problem = sparse_additive(X, np.abs(y))
    np.testing.assert_array_equal(problem.gradient(np.zeros(4)), 0)


def test_the_modified_root_is_smooth_where_its_pieces_meet():
    below, above = modified_root(np.array([1 - 1e-3, 1 + 1e-3]))
    assert float(above - below) == pytest.approx(1e-3, rel=1e-2)  # slope ½ over 2e-3
    assert float(modified_root(-4.0)) == 2


def test_the_convex_objective_by_hand():
    X, y = additive_data(60, 3)
    B, groups = basis(X)
    beta = np.random.default_rng(1).standard_normal(B.shape[1])
    parts = [B[:, groups == j] @ beta[groups == j] for j in range(3)]
    roots = [np.sqrt(np.mean(part**2)) for part in parts]  # as the paper writes it
    value = np.mean((y - sum(parts)) ** 2) + 0.7 * sum(roots)
    problem = sparse_additive_convex(B, y, groups, 0.7)
    assert problem.kind == "Σ¹"
    assert problem.objective(beta) == pytest.approx(value, abs=1e-10)


def test_a_basis_is_centred_and_orthonormal_and_keeps_its_ends():
    rng = np.random.default_rng(0)
    few = rng.integers(0, 3, 200).astype(float)
    for x, size in ((rng.standard_normal(200), 7), (few, 2), (few > 0, 1), (np.full(200, 3.0), 0)):
        spline, values = SplineBasis.of(np.asarray(x, float), 6, 3)
        assert spline.size == values.shape[1] == size
        np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(values.T @ values / 200, np.eye(size), atol=1e-10)
        np.testing.assert_allclose(spline(np.asarray(x, float)), values, atol=1e-12)
        low, high = spline.range
        np.testing.assert_array_equal(spline([low - 9, high + 9]), spline([low, high]))


@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_the_convex_optimum_is_that_of_celer(share):
    """celer: min ‖y − Bβ‖²/(2n) + α Σ_j ‖β_j‖, so α = λ/2 and its value is half of ours."""
    celer = pytest.importorskip("celer", reason="The reference needs celer.")
    X, y = additive_data()
    estimator = SparseAdditiveRegressor(penalty=share, tol=1e-8).fit(X, y)
    B, groups = basis(X)
    y = y - y.mean()
    problem = sparse_additive_convex(B, y, groups, share * largest_penalty(B, y, groups))
    lists = [np.flatnonzero(groups == j).tolist() for j in range(X.shape[1])]
    reference = celer.GroupLasso(
        lists, alpha=estimator.penalty_ / 2, fit_intercept=False, tol=1e-12, max_iter=1000
    ).fit(B, y)
    best = problem.objective(reference.coef_)
    assert estimator.objective_ == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(estimator.predict(X) - estimator.intercept_, B @ reference.coef_,
                               atol=1e-4 * np.abs(y).max())  # fmt: skip
    norms = np.sqrt(np.bincount(groups, reference.coef_**2))
    np.testing.assert_array_equal(estimator.selected_features_, np.flatnonzero(norms > 1e-9))


def test_from_the_largest_penalty_on_the_solution_is_zero():
    X, y = additive_data(100, 4)
    assert SparseAdditiveRegressor(penalty=1.001).fit(X, y).selected_features_.size == 0
    almost = SparseAdditiveRegressor(penalty=0.99).fit(X, y)
    assert almost.selected_features_.tolist() == [0]


# The estimator


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([SparseAdditiveRegressor()])
@pytest.mark.one_in(2)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([SparseAdditiveRegressor(form="paper")])
def test_scikit_learn_for_the_form_of_the_paper(estimator, check):
    check(estimator)


@pytest.mark.parametrize("data", [housing, simulated_housing])
@pytest.mark.parametrize("form", ["paper", "spline"])
def test_the_true_features_are_found(form, data):
    X, y = data()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        estimator = SparseAdditiveRegressor(form).fit(X, y)
    assert estimator.selected_features_.tolist() == [0, 1, 2, 3]


def test_the_paper_run_ends_where_the_default_does():
    """MVRC with the paper's numbers, on data like the paper's."""
    X, y = simulated_housing()
    paper = mvrc.MVRC(0.004, batch_size=70, outer_batch_size=10, period=140, epsilon=None)
    one = SparseAdditiveRegressor("paper", method=paper, tol=0.02, random_state=0).fit(X, y)
    other = SparseAdditiveRegressor("paper").fit(X, y)
    assert one.result_.step_size == 0.004  # the method given is the one that ran
    assert first_epoch(one)[0] != first_epoch(other)[0]
    assert one.selected_features_.tolist() == [0, 1, 2, 3]
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-2)


def test_the_paper_form_is_in_the_units_of_the_user():
    X, y = simulated_housing()
    one = SparseAdditiveRegressor("paper").fit(X, y)
    other = SparseAdditiveRegressor("paper").fit(1000 * X, y / 7)
    np.testing.assert_allclose(other.coef_, one.coef_ / 7000, rtol=1e-6)
    scaled = sparse_additive(unit(X), unit(y))
    theta = one.coef_ * np.sqrt(np.mean(X**2, axis=0)) / np.sqrt(np.mean(y**2))
    assert scaled.objective(theta) == pytest.approx(one.objective_, rel=1e-10)
    np.testing.assert_allclose(one.predict(X), np.abs(X @ one.coef_))
    assert np.all(one.predict(X) >= 0)
    np.testing.assert_allclose(one.partial(1, [2.0])[1], 2 * one.coef_[1])


def test_splines_predict_new_data_and_recover_the_shapes():
    estimator = SparseAdditiveRegressor().fit(*additive_data())
    assert estimator.selected_features_.tolist() == [0, 1, 2]
    assert estimator.score(*additive_data(seed=1)) > 0.9
    shapes = (lambda x: 2 * np.sin(3 * x), lambda x: 2 * x**2, lambda x: x)
    for j, shape in enumerate(shapes):
        grid, part = estimator.partial(j)
        assert len(grid) == 100
        assert np.corrcoef(part, shape(grid))[0, 1] > 0.99
    np.testing.assert_array_equal(estimator.partial(5)[1], 0)
    new, _ = additive_data(50, seed=2)
    parts = sum(estimator.partial(j, new[:, j])[1] for j in range(new.shape[1]))
    np.testing.assert_allclose(estimator.predict(new), estimator.intercept_ + parts)
    outside = np.tile([[-5.0], [-1.0]], new.shape[1])
    ends = estimator.partial(0, [-5.0, estimator.partial(0)[0][0]])[1]
    assert ends[0] == ends[1]
    assert np.all(np.abs(estimator.predict(outside)) < 10)


def test_columns_of_one_value_are_never_selected_by_splines():
    X, y = additive_data(200, 5)
    X[:, 3], X[:, 4] = 7.0, X[:, 0] > 0
    X[:, 1] = np.round(X[:, 1])  # three values
    estimator = SparseAdditiveRegressor(penalty=0.02).fit(X, y)
    assert 3 not in estimator.selected_features_
    assert {0, 1, 2} <= set(estimator.selected_features_)
    paper = SparseAdditiveRegressor("paper").fit(np.hstack([X + 1, np.zeros((200, 1))]), np.abs(y))
    assert 5 not in paper.selected_features_


def test_other_methods_reach_the_same_objective():
    X, y = additive_data(200, 4)
    best = SparseAdditiveRegressor(tol=1e-8).fit(X, y).objective_
    small_step = mvrc.MVRC(0.01, batch_size=40, period=10)
    estimator = SparseAdditiveRegressor(method=small_step, random_state=0).fit(X, y)
    assert estimator.objective_ == pytest.approx(best, rel=1e-6)
    assert estimator.result_.step_size == 0.01
    default = SparseAdditiveRegressor().fit(X, y)
    assert first_epoch(estimator)[0] == 200 + 9 * 2 * 40 != first_epoch(default)[0]


def first_epoch(estimator):
    history = estimator.result_.history
    return history["inner_values"][1], history["objective"][1]


def test_the_seed_reaches_a_method_that_draws():
    X, y = additive_data(200, 4)
    method = mvrc.MVRC(0.01, batch_size=40, period=10)
    runs = [
        SparseAdditiveRegressor(method=method, random_state=seed).fit(X, y) for seed in (0, 0, 1)
    ]
    values = [first_epoch(run)[1] for run in runs]
    assert values[0] == values[1] != values[2]


def test_verbose_shows_a_bar(capsys):
    pytest.importorskip("rich")
    X, y = additive_data(100, 3)
    SparseAdditiveRegressor().fit(X, y)
    assert "".join(capsys.readouterr()) == ""
    SparseAdditiveRegressor(verbose=True).fit(X, y)
    assert "objective" in "".join(capsys.readouterr())


def test_it_works_with_scikit_learn_tools():
    X, y = additive_data(150, 4)
    pipeline = make_pipeline(StandardScaler(), SparseAdditiveRegressor())
    name = "sparseadditiveregressor__penalty"
    search = GridSearchCV(pipeline, {name: [0.05, 0.8]}, cv=2).fit(X, y)
    assert search.best_params_ == {name: 0.05}
    assert clone(SparseAdditiveRegressor(n_knots=9)).n_knots == 9
    chosen = SelectFromModel(SparseAdditiveRegressor(), threshold=1e-10).fit_transform(X, y)
    np.testing.assert_array_equal(chosen, X[:, :3])


def test_names_of_features():
    pandas = pytest.importorskip("pandas", reason="Names come from pandas.")
    X, y = additive_data(100, 3)
    estimator = SparseAdditiveRegressor().fit(pandas.DataFrame(X, columns=["a", "b", "c"]), y)
    assert estimator.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(estimator.partial("b")[1], estimator.partial(1)[1])
    with pytest.raises(ValueError, match="from 0 to 2 or one of the names a, b, c, not 'd'"):
        estimator.partial("d")


def test_plot():
    pytest.importorskip("matplotlib", reason="plot() needs matplotlib.").use("Agg")
    X, y = additive_data(100, 3)
    estimator = SparseAdditiveRegressor().fit(X, y)
    assert len(estimator.plot().axes) == 3
    with pytest.raises(ValueError, match="each of the 3 selected features, not 1"):
        estimator.plot(estimator.plot().axes[:1])
    with pytest.raises(ValueError, match="nothing to plot"):
        SparseAdditiveRegressor(penalty=2.0).fit(X, y).plot()


def test_a_fit_that_ends_early_warns():
    X, y = additive_data(100, 3)
    with pytest.warns(ConvergenceWarning, match="did not converge to tol=1e-12 in max_epochs=1"):
        SparseAdditiveRegressor(method="mvrc", tol=1e-12, max_epochs=1).fit(X, y)


def test_the_problems_do_not_need_scikit_learn():
    code = "import sys, mvrc.applications.additive; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Wrong input


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"form": "cubic"}, "form must be 'spline' or 'paper', not 'cubic'"),
        ({"penalty": -1.0}, "penalty must be a finite number of at least 0, not -1.0"),
        ({"form": "paper", "penalty": -1}, "penalty must be a finite number of at least 0, not -1"),
        ({"form": "paper", "l1": -1}, "l1 must be a finite number of at least 0, not -1"),
        ({"l1": 0.1}, "l1 is 0.1 but form is 'spline'"),
        ({"form": "paper", "degree": 2}, "degree is 2 but form is 'paper', which has no splines"),
        ({"n_knots": 1}, "n_knots must be an integer of at least 2, not 1"),
        ({"degree": 0}, "degree must be an integer of at least 1, not 0"),
        ({"tol": -1}, "tol must be a positive number, not -1"),
        ({"max_epochs": -1}, "max_epochs must be an integer of at least 0, not -1"),
    ],
)
def test_wrong_parameters(arguments, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        SparseAdditiveRegressor(**arguments).fit(*additive_data(20, 3))


def test_wrong_names_of_parameters():
    with pytest.raises(TypeError, match=r"no argument 'penality' \(did you mean 'penalty'\?\)"):
        SparseAdditiveRegressor(penality=1)


@pytest.mark.parametrize("form", ["paper", "spline"])
def test_wrong_data(form):
    X, y = additive_data(20, 3)
    estimator = SparseAdditiveRegressor(form)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        estimator.fit(X, y[:-1])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        estimator.fit(np.where(X > 0.9, np.nan, X), y)
    if form == "spline":
        with pytest.raises(ValueError, match="X has no column that varies"):
            estimator.fit(np.ones((20, 3)), y)


@pytest.mark.parametrize("feature", [3, -1, 1.0, "x", True])
def test_wrong_features(feature):
    estimator = SparseAdditiveRegressor().fit(*additive_data(30, 3))
    with pytest.raises(ValueError, match=r"^feature must be an integer from 0 to 2, not "):
        estimator.partial(feature)
    with pytest.raises(ValueError, match="^grid must be a list of finite numbers"):
        estimator.partial(0, [[0.0, np.nan]])


def test_wrong_data_of_the_problems():
    X, y = additive_data(20, 3)
    with pytest.raises(ValueError, match="^y must have one number for each of the 20 rows of X"):
        sparse_additive(X, y[:-1])
    with pytest.raises(ValueError, match="^X contains NaN or infinite values"):
        sparse_additive(np.where(X > 0.9, np.inf, X), y)
    with pytest.raises(ValueError, match="^X must be numbers"):
        sparse_additive([["a"]], y)
    with pytest.raises(ValueError, match="^X must be a table"):
        sparse_additive(y, y)
    with pytest.raises(ValueError, match="^penalty must be a finite number of at least 0"):
        sparse_additive_convex(X, y, [0, 1, 2], -1)
    with pytest.raises(ValueError, match="^groups of GroupL2 cover 2 coordinates"):
        sparse_additive_convex(X, y, [0, 1], 1.0)
    with pytest.raises(ValueError, match="^groups of GroupL2"):
        largest_penalty(X, y, [0, 1])


# --- the convex form of the appendix ------------------------------------------------------------


def test_the_smoothed_root_is_bounded_by_the_root():
    """√|y| − δ ≤ f ≤ √|y|, so Φ loses at most penalty·δ·d/(d+1); slopes at 0 are finite."""
    X, y = simulated_housing(200)
    X, y, d = unit(X)[:, :8], unit(y), 8
    rng = np.random.default_rng(0)
    for delta in (0.3, 0.03, 0.003):
        problem = sparse_additive_root(X, y, penalty=0.7, smoothing=delta)
        for theta in (np.zeros(d), 0.01 * rng.standard_normal(d), rng.standard_normal(d)):
            error = np.mean((y - X @ theta) ** 2)
            roots = np.sqrt(np.mean((theta * X) ** 2, axis=0))
            exact = (error + 0.7 * roots.sum()) / (d + 1)
            lost = exact - problem.objective(theta)
            assert -1e-14 <= lost <= 0.7 * delta * d / (d + 1) + 1e-14
            assert np.all(np.isfinite(problem.gradient(theta)))
    with pytest.raises(ValueError, match="smoothing must be a positive"):
        sparse_additive_root(X, y, smoothing=0.0)


def test_the_smoothed_root_is_convex():
    X, y = simulated_housing(100)
    problem = sparse_additive_root(unit(X)[:, :5], unit(y), smoothing=0.05)
    rng = np.random.default_rng(1)
    for _ in range(20):
        a, b = rng.standard_normal((2, 5)) * 10 ** rng.uniform(-3, 0, (2, 1))
        middle = problem.objective((a + b) / 2)
        assert middle <= (problem.objective(a) + problem.objective(b)) / 2 + 1e-13


def test_the_smoothed_root_meets_the_exact_penalty():
    """Against the group lasso with a group for each column, which has no smoothing."""
    X, y = simulated_housing(400)
    X, y, d = unit(X)[:, :12], unit(y), 12
    exact = sparse_additive_convex(X, y, np.arange(d), 0.5)
    best = mvrc.minimize(exact, np.zeros(d))
    for delta in (1e-1, 1e-2):
        problem = sparse_additive_root(X, y, penalty=0.5, smoothing=delta)
        result = mvrc.minimize(problem, np.full(d, 0.01))
        gap = best.objective - (d + 1) * result.objective
        assert 0 <= gap <= 0.5 * delta * d
        slope = np.abs(2 / len(y) * X.T @ (X @ result.x - y))
        q = (slope / 0.5) ** (4 / 3)
        zero = best.x == 0
        expected = delta * (q / (1 - q)) ** 0.25
        assert zero.any() and np.median(np.abs(result.x[zero])) < delta
        np.testing.assert_allclose(np.abs(result.x[zero]), expected[zero], rtol=1e-3)
    named = mvrc.minimize(problem, np.full(d, 0.01), "mvrc", epochs=60)
    assert named.objective < result.objective + 0.05 * abs(problem.objective(np.full(d, 0.01)))
