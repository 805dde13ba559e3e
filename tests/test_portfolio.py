"""Portfolios: the formulas, the optimum of a conic solver, scikit-learn's own checks."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import mvrc
from mvrc import datasets
from mvrc.applications import (
    EntropicPortfolio,
    Limits,
    MeanCVaRPortfolio,
    MeanEVaRPortfolio,
    MeanSemideviationPortfolio,
    MeanVariancePortfolio,
    mean_cvar,
    mean_entropic,
    mean_evar,
    mean_semideviation,
    mean_variance,
)
from mvrc.applications.portfolio import exact_mean_variance

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
ALL = (MeanVariancePortfolio, MeanSemideviationPortfolio, MeanCVaRPortfolio)
NEW = (EntropicPortfolio, MeanEVaRPortfolio)


@pytest.fixture(scope="module")
def returns():
    return datasets.simulate_industry(n=600, d=5, seed=1).values


FILES = ("industry30", "sp500", "simulated")


def load(name):
    if name == "sp500":
        return datasets.sp500().values
    if name == "simulated":
        return datasets.simulate_industry(n=3000).values
    if not (DATA / "industry30_daily.csv").exists():
        pytest.skip("../shared/data is not there")
    return datasets.industry30(DATA).values


# --- formulas -----------------------------------------------------------------------------------


def test_mean_variance_is_the_formula(returns):
    x = np.random.default_rng(0).normal(size=5)
    earned = returns @ x
    direct = -earned.mean() + 0.3 * earned.var() + 0.02 * np.abs(x).sum()
    assert mean_variance(returns, 0.3, 0.02).objective(x) == pytest.approx(direct, rel=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_mean_semideviation_is_the_formula(returns, order):
    x = np.full(5, 0.2)
    earned = returns @ x
    below = np.maximum(earned.mean() - earned, 0)
    direct = -earned.mean() + 0.7 * np.mean(below**order) ** (1 / order)
    problem = mean_semideviation(returns, 0.7, order, smoothing=1e-12)
    assert problem.objective(x) == pytest.approx(direct, rel=1e-10)


def test_mean_cvar_is_the_formula_and_its_smoothing_is_bounded(returns):
    x = np.full(5, 0.2)
    earned = returns @ x
    z = {"weights": x, "threshold": np.array(0.4)}
    direct = -earned.mean() + 0.5 * (0.4 + np.maximum(-earned - 0.4, 0).mean() / 0.1)
    tight = mean_cvar(returns, 0.5, 0.9, smoothing=1e-12).objective(z)
    assert tight == pytest.approx(direct, rel=1e-10)
    wide = mean_cvar(returns, 0.5, 0.9, smoothing=0.4).objective(z)
    assert 0 < wide - direct <= 0.5 * (0.4 / 8) / 0.1


@pytest.mark.parametrize(
    "problem, x",
    [
        (mean_variance, np.full(5, 0.2)),
        (mean_semideviation, np.full(5, 0.2)),
        (mean_cvar, {"weights": np.full(5, 0.2), "threshold": np.array(0.5)}),
    ],
)
def test_derivatives(problem, x, returns):
    assert problem(returns).check(x).ok


def test_semideviation_is_defined_where_an_estimate_is_negative(returns):
    problem = mean_semideviation(returns)
    for y in (-1.0, 0.0, 1e-9, 4.0):
        assert np.isfinite(problem.outer(np.array([0.1, y])))


def test_exact_mean_variance_is_optimal(returns):
    """0 ∈ ∇F + μ∂‖·‖₁."""
    x, value = exact_mean_variance(returns)
    problem = mean_variance(returns)
    assert problem.objective(x) == pytest.approx(value, rel=1e-12)
    gradient = problem.gradient(x)
    np.testing.assert_allclose(gradient[x != 0], -0.01 * np.sign(x[x != 0]), atol=1e-12)
    assert np.all(np.abs(gradient[x == 0]) <= 0.01 + 1e-12)


# --- optima -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("constraint", [None, "long-only", mvrc.Box(-0.02, 0.05)])
def test_mean_variance_reaches_the_optimum_of_clarabel(name, constraint):
    cvxpy = pytest.importorskip("cvxpy")
    R = load(name)
    model = MeanVariancePortfolio(constraint=constraint, tol=1e-7).fit(R)
    x = cvxpy.Variable(R.shape[1])
    limits = {None: [], "long-only": [x >= 0, cvxpy.sum(x) == 1]}.get(
        constraint if constraint is None or isinstance(constraint, str) else 0,
        [x >= -0.02, x <= 0.05],
    )
    C = np.cov(R.T, bias=True)
    risk = cvxpy.quad_form(x, cvxpy.psd_wrap(C))
    penalty = 0.0 if constraint == "long-only" else 0.01 * cvxpy.norm1(x)
    problem = cvxpy.Problem(cvxpy.Minimize(-R.mean(axis=0) @ x + 0.2 * risk + penalty), limits)
    accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    problem.solve(solver="CLARABEL", **accuracy)
    assert abs(model.objective_ - problem.value) <= 1e-6 * abs(problem.value)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "model, measure",
    [
        (MeanCVaRPortfolio(), "CVAR"),
        (MeanSemideviationPortfolio(), "SEMI_DEVIATION"),
        (MeanSemideviationPortfolio(order=1), "FIRST_LOWER_PARTIAL_MOMENT"),
    ],
    ids=["cvar", "semideviation", "semideviation-1"],
)
def test_tail_risks_reach_the_optimum_of_skfolio(name, model, measure):
    """The true objective, without smoothing, at both weights."""
    skfolio = pytest.importorskip("skfolio")
    from skfolio.optimization import MeanRisk, ObjectiveFunction

    R = load(name)[-3000:]  # the conic solver takes seconds on all days
    ours = clone(model).fit(R)
    theirs = MeanRisk(
        risk_measure=getattr(skfolio.RiskMeasure, measure),
        objective_function=ObjectiveFunction.MAXIMIZE_UTILITY,
        risk_aversion=1.0,
    ).fit(R)
    utility = ours.score(R)
    ours.weights_ = theirs.weights_
    best = ours.score(R)
    assert utility >= best - 1e-3 * abs(best)


# --- scikit-learn -------------------------------------------------------------------------------


# The checks fit data of many shapes, and every shape is compiled: as few programs as can be.
SHORT = {"method": mvrc.FISTA(step_size=0.01), "tol": 0.1, "max_epochs": 5}


@parametrize_with_checks([MeanVariancePortfolio(**SHORT)])
@pytest.mark.one_in(2)
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.slow
@parametrize_with_checks([model() for model in (*ALL, *NEW)])
def test_scikit_learn_by_default(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.parametrize(
    "model", [MeanVariancePortfolio, *(pytest.param(m, marks=pytest.mark.slow) for m in ALL[1:])]
)
def test_pipeline_and_grid_search(model, returns):
    """`score` compares sets; another scorer compares risk aversions."""
    returns = returns[:120]
    percent = FunctionTransformer(lambda r: 100 * r)
    pipe = make_pipeline(percent, model())
    name = model.__name__.lower()
    sets = {f"{name}__constraint": ["simplex", mvrc.Simplex(upper=0.3)]}
    grid = GridSearchCV(pipe, sets, cv=TimeSeriesSplit(2)).fit(returns / 100)
    assert grid.best_estimator_[-1].weights_.sum() == pytest.approx(1)
    assert np.isfinite(grid.best_score_)

    def ratio(portfolio, X, y=None):
        earned = portfolio.predict(X)
        return earned.mean() / earned.std()

    kappas = {f"{name}__risk_aversion": [0.1, 1.0]}
    grid = GridSearchCV(pipe, kappas, scoring=ratio, cv=TimeSeriesSplit(2)).fit(returns / 100)
    assert len(set(grid.cv_results_["mean_test_score"])) == 2


@pytest.mark.parametrize("beta", [0.05, 0.3, 0.7, 0.85, 0.95])
@pytest.mark.parametrize("n", [2, 7, 20, 99, 100])
def test_cvar_of_a_sample_is_the_minimum_of_its_formula(beta, n):
    """t + E(loss − t)₊/(1 − β) is convex and piecewise linear: its minimum is at a loss."""
    earned = np.random.default_rng(n).normal(size=n)
    values = [t + np.maximum(-earned - t, 0).mean() / (1 - beta) for t in -earned]
    assert MeanCVaRPortfolio(beta=beta)._risk(earned) == pytest.approx(min(values), rel=1e-12)


def test_frames_keep_their_names(returns):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(returns, columns=list("abcde"))
    model = MeanVariancePortfolio().fit(frame)
    assert list(model.feature_names_in_) == list("abcde")
    np.testing.assert_allclose(model.predict(frame), returns @ model.weights_, rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c", "d", "e"]])


def nullable(frame):
    return frame.astype("Float64")


def objects(frame):
    return frame.astype(object)


@pytest.mark.parametrize("kind", [nullable, objects])
def test_frames_of_other_kinds(kind, returns):
    pandas = pytest.importorskip("pandas")
    frame = kind(pandas.DataFrame(returns, columns=list("abcde")))
    model = MeanVariancePortfolio(random_state=0)
    expected = clone(model).fit(returns).weights_
    np.testing.assert_array_equal(model.fit(frame).weights_, expected)
    x = np.full(5, 0.2)
    assert mean_variance(frame).objective(x) == mean_variance(returns).objective(x)
    frame.loc[3, "b"] = pandas.NA
    for fit in (model.fit, mean_variance, mean_cvar):
        with pytest.raises(
            ValueError, match="has 1 missing values .* on 1 of 600 days, in column b"
        ):
            fit(frame)


def test_a_frame_may_have_bools(returns):
    frame = pytest.importorskip("pandas").DataFrame(returns, columns=list("abcde"))
    frame["b"] = frame["b"] > 0
    numbers = frame.astype(float)
    x = np.full(5, 0.2)
    assert mean_variance(frame).objective(x) == mean_variance(numbers).objective(x)
    model = MeanVariancePortfolio(random_state=0)
    weights = clone(model).fit(numbers).weights_
    np.testing.assert_array_equal(model.fit(frame).weights_, weights)


def test_returns_of_the_data_sets_are_taken_as_they_are():
    data = datasets.simulate_industry(n=300, d=4)
    model = MeanVariancePortfolio(random_state=0).fit(data)
    assert tuple(model.feature_names_in_) == data.assets
    np.testing.assert_allclose(model.predict(data), data.values @ model.weights_, rtol=1e-12)
    x = {"weights": np.full(4, 0.25), "threshold": np.array(0.5)}
    assert mean_cvar(data).objective(x) == mean_cvar(data.values).objective(x)
    with pytest.raises(ValueError, match="in column asset 2;"):
        mean_variance(data._replace(values=with_nan(data.values)))


@pytest.mark.parametrize("model", ALL)
def test_options_reach_the_solver(model, returns):
    options = {"method": "civr", "max_epochs": 400, "tol": 1e-4}
    by_name = model(**options, random_state=3).fit(returns)
    again = model(**options, random_state=3).fit(returns)
    np.testing.assert_array_equal(by_name.weights_, again.weights_)
    other = model(**options, random_state=4).fit(returns)
    assert not np.array_equal(columns(by_name)[1][1:4], columns(other)[1][1:4])
    default = model(tol=1e-7, random_state=3).fit(returns)
    assert columns(by_name)[0][1] != columns(default)[0][1]  # samples of the first epoch
    assert by_name.objective_ == pytest.approx(default.objective_, rel=1e-3, abs=1e-5)
    with pytest.warns(ConvergenceWarning, match="did not converge to tol=1e-09 in max_epochs=1"):
        model(method="civr", tol=1e-9, max_epochs=1).fit(returns)


def columns(model):
    history = model.result_.history
    return history["inner_values"], history["objective"]


def test_verbose_shows_a_bar(returns, capsys):
    pytest.importorskip("rich")
    MeanVariancePortfolio().fit(returns)
    assert "".join(capsys.readouterr()) == ""
    MeanVariancePortfolio(verbose=True).fit(returns)
    assert "objective" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "model, constraint, excess",
    [
        (MeanCVaRPortfolio(0.1), mvrc.Box(0, 0.2), 0.25),
        pytest.param(
            MeanCVaRPortfolio(0.1), mvrc.NonNegative(), 0.1 / 8 / 0.05, marks=pytest.mark.slow
        ),
        pytest.param(
            MeanCVaRPortfolio(0.1), mvrc.L2Ball(1.0), 0.1 / 8 / 0.05, marks=pytest.mark.slow
        ),
        (MeanSemideviationPortfolio(), mvrc.Box(0, 0.2), 1 / 2),
        pytest.param(
            MeanSemideviationPortfolio(order=1), mvrc.L1Ball(1.0), 1 / 8, marks=pytest.mark.slow
        ),
    ],
    ids=lambda c: type(c).__name__,
)
def test_sets_that_have_zero(model, constraint, excess):
    """κ is so large that all weights 0 is the optimum, with the value 0. The smoothed objective is
    above the true one, and at 0 by `excess` widths, so no optimum of it scores less than that."""
    R = datasets.sp500(days=2000).values
    model = clone(model).set_params(constraint=constraint)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(R)
    width = 0.05 * np.median(R.std(axis=0))
    assert np.abs(model.weights_).sum() < 0.03
    assert -1.001 * excess * width <= model.score(R) <= 0


@pytest.mark.parametrize("model", ALL)
@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_a_fit_never_ends_above_its_start(model, epochs, returns):
    far = model(risk_aversion=5.0, method=mvrc.FISTA(10.0), max_epochs=epochs)
    with pytest.warns(ConvergenceWarning):
        far.fit(returns)
    assert far.objective_ <= columns(far)[1][0]


def test_constraints_hold(returns):
    for model in ALL:
        weights = model(constraint="simplex").fit(returns).weights_
        assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
        weights = model(constraint=mvrc.Simplex(upper=0.3)).fit(returns).weights_
        assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
        assert weights.max() <= 0.3
    weights = MeanVariancePortfolio(constraint=mvrc.Box(0, 0.01)).fit(returns).weights_
    assert weights.min() >= 0 and weights.max() <= 0.01


# --- wrong input --------------------------------------------------------------------------------


def with_nan(R):
    R = R.copy()
    R[3, 1] = np.nan
    return R


def constant(R):
    R = R.copy()
    R[:, 2] = 0.1
    return R


@pytest.mark.parametrize(
    "fit", [lambda R: MeanVariancePortfolio().fit(R), mean_variance, mean_cvar]
)
@pytest.mark.parametrize(
    "change, words",
    [
        (with_nan, "returns has 1 missing values (NaN or inf) on 1 of 600 days, in column 1;"),
        (lambda R: R[:, :1], "returns must have at least two assets, and has n_features = 1."),
        (constant, "returns has column 2 with the same return every day"),
        (lambda R: R[:1], "n_samples = 1"),
    ],
)
def test_wrong_returns(fit, change, words, returns):
    with pytest.raises(ValueError) as error:
        fit(change(returns))
    message = str(error.value)
    assert words in message or ("n_samples = 1" in words and "1 sample" in message)
    assert "\n" not in message


@pytest.mark.parametrize(
    "options, words",
    [
        ({"risk_aversion": -1}, "risk_aversion must be a finite number of at least 0, not -1."),
        ({"l1": "a"}, "l1 must be a finite number of at least 0, not 'a'."),
        ({"constraint": 3}, "constraint must be a regulariser such as mvrc.Simplex()"),
        ({"method": "cvir"}, "did you mean 'civr'?"),
        ({"tol": 0}, "tol must be a positive number, not 0."),
        ({"max_epochs": 1.5}, "max_epochs must be an integer of at least 0, not 1.5."),
        (
            {"constraint": mvrc.L2Ball(1.0)},
            "constraint L2Ball has no prox together with l1 = 0.01;",
        ),
        ({"constraint": mvrc.Simplex(upper=0.1)}, "upper of Simplex must be at least 0.2, as the"),
    ],
)
def test_wrong_options(options, words, returns):
    with pytest.raises((ValueError, TypeError)) as error:
        MeanVariancePortfolio(**options).fit(returns)
    assert str(error.value).startswith(words) or "did you mean" in words


def test_wrong_numbers_of_the_other_risks(returns):
    for risk in (mean_cvar, mean_semideviation):
        with pytest.raises(
            TypeError, match="such as mvrc.Simplex.. or mvrc.Simplex.upper=0.2., or"
        ):
            risk(returns, constraint=3)
    with pytest.raises(ValueError, match="order must be 1 or 2, not 3."):
        mean_semideviation(returns, order=3)
    with pytest.raises(ValueError, match="beta must lie strictly between 0 and 1, not 1."):
        mean_cvar(returns, beta=1)
    with pytest.raises(ValueError, match="smoothing must be a positive number, not 0."):
        mean_cvar(returns, smoothing=0)


def test_words_for_a_constraint_and_units():
    """Long only is the default and a simplex; fractions are recognised, and prices."""
    rng = np.random.default_rng(0)
    percent = 0.05 + rng.standard_normal((300, 4))
    with pytest.raises(ValueError, match="constraint must be 'long-only' .*, not 'long'"):
        MeanVariancePortfolio(constraint="long").fit(percent)
    with pytest.raises(ValueError, match="units must be 'auto' or 'percent' or 'fraction'"):
        MeanVariancePortfolio(units="per cent").fit(percent)
    model = MeanVariancePortfolio().fit(percent)
    small = MeanVariancePortfolio().fit(percent / 100)
    assert (model.units_, small.units_) == ("percent", "fraction")
    np.testing.assert_allclose(small.weights_, model.weights_, atol=1e-8)
    np.testing.assert_allclose(
        small.predict(percent / 100), model.predict(percent) / 100, atol=1e-9
    )
    assert small.score(percent / 100) == pytest.approx(model.score(percent), rel=1e-8)
    assert model.weights_.min() >= 0 and model.weights_.sum() == pytest.approx(1)
    with pytest.warns(UserWarning, match="All returns are positive, as prices"):
        MeanVariancePortfolio(constraint="simplex").fit(100 + percent)


# --- limits, costs, objectives: against a conic solver --------------------------------------------

ASSETS = ("A", "B", "C", "D", "E")
HELD = {"A": 0.5, "B": 0.5}
LIMITS = {
    "caps": {"upper": 0.3},
    "short": {"lower": {"A": -0.2, "C": -0.1}, "upper": 0.6},
    "all": {
        "upper": [0.5, 0.3, 0.4, 0.5, 0.5],
        "groups": {"first": (["A", "B"], 0.2, 0.5), "late": (["C", "D"], None, 0.55)},
        "least_return": 0.05, "previous": HELD, "costs": 0.01,
    },
    "cash": {"upper": 0.4, "cash": 0.02},
}  # fmt: skip
MODELS = {
    "variance": MeanVariancePortfolio(0.3, l1=0.0),
    "cvar": MeanCVaRPortfolio(0.3),
    "semideviation": MeanSemideviationPortfolio(0.5),
    "entropic": EntropicPortfolio(0.7, theta=0.5),
    "evar": MeanEVaRPortfolio(0.3),
}


@pytest.fixture(scope="module")
def frame(returns):
    return pytest.importorskip("pandas").DataFrame(returns[:400] + 0.02, columns=list(ASSETS))


def by_cvxpy(cvxpy, kind, R, limits, objective):
    """The least value of the same problem, smoothed alike, and its weights."""
    cash, (n, d) = limits.get("cash"), R.shape
    x = cvxpy.Variable(d)
    lower = [limits.get("lower", {}).get(a, 0.0) for a in ASSETS]
    rules = [x >= lower, x <= limits["upper"]]
    rules += [cvxpy.sum(x) <= 1 if cash is not None else cvxpy.sum(x) == 1]
    for members, low, high in limits.get("groups", {}).values():
        share = cvxpy.sum(x[[ASSETS.index(a) for a in members]])
        rules += [share >= (low or 0)] * (low is not None) + [share <= high] * (high is not None)
    if "least_return" in limits:
        rules.append(R.mean(axis=0) @ x >= limits["least_return"])
    held = np.array([limits.get("previous", {}).get(a, 0.0) for a in ASSETS])
    cost = limits.get("costs", 0.0) * cvxpy.norm1(x - held)
    R = R - (cash or 0.0)
    earned, mean, width = R @ x, R.mean(axis=0), 0.05 * np.median(R.std(axis=0))
    t, z = cvxpy.Variable(), cvxpy.Variable(nonneg=True)
    if kind == "variance":
        kappa, risk = 0.3, cvxpy.sum_squares((R - mean) @ x) / n
    elif kind == "semideviation":
        kappa, risk = 0.5, cvxpy.norm(cvxpy.pos((mean - R) @ x)) / np.sqrt(n)
    elif kind == "entropic":
        kappa, risk = 0.7, (cvxpy.log_sum_exp(-0.5 * earned) - np.log(n)) / 0.5
    elif kind == "evar":
        u = cvxpy.Variable(n)
        rules += [cvxpy.sum(u) <= z, cvxpy.ExpCone(-earned - t, z * np.ones(n), u)]
        kappa, risk = 0.3, t - z * np.log(n * 0.05)
    else:
        p = cvxpy.Variable(n, nonneg=True)  # the smoothed kink is min over p of p + (·)₊²/2μ
        over = cvxpy.square(cvxpy.pos(-earned - t + width / 2 - p)) / (2 * width) + p
        kappa, risk = 0.3, t + cvxpy.sum(over) / n / 0.05
    goal = risk if objective == "risk" else -mean @ x + kappa * risk
    problem = cvxpy.Problem(cvxpy.Minimize(goal + cost), rules)
    accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    problem.solve(solver="CLARABEL", **accuracy)
    return problem.value, x.value


CASES = [(kind, "all", "utility") for kind in MODELS]
CASES += [("variance", name, "utility") for name in ("caps", "short", "cash")]
CASES += [("variance", "all", "risk"), ("evar", "caps", "risk"), ("entropic", "cash", "utility")]


@pytest.mark.parametrize("kind, name, objective", CASES, ids="-".join)
def test_limits_reach_the_optimum_of_clarabel(kind, name, objective, frame):
    cvxpy = pytest.importorskip("cvxpy")
    model = clone(MODELS[kind]).set_params(constraint=Limits(**LIMITS[name]), objective=objective)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(frame)
    best, weights = by_cvxpy(cvxpy, kind, frame.to_numpy(), LIMITS[name], objective)
    assert abs(model.objective_ - best) <= 1e-6 * abs(best)
    np.testing.assert_allclose(model.weights_, weights, atol=1e-4)
    if name == "cash":
        assert model.cash_ == pytest.approx(1 - model.weights_.sum()) and model.cash_ >= -1e-12
        earned = frame.to_numpy() @ model.weights_ + model.cash_ * 0.02
        np.testing.assert_allclose(model.predict(frame), earned, rtol=1e-12)


def test_the_largest_sharpe_ratio(frame):
    """max m'x/√(x'Cx) over Σx = 1, 0 ≤ x ≤ 0.6 is min y'Cy over m'y = 1, 0 ≤ y ≤ 0.6 Σy."""
    cvxpy = pytest.importorskip("cvxpy")
    R = frame.to_numpy()
    model = MeanVariancePortfolio(objective="ratio", constraint=Limits(upper=0.6)).fit(frame)
    y = cvxpy.Variable(5, nonneg=True)
    mean, centred = R.mean(axis=0), R - R.mean(axis=0)
    rules = [mean @ y == 1, y <= 0.6 * cvxpy.sum(y)]
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(centred @ y)), rules).solve(solver="CLARABEL")
    x = y.value / y.value.sum()
    best = mean @ x / np.std(R @ x)
    assert model.score(frame) >= best * (1 - 1e-6)
    assert -model.objective_ == pytest.approx(model.score(frame), rel=1e-9)
    with pytest.raises(ValueError, match="objective 'ratio' needs weights with a positive mean"):
        MeanVariancePortfolio(objective="ratio").fit(frame - 5)
    with pytest.raises(ValueError, match="objective 'ratio' needs a constraint that fixes"):
        MeanVariancePortfolio(objective="ratio", constraint=None).fit(frame)


@pytest.mark.parametrize("kind", ["variance", "cvar", "semideviation"])
def test_weights_of_scenarios_are_repetitions(kind, frame):
    """A day of weight 2 is two days, one of weight 0 none."""
    weights = np.random.default_rng(0).integers(0, 3, len(frame)).astype(float)
    R = frame.to_numpy()
    model = clone(MODELS[kind]).fit(R, sample_weight=weights)
    twice = clone(MODELS[kind]).fit(np.repeat(R, weights.astype(int), axis=0))
    np.testing.assert_allclose(model.weights_, twice.weights_, atol=2e-6)
    assert model.objective_ == pytest.approx(twice.objective_, rel=1e-8)
    with pytest.raises(ValueError, match="sample_weight must be 400 numbers of at least 0"):
        clone(model).fit(R, sample_weight=-weights)


@pytest.mark.parametrize(
    "limits, sentence",
    [
        (
            {"upper": 0.1},
            "budget of Limits, in .1, 1., cannot be met together with lower",
        ),
        ({"lower": 0.5, "upper": 0.2}, "at most upper, and for A they are 0.5 and 0.2."),
        ({"upper": {"Z": 1}}, "upper of Limits names 'Z'.*; the assets are A, B, C, D, E."),
        ({"upper": [1, 2]}, "upper of Limits must be a number, 5 numbers .* not .1, 2.."),
        ({"groups": {"x": ("A", 0.5)}}, r"groups\['x'\] of Limits must be .assets, least, most."),
        (
            {"groups": {"x": (["A"], 0.8, 1)}, "upper": 0.5},
            r"groups\['x'\] of Limits, in",
        ),
        ({"least_return": 9.0}, "least_return .* cannot be met together with lower and upper"),
        ({"costs": 0.1}, "costs of Limits need previous"),
        ({"costs": -0.1}, "costs of Limits must be at least 0, not -0.1."),
        ({"budget": (1, 0)}, "budget of Limits must be a number or a pair .least, most."),
    ],
    ids=str,
)
def test_limits_that_cannot_be_met(limits, sentence, frame):
    with pytest.raises(ValueError, match=sentence):
        MeanVariancePortfolio(constraint=Limits(**limits)).fit(frame)


@pytest.mark.parametrize("model", NEW)
def test_entropic_risks_score_as_they_minimise(model, returns):
    fitted = model().fit(returns)
    assert -fitted.score(returns) == pytest.approx(fitted.objective_, rel=1e-7)
    problem = mean_evar if model is MeanEVaRPortfolio else mean_entropic
    assert problem(returns).check(fitted.result_.x).ok


# --- skfolio ------------------------------------------------------------------------------------


def test_skfolio_takes_the_estimators():
    """cross_val_predict, a Population, a pipeline and a search, on fractions."""
    skfolio = pytest.importorskip("skfolio")
    pandas = pytest.importorskip("pandas")
    from skfolio import Population
    from skfolio.model_selection import WalkForward, cross_val_predict
    from skfolio.optimization import MeanRisk
    from skfolio.pre_selection import SelectKExtremes

    from mvrc.applications import ForSkfolio

    data = datasets.sp500(days=500)
    index = pandas.bdate_range("2020-01-01", periods=500)
    X = pandas.DataFrame(data.values / 100, columns=list(data.assets), index=index)
    ours = ForSkfolio(MeanVariancePortfolio(objective="risk"), portfolio_params={"name": "mvrc"})
    folds = WalkForward(train_size=200, test_size=100)
    predicted = cross_val_predict(ours, X, cv=folds)
    theirs = cross_val_predict(MeanRisk(), X, cv=folds)
    for a, b in zip(predicted.portfolios, theirs.portfolios, strict=True):
        np.testing.assert_allclose(a.weights, b.weights, atol=5e-4)
    assert predicted.variance == pytest.approx(theirs.variance, rel=1e-3)
    assert len(Population([predicted, theirs]).summary().columns) == 2
    pipe = make_pipeline(SelectKExtremes(k=8), clone(ours))
    assert isinstance(pipe.fit(X).predict(X), skfolio.Portfolio)
    grid = {"estimator__objective": ["risk", "utility"]}
    search = GridSearchCV(clone(ours), grid, cv=folds).fit(X)
    assert np.isfinite(search.best_score_) and search.best_estimator_.fit(X).weights_.shape == (20,)
    with pytest.raises(TypeError, match="estimator must be of class Portfolio, not 3"):
        ForSkfolio(3).fit(X)
