"""The projected Bellman residual: its minimum is LSTD's, and one successor for each state is
enough."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import scipy.sparse

import mvrc
from mvrc.applications.bellman import bellman_projected, bellman_transitions, lstd, lstd_transitions

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402

from mvrc.applications import LinearValueFunction  # noqa: E402

GAMMA = 0.9


@pytest.fixture(autouse=True)
def _no_warnings():
    """Nothing here warns unless it is expected to."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def transitions(n=300, d=4, seed=0):
    """A walk with noise on the line, where no state comes twice: φ, r, φ' and ends."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(-1, 1, n)
    following = np.clip(place + 0.3 * rng.standard_normal(n), -1, 1)
    centres = np.linspace(-1, 1, d - 1)

    def features(s):
        return np.column_stack([np.ones(n), np.exp(-4 * (s[:, None] - centres) ** 2)])

    return features(place), (place > 0.5) + 0.1 * place, features(following), following > 0.95


def moments(features, rewards, following, terminal, gamma=GAMMA):
    """A = E[φ(φ − γφ')ᵀ], c = E[φr] and C = E[φφᵀ], in plain NumPy."""
    n = len(features)
    change = features - gamma * np.where(terminal[:, None], 0, following)
    return features.T @ change / n, features.T @ rewards / n, features.T @ features / n


def relative(found, exact):
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


# --- The problem ---


def test_the_objective_is_the_projected_residual():
    data = transitions()
    A, c, C = moments(*data)
    problem = bellman_projected(*data[:3], GAMMA, terminal=data[3])
    assert problem.kind == "Σ¹"
    for w in np.random.default_rng(1).standard_normal((3, 4)):
        b = A @ w - c
        assert problem.objective(w) == pytest.approx(b @ np.linalg.solve(C, b) / 2, rel=1e-9)
        gradient = A.T @ np.linalg.solve(C, b)
        assert relative(problem.gradient(w), gradient) < 1e-9
    assert problem.check(w)


def test_its_minimum_is_lstd():
    data = transitions()
    A, c, _ = moments(*data)
    exact = np.linalg.solve(A, c)
    assert relative(lstd_transitions(*data[:3], GAMMA, data[3]), exact) < 1e-10
    problem = bellman_projected(*data[:3], GAMMA, data[3])
    result = mvrc.minimize(problem, np.zeros(4), rtol=1e-11)
    assert relative(result.x, exact) < 1e-8
    fitted = LinearValueFunction(gamma=GAMMA, tol=1e-11)
    fitted.fit(*data[:2], next_features=data[2], terminal=data[3])
    assert fitted.residual_ == "projected"
    assert relative(fitted.coef_, exact) < 1e-8


def test_with_a_feature_for_each_state_it_is_half_the_plain_one():
    """All residuals are seen by such features, so the projection takes nothing away."""
    rng = np.random.default_rng(0)
    states, following = rng.integers(5, size=(2, 200))
    gains, table = rng.random(200), np.eye(5)
    plain = bellman_transitions(states, gains, following, table, GAMMA)
    problem = bellman_projected(table[states], gains, table[following], GAMMA)
    for w in rng.standard_normal((2, 5)):
        assert 2 * problem.objective(w) == pytest.approx(plain.objective(w), rel=1e-10)


def test_float32_stays_float32():
    data = transitions()
    A, c, _ = moments(*data)
    features, rewards, following = (a.astype(np.float32) for a in data[:3])
    problem = bellman_projected(features, rewards, following, GAMMA, data[3])
    assert {a.dtype for a in problem.inner_data.values()} == {np.dtype(np.float32)}
    result = mvrc.minimize(problem, np.zeros(4, np.float32), epochs=500)
    assert result.x.dtype == np.float32
    assert relative(features @ result.x, features @ np.linalg.solve(A, c)) < 1e-3


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (0, np.ones(3), "features must be S × d not of shape (3,)"),
        (0, scipy.sparse.csr_array(np.eye(3)), "features is a sparse matrix; give it as an array"),
        (1, [1.0], "rewards must have the shape (3,)"),
        (2, np.ones((3, 2)), "next_features must have the shape of features, (3, 3), not (3, 2)"),
        (2, np.ones(3), "next_features must be S × d"),
        (3, 1.0, "gamma must lie in [0, 1), not 1.0"),
        (4, [True], "terminal must be 3 booleans"),
    ],
)
def test_wrong_transitions(place, value, sentence):
    arguments = [np.eye(3), np.ones(3), np.eye(3), 0.9, None]
    arguments[place] = value
    with pytest.raises(ValueError, match=re.escape(sentence)):
        bellman_projected(*arguments)


