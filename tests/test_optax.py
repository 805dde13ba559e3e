"""Optimisers of Optax as schemes: their own numbers, on x's own tree, with every estimator."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mvrc
from mvrc import estimators
from mvrc.estimators import Exact

ROWS = np.random.default_rng(0).standard_normal((300, 6)).astype("f")


def inner(x, row):
    return jnp.stack([row @ x["a"] - 0.3, (row @ x["a"]) ** 2 + x["b"] ** 2])


def outer(y):
    return -y[0] + 0.5 * (y[1] - y[0] ** 2) + y[1] ** 2


X0 = {"a": np.full(6, 0.1, "f"), "b": np.float32(0.3)}
PROBLEM = mvrc.Composition(inner, outer, ROWS)


def whole(x):
    return outer(jax.vmap(inner, (None, 0))(x, ROWS).mean(0))


OPTIMIZERS = {
    "adamw": optax.adamw(1e-2),
    "sgd, falling": optax.sgd(optax.exponential_decay(0.1, 10, 0.5), momentum=0.9),
    "by part": optax.multi_transform(
        {"fast": optax.adam(1e-2), "still": optax.set_to_zero()}, {"a": "fast", "b": "still"}
    ),
    "clipped": optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(0.1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_on_exact_gradients_it_is_the_optimiser_alone(name):
    optimizer = OPTIMIZERS[name]
    method = mvrc.Method(Exact(), mvrc.OptaxScheme(optimizer), period=15)
    result = mvrc.minimize(PROBLEM, X0, method, epochs=2)
    x = jax.tree_util.tree_map(jnp.asarray, X0)
    state = optimizer.init(x)
    for _ in range(30):
        updates, state = optimizer.update(jax.grad(whole)(x), state, x)
        x = optax.apply_updates(x, updates)
    for key in x:
        assert np.allclose(result.x[key], x[key], rtol=1e-4, atol=1e-5)
    if name == "by part":
        assert result.x["b"] == X0["b"]


@pytest.mark.parametrize(
    "estimator",
    [
        estimators.Ema(mvrc.Power(0.1)), estimators.Scsc(mvrc.Power(0.1)),
        estimators.Storm(mvrc.Power(0.1)), estimators.Nasa(mvrc.Power(1.0), 0.2, 0.2),
        estimators.Spider(), estimators.Svrg(), estimators.Saga(), estimators.Sarah(),
    ],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_every_estimator_with_adam(estimator):
    method = mvrc.Method(estimator, mvrc.OptaxScheme(optax.adam(1e-2)), mvrc.Sizes(32), period=30)
    result = mvrc.minimize(PROBLEM, X0, method, epochs=10)
    assert result.objective < PROBLEM.objective(X0) - 0.05


def test_the_short_form_and_its_resumption(tmp_path):
    optimizer = optax.adam(1e-2)
    straight = mvrc.minimize(PROBLEM, X0, optimizer, epochs=6)
    half = mvrc.minimize(PROBLEM, X0, optimizer, epochs=3)
    rest = mvrc.minimize(PROBLEM, X0, optimizer, epochs=6, resume=half)
    assert straight.counts.inner_values == 256 * (1 + 2 * 6)  # a first batch, two steps an epoch
    for key in X0:
        assert np.array_equal(straight.x[key], rest.x[key])
    many = mvrc.minimize_many(PROBLEM, X0, optimizer, seeds=2, epochs=6)
    assert np.allclose(many[0].x["a"], straight.x["a"], rtol=1e-5)


def test_streams_and_two_levels():
    stream = mvrc.Stream(lambda key, m: jax.random.normal(key, (m, 6)))
    problem = mvrc.Composition(inner, lambda y, s: outer(y) + s * y[0], stream, ROWS[:50, 0])
    result = mvrc.minimize(problem, X0, optax.adam(1e-2), epochs=2)
    assert result.objective < problem.objective(X0)


def test_the_prox_comes_after_the_update():
    problem = mvrc.Composition(inner, outer, ROWS, regularizer=mvrc.Box(0.05, 1.0))
    scheme = mvrc.OptaxScheme(optax.adam(1e-2), step_size=1e-2)
    x0 = {"a": np.full(6, 0.1, "f"), "b": np.float32(0.3)}
    method = mvrc.Method(estimators.Ema(mvrc.Power(0.1)), scheme, mvrc.Sizes(32))
    result = mvrc.minimize(problem, x0, method, epochs=10)
    assert min(result.x["a"].min(), result.x["b"]) >= np.float32(0.05)


def test_mistakes_are_told():
    with pytest.raises(TypeError, match=r"one of Optax, such as optax\.adam\(1e-3\)"):
        mvrc.OptaxScheme(1e-3)
    with pytest.raises(ValueError, match="step_size of OptaxScheme is needed"):
        mvrc.minimize(
            mvrc.Composition(inner, outer, ROWS, regularizer=mvrc.L1(0.1)), X0, optax.adam(1e-2)
        )
    with pytest.raises(TypeError, match="or an optimiser of Optax"):
        mvrc.minimize(PROBLEM, X0, 3.0)
