"""Losses and applications with a mean of its own for every outer sample, against all pairs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mvrc
from mvrc import losses
from mvrc.applications import (
    AveragePrecisionClassifier,
    bellman,
    bellman_coupled,
    bellman_simulator,
    neighbor_embedding,
    neighbor_embedding_coupled,
)
from mvrc.applications.bellman import table_simulator

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((40, 3))
LABELS = (ROWS @ [1.0, 0.5, 0.0] + RNG.standard_normal(40) > 1).astype(int)
X0 = np.array([0.4, -0.2, 0.7])


def score(x: Any, row: Any) -> Any:
    return row @ x


def embed(x: Any, row: Any) -> Any:
    return jnp.tanh(x @ row)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_are_those_of_all_pairs(dtype: Any) -> None:
    rows, x0 = ROWS.astype(dtype), X0.astype(dtype)
    close = {"rel": 1e-12 if dtype == np.float64 else 2e-5}
    ap = losses.average_precision(score, rows, LABELS, 0.8)
    assert ap.objective(x0) == pytest.approx(
        losses.average_precision_value(ROWS @ X0, LABELS, 0.8), **close
    )
    for negatives in (1, 3, 50):
        given = losses.average_precision(score, rows, LABELS, 0.8, negatives=negatives)
        assert given.objective(x0) == pytest.approx(
            losses.average_precision_value(ROWS @ X0, LABELS, 0.8, negatives), **close
        )
        assert given.check(x0)
    for temperature in (0.1, 1.0):
        pauc = losses.partial_auc(score, rows, LABELS, temperature)
        assert pauc.objective(x0) == pytest.approx(
            losses.partial_auc_value(ROWS @ X0, LABELS, temperature), **close
        )
    matrix = RNG.standard_normal((2, 3)).astype(dtype)
    problem = losses.contrastive(embed, rows[:20], rows[20:], 0.3)
    z = np.tanh(rows.astype(float) @ matrix.T.astype(float))
    assert problem.objective(matrix) == pytest.approx(losses.contrastive_value(z, 0.3), **close)
    for given, at in ((ap, x0), (pauc, x0), (problem, matrix)):
        assert given.check(at)


def test_extreme_scores_stay_finite() -> None:
    """In float32, with scores of ±10⁴."""
    x = np.full(3, 1e4, np.float32)
    rows = ROWS.astype(np.float32)
    for given in (
        losses.average_precision(score, rows, LABELS),
        losses.partial_auc(score, rows, LABELS, 0.05),
    ):
        assert np.isfinite(given.objective(x))
        assert np.all(np.isfinite(np.asarray(given.gradient(x))))


@pytest.mark.parametrize("make", [losses.average_precision, losses.partial_auc])
def test_labels_that_do_not_fit_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="labels must be 0 and 1"):
        make(score, ROWS, np.zeros(40))
    with pytest.raises(ValueError, match="features has .* rows and labels has 39"):
        make(score, ROWS, LABELS[:39])


def chain(states: int = 12) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    transition = rng.uniform(size=(states, states))
    transition /= transition.sum(axis=1, keepdims=True)
    return transition, rng.standard_normal((states, states)), rng.standard_normal((states, 4))


def test_the_bellman_residual_is_the_exact_one() -> None:
    transition, rewards, features = chain()
    coupled = bellman_coupled(transition, rewards, features, 0.9)
    plain = bellman(transition, rewards, features, 0.9)
    w = np.arange(4.0) / 3
    assert coupled.objective(w) == pytest.approx(plain.objective(w), rel=1e-12)
    first, second = mvrc.minimize(coupled, w), mvrc.minimize(plain, w)
    np.testing.assert_allclose(first.x, second.x, rtol=1e-7)


def test_steps_that_are_drawn_given_the_state_have_no_double_sampling_bias() -> None:
    """With one step per state the square of a step is minimised, and w is elsewhere."""
    transition, rewards, features = chain()
    simulate = table_simulator(transition, rewards)
    target = mvrc.minimize(bellman(transition, rewards, features, 0.9), np.zeros(4)).x
    problem = bellman_simulator(simulate, features, 0.9, inner_batch=1, evaluation_size=20)
    found = {}
    for name, method in {
        "plug-in": mvrc.BSGD(0.03, batch_size=6, period=400),
        "sox": mvrc.SOX(0.003, weight=0.05, gradient_weight=0.2, batch_size=6, period=4000),
    }.items():
        runs = mvrc.minimize_many(problem, np.zeros(4), method, seeds=4, epochs=15, record_every=15)
        found[name] = np.linalg.norm(np.mean([run.x for run in runs], axis=0) - target)
    assert found["sox"] < 0.4 * found["plug-in"]


@pytest.mark.parametrize("kernel", ["gaussian", "student"])
def test_the_embedding_is_that_of_all_pairs(kernel: str) -> None:
    points = RNG.standard_normal((30, 5))
    x = RNG.standard_normal((30, 2))
    problem = neighbor_embedding_coupled(points, 5.0, kernel=kernel, inner_batch=6)
    if kernel == "gaussian":
        plain = neighbor_embedding(points, 5.0)
        assert problem.objective(x) == pytest.approx(30 * plain.objective(x), rel=1e-10)
        np.testing.assert_allclose(problem.gradient(x), 30 * plain.gradient(x), rtol=1e-8)
    assert problem.check(x)
    far = mvrc.minimize(problem, 100 * x, epochs=3)
    assert np.isfinite(far.objective)


def test_average_precision_of_a_rare_class() -> None:
    """On held-out rows of scikit-learn's breast cancer, with few positives, at least logistic
    regression's."""
    features, labels = load_breast_cancer(return_X_y=True)
    labels = 1 - labels
    rng = np.random.default_rng(1)
    positives = rng.choice(np.flatnonzero(labels), 60, replace=False)
    rows = np.concatenate([np.flatnonzero(labels == 0), positives])
    rng.shuffle(rows)
    half = len(rows) // 2
    train, test = rows[:half], rows[half:]
    found = []
    for model in (AveragePrecisionClassifier(alpha=0.01), LogisticRegression(max_iter=1000)):
        fitted = make_pipeline(StandardScaler(), model).fit(features[train], labels[train])
        scores = fitted.decision_function(features[test])
        found.append(average_precision_score(labels[test], scores))
    assert found[0] > 0.95
    assert found[0] > found[1] - 0.02


@parametrize_with_checks([AveragePrecisionClassifier(max_epochs=50)])
@pytest.mark.one_in(4)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_a_network_that_ranks_and_one_that_embeds() -> None:
    """Batches of a network's samples are passed through it once, not once for each pair."""
    import equinox as eqx

    rows = ROWS.astype(np.float32)
    model = eqx.nn.MLP(3, 1, 16, 1, key=jax.random.key(0))
    problem = losses.average_precision(lambda m, a: m(a)[0], rows, LABELS, inner_batch=10)
    result = mvrc.minimize(problem, model, "sox", epochs=20)
    assert result.objective < result.history["objective"][0]
    encoder = eqx.nn.MLP(3, 4, 16, 1, key=jax.random.key(1))
    noisy = rows + 0.05 * RNG.standard_normal(rows.shape).astype(np.float32)
    problem = losses.contrastive(lambda m, a: m(a), rows, noisy, 0.5, inner_batch=16)
    result = mvrc.minimize(problem, encoder, "msvr", epochs=10)
    assert result.objective < result.history["objective"][0]