# --- Features of every kind ---


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dependent_features_do_no_harm(dtype):
    """A column twice, a sum of two, a multiple of the constant and zeros: the values are those of
    the independent columns, and no weight is large because of rounding."""
    features, rewards, following, terminal = transitions()
    features, following = features.astype(dtype), following.astype(dtype)
    w = lstd_transitions(features, rewards, following, GAMMA, terminal)

    def more(phi):
        extra = [phi[:, 1], phi[:, 2] + phi[:, 3], phi[:, 0] / 3, 0 * phi[:, 0]]
        return np.column_stack([phi, *extra])

    fitted = LinearValueFunction(gamma=GAMMA, tol=1e-11)
    fitted.fit(more(features), rewards, next_features=more(following), terminal=terminal)
    assert fitted.result_.x.shape == (4,), "the rank"
    tolerance = 1e-8 if dtype is np.float64 else 1e-4
    assert relative(fitted.predict(more(features)), features @ w) < tolerance
    size = np.sqrt(np.mean(more(features) ** 2, axis=0))
    assert np.linalg.norm(size * fitted.coef_) < np.linalg.norm(size[:4] * w), "of least norm"
    problem = bellman_projected(more(features), rewards, more(following), GAMMA, terminal)
    assert problem.inner_data["white"].shape == (300, 4)


def test_badly_scaled_features():
    features, rewards, following, terminal = transitions()
    exact = features @ lstd_transitions(features, rewards, following, GAMMA, terminal)
    scale = 10.0 ** np.array([-12, -3, 0, 12])
    fitted = LinearValueFunction(gamma=GAMMA, tol=1e-11)
    fitted.fit(features * scale, rewards, next_features=following * scale, terminal=terminal)
    assert relative(fitted.predict(features * scale), exact) < 1e-8


def test_a_state_that_is_only_entered_has_the_value_0():
    """Nothing is known of it; a fit of least residuals would spread its predecessor's reward."""
    fitted = LinearValueFunction(gamma=GAMMA)
    fitted.fit(np.eye(3)[[0, 1]], [1.0, 2.0], next_features=np.eye(3)[[1, 2]])
    assert fitted.coef_ == pytest.approx([1 + 2 * GAMMA, 2, 0], abs=1e-6)


def test_small_and_empty_data():
    fitted = LinearValueFunction(gamma=GAMMA).fit(np.zeros((3, 2)), [1.0, 2.0, 3.0])
    assert np.array_equal(fitted.coef_, [0, 0])
    fitted = LinearValueFunction(gamma=GAMMA).fit([[1.0, 0.0], [2.0, 1.0]], [3.0, 0.0])
    assert fitted.predict([[1.0, 0.0]]) - GAMMA * fitted.predict([[2.0, 1.0]]) == pytest.approx(3.0)


def test_episodes_end():
    """Three steps with rewards 1 to an end, twice, with noise in a feature that means nothing."""
    noise = np.random.default_rng(0).standard_normal(600)
    place = np.tile([0, 1, 2], 200)
    rows = np.column_stack([np.eye(3)[place], noise])
    fitted = LinearValueFunction(gamma=GAMMA).fit(rows, np.ones(600), terminal=place == 2)
    assert fitted.residual_ == "projected"
    exact = [1 + GAMMA + GAMMA**2, 1 + GAMMA, 1, 0]
    assert fitted.coef_ == pytest.approx(exact, abs=0.1)
    assert fitted.coef_ == pytest.approx(
        lstd_transitions(rows, np.ones(600), np.roll(rows, -1, axis=0), GAMMA, place == 2), abs=1e-6
    )


@pytest.mark.parametrize("gamma", [0.0, 0.999])
def test_discounts_at_the_ends(gamma):
    """At 0 regression on the rewards, by the plain residual: no next value is there to vary."""
    features, rewards, following, terminal = transitions()
    fitted = LinearValueFunction(gamma=gamma, tol=1e-11)
    fitted.fit(features, rewards, next_features=following, terminal=terminal)
    assert fitted.residual_ == ("plain" if gamma == 0 else "projected")
    w = lstd_transitions(features, rewards, following, gamma, terminal)
    assert relative(fitted.predict(features), features @ w) < 1e-6


def test_l1_meets_its_optimality_conditions():
    """0 ∈ ∇F(w) + λ∂‖w‖₁, with ∇F = AᵀC⁻¹(Aw − c) in plain NumPy."""
    data, weight = transitions(d=8), 0.01
    A, c, C = moments(*data)
    fitted = LinearValueFunction(gamma=GAMMA, regularizer=mvrc.L1(weight), tol=1e-9)
    w = fitted.fit(data[0], data[1], next_features=data[2], terminal=data[3]).coef_
    gradient = A.T @ np.linalg.solve(C, A @ w - c)
    assert 0 < np.count_nonzero(w) < 8
    assert gradient[w != 0] == pytest.approx(-weight * np.sign(w[w != 0]), abs=1e-6)
    assert np.all(np.abs(gradient) <= weight + 1e-6)


# --- What the estimator chooses ---


def test_the_choice_is_made_by_the_successors_and_said():
    features, rewards, following, _ = transitions(n=80)
    model = LinearValueFunction(gamma=GAMMA).fit(features, rewards, next_features=following)
    assert model.residual_ == "projected"
    assert "80 transitions start from 80 different states (1 per state on average)" in (
        model.result_.explain()
    )
    states = np.arange(80) % 4
    model.fit(np.eye(4)[states], rewards, next_features=np.eye(4)[states[::-1]])
    assert model.residual_ == "plain"
    assert "The plain Bellman residual is minimised: the 80 transitions start from 4 different" in (
        model.result_.explain()
    )
    model.set_params(residual="projected").fit(np.eye(4)[states], rewards)
    assert model.residual_ == "projected"
    assert "projected" not in model.result_.explain(), "there was nothing to choose"


def test_the_plain_residual_warns_of_its_bias():
    features, rewards, following, _ = transitions(n=80)
    model = LinearValueFunction(gamma=GAMMA, residual="plain")
    with pytest.warns(UserWarning, match="biased where steps are random: the 80 transitions"):
        model.fit(features, rewards, next_features=following)
    assert model.residual_ == "plain"
    change = features - GAMMA * following
    assert relative(model.coef_, np.linalg.lstsq(change, rewards)[0]) < 1e-5
    states = np.arange(80)
    with pytest.warns(UserWarning, match="bellman_projected"):
        bellman_transitions(states, rewards, np.roll(states, 1), features, GAMMA)
    # Without a next value that could vary there is no bias, and no warning.
    model.fit(features, rewards, next_features=following, terminal=np.ones(80))
    model.set_params(gamma=0.0).fit(features, rewards, next_features=following)


def test_known_chains_have_both():
    rng = np.random.default_rng(0)
    transition = rng.random((12, 12))
    transition /= transition.sum(axis=1, keepdims=True)
    features, rewards = rng.random((12, 3)), rng.random((12, 12))
    model = LinearValueFunction(gamma=GAMMA, tol=1e-11)
    assert model.fit(features, rewards, transition=transition).residual_ == "plain"
    model.set_params(residual="projected").fit(features, rewards, transition=transition)
    assert relative(model.coef_, lstd(transition, rewards, features, GAMMA)) < 1e-8


def test_the_score_is_minus_what_was_minimised():
    data = transitions()
    regularized = LinearValueFunction(gamma=GAMMA, regularizer=mvrc.L1(0.1))
    for model in (LinearValueFunction(gamma=GAMMA), regularized):
        more = {"next_features": data[2], "terminal": data[3]}
        model.fit(*data[:2], **more)
        penalty = 0.1 * np.abs(model.coef_).sum() if model.regularizer else 0
        score = model.score(*data[:2], **more)
        assert -score == pytest.approx(model.objective_ - penalty, rel=1e-8, abs=1e-12)


def test_scikit_learn_conventions():
    model = LinearValueFunction(residual="projected")
    assert clone(model).get_params()["residual"] == "projected"
    assert LinearValueFunction().residual == "auto"
    with pytest.raises(ValueError, match="residual must be 'auto' or 'plain' or 'projected', not"):
        LinearValueFunction(residual="lstd").fit(np.eye(3), np.ones(3))
    with pytest.raises(TypeError, match="[Ss]parse"):
        model.fit(scipy.sparse.csr_array(np.eye(3)), np.ones(3))


# --- CartPole ---


def cart_pole(n, gamma):
    """n transitions under random actions, ends, and the mean of the discounted returns."""
    gymnasium = pytest.importorskip("gymnasium")
    env, rng = gymnasium.make("CartPole-v1"), np.random.default_rng(0)
    rows, following, terminal, lengths = [], [], [], [0]
    state, _ = env.reset(seed=0)
    while len(rows) < n or lengths[-1]:  # to the end of an episode
        after, _, ended, _, _ = env.step(int(rng.integers(2)))  # none lasts for 500 steps
        rows.append(state)
        following.append(after)
        terminal.append(ended)
        lengths[-1] += 1
        state = after
        if ended:
            lengths.append(0)
            state, _ = env.reset()
    left = np.concatenate([np.arange(k, 0, -1) for k in lengths])
    returns = (1 - gamma**left) / (1 - gamma)  # a reward of 1 for each step
    return np.array(rows), np.array(following), np.array(terminal), returns


def test_cart_pole():
    """Observations never repeat, actions are random: the plain residual halves the values."""
    gamma = 0.95
    rows, following, terminal, returns = cart_pole(2500, gamma)
    rng = np.random.default_rng(1)
    centres = rows[rng.choice(len(rows), 50, replace=False)]
    width = rows.std(axis=0) / 2

    def features(s):
        return np.exp(-(((s[:, None] - centres) / width) ** 2).sum(axis=2) / 2)

    phi, following, rewards = features(rows), features(following), np.ones(len(rows))
    w = lstd_transitions(phi, rewards, following, gamma, terminal)
    arguments = {"next_features": following, "terminal": terminal}
    fitted = LinearValueFunction(gamma=gamma).fit(phi, rewards, **arguments)
    with pytest.warns(UserWarning, match="biased"):
        plain = LinearValueFunction(gamma=gamma, residual="plain").fit(phi, rewards, **arguments)
    assert fitted.residual_ == "projected"
    assert fitted.result_.status is mvrc.Status.CONVERGED
    values = fitted.predict(phi)
    assert relative(values, phi @ w) < 1e-6
    error, biased = (np.abs(m.predict(phi).mean() - returns.mean()) for m in (fitted, plain))
    assert error < biased / 2
