"""Identities between methods, and the unbiasedness of the estimates: they pin the rules."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import mvrc
from cases import ONE, TWO, first_steps, one_level, refresh_batches, resolve, small_batches
from mvrc.engine.batches import words_of
from mvrc.estimators import Saga, Sarah, Scsc, Spider, Storm, Svrg
from mvrc.methods.method import Start
from mvrc.oracle import Oracle
from mvrc.sampling import key_bits

NO_MOMENTUM = mvrc.Momentum(alpha=1.0, lam=1.0)


def test_mvrc_without_momentum_is_civr_bit_for_bit():
    options = {"batch_size": 6, "period": 7}
    momentum = mvrc.MVRC(ONE.step_size, NO_MOMENTUM, **options)
    plain = mvrc.CIVR(ONE.step_size, **options)
    a = mvrc.minimize(ONE.problem, ONE.x0, momentum, epochs=4, seed=5)
    b = mvrc.minimize(ONE.problem, ONE.x0, plain, epochs=4, seed=5)
    np.testing.assert_array_equal(a.x, b.x)
    assert not np.array_equal(a.x, ONE.x0)


def test_mvrc_2_without_momentum_is_nested_spider_bit_for_bit():
    options = {"batch_size": 6, "outer_batch_size": 3, "period": 7, "epsilon": 0.3}
    momentum = mvrc.MVRC(TWO.step_size, NO_MOMENTUM, **options)
    plain = mvrc.NestedSpider(TWO.step_size, **options)
    a = mvrc.minimize(TWO.problem, TWO.x0, momentum, epochs=4, seed=5)
    b = mvrc.minimize(TWO.problem, TWO.x0, plain, epochs=4, seed=5)
    np.testing.assert_array_equal(a.x, b.x)
    assert not np.array_equal(a.x, TWO.x0)


def test_linear_outer_is_prox_sarah():
    """f linear: SPIDER on the composition is ProxSARAH on h = f∘g, with its single recursion."""
    weights = np.array([0.5, 0.3, -0.4])
    problem = mvrc.Composition(
        ONE.problem.inner, lambda y: y @ weights, ONE.problem.inner_data, regularizer=mvrc.L1(0.02)
    )
    for jacobian in ("matrix", "free"):
        method = mvrc.CIVR(0.05, batch_size=6, period=6, jacobian=jacobian)
        result = mvrc.minimize(problem, ONE.x0, method, epochs=1, seed=2)
        role = "jacobians" if jacobian == "free" else "values"  # A' where it is drawn apart
        words = words_of(key_bits(2), 1, role)
        indices = problem.inner_source.tickets(words, 5, 6)
        x = x_old = ONE.x0
        v = ONE.jacobian(x, np.arange(40)).T @ weights
        for step in range(6):
            if step:
                batch = indices[step - 1]
                v = v + (ONE.jacobian(x, batch) - ONE.jacobian(x_old, batch)).T @ weights
            x_old, x = x, np.sign(u := x - 0.05 * v) * np.maximum(np.abs(u) - 0.05 * 0.02, 0)
        np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-13)


def test_one_outer_function_as_data_is_the_one_level_method():
    """N = 1 with every sample: the two-level method is the one-level one, up to rounding."""
    lifted = mvrc.Composition(
        ONE.problem.inner,
        lambda y, _: ONE.problem.outer(y),
        ONE.problem.inner_data,
        np.zeros(1),
        ONE.problem.regularizer,
    )
    full = mvrc.MVRC(0.05, batch_size=40, period=5, epsilon=None)
    a = mvrc.minimize(ONE.problem, ONE.x0, full, epochs=4)
    b = mvrc.minimize(lifted, ONE.x0, full, epochs=4)
    np.testing.assert_allclose(a.x, b.x, rtol=0, atol=1e-13)
    # Small batches: A' independent of A changes each run, not their mean. The two means differ by
    # a covariance of order η²/S, below the standard error here.
    small = mvrc.MVRC(0.02, batch_size=8, period=4, epsilon=None)
    seeds = 256
    one = np.array([r.x for r in mvrc.minimize_many(ONE.problem, ONE.x0, small, seeds=seeds,
                                                    epochs=1)])  # fmt: skip
    two = np.array([r.x for r in mvrc.minimize_many(lifted, ONE.x0, small, seeds=seeds,
                                                    epochs=1)])  # fmt: skip
    error = np.sqrt((one.var(0) + two.var(0)) / seeds)
    assert (error > 0).all()
    assert np.all(np.abs(one.mean(0) - two.mean(0)) < 4.5 * error)


@pytest.mark.parametrize("sampling", ["replacement", "reshuffled"])
@pytest.mark.parametrize("batch", [1, 6, 8])
def test_spider_estimate_of_g_is_unbiased(sampling, batch):
    """E g̃ = g and E G̃ = g' after a small step between fixed points, over 4,000 keys."""
    case = one_level(sampling=sampling)
    problem, draws = case.problem, 4000
    z0, z1 = case.x0, case.x0 + 0.3
    with problem.precision(case.x0):
        geometry = problem.geometry(case.x0)
        method = mvrc.MVRC(0.1, batch_size=batch, period=2, jacobian="matrix")
        method = resolve(case, method)
        spider = Spider("matrix")

        def estimate(refresh, small):
            batches = refresh_batches(problem, method, refresh)
            oracle = Oracle(problem.functions(geometry), batches)
            state = spider.refresh(oracle, jax.numpy.asarray(z0))
            oracle = Oracle(problem.functions(geometry), small_batches(problem, method, small))
            state = spider.update(oracle, state, jax.numpy.asarray(z1))
            return state.inner, state.jacobian

        inner, jacobian = jax.jit(jax.vmap(estimate))(*first_steps(problem, method, draws))
        inner, jacobian = np.asarray(inner), np.asarray(jacobian)
    everything = np.arange(problem.n)
    for drawn, exact in (
        (inner, case.values(z1, everything)),
        (jacobian, case.jacobian(z1, everything)),
    ):
        error = drawn.std(0) / np.sqrt(draws)
        assert np.all(np.abs(drawn.mean(0) - exact) <= 5 * error + 1e-12)
        assert error.max() > 0


ESTIMATORS = {
    "spider": (Spider("matrix"), "inner"),
    "spider matrix-free": (Spider("free"), "inner"),
    "sarah": (Sarah(), "inner"),
    "svrg": (Svrg(), None),
    "saga": (Saga(), None),
    "saga points": (Saga("points"), None),
    "storm": (Storm(mvrc.Power(0.3)), "inner"),
    "scsc": (Scsc(mvrc.Power(0.3)), "inner"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimates_are_unbiased(name):
    """From an exact start, E v = ∇F for a linear f, and E g̃ = g where g̃ is kept; 3,000 keys."""
    estimator, kept = ESTIMATORS[name]
    weights = np.array([0.5, 0.3, -0.4])
    problem = mvrc.Composition(ONE.problem.inner, lambda y: y @ weights, ONE.problem.inner_data)
    z1, draws = ONE.x0 + 0.3, 3000
    with problem.precision(ONE.x0):
        geometry = problem.geometry(ONE.x0)
        recipe = mvrc.MVRC(0.1, batch_size=5, period=2)
        method = recipe.resolve(problem, geometry, Start(problem, ONE.x0))

        def estimate(refresh, small):
            large = Oracle(problem.functions(geometry), refresh_batches(problem, method, refresh))
            state = estimator.refresh(large, jax.numpy.asarray(ONE.x0))
            few = Oracle(problem.functions(geometry), small_batches(problem, method, small))
            state = estimator.update(few, state, jax.numpy.asarray(z1))
            return estimator.gradient(state), getattr(state, kept) if kept else None

        gradient, inner = jax.jit(jax.vmap(estimate))(*first_steps(problem, method, draws))
    everything = np.arange(40)
    pairs = [(gradient, ONE.jacobian(z1, everything).T @ weights)]
    if kept:
        pairs.append((inner, ONE.values(z1, everything)))
    for drawn, exact in pairs:
        drawn = np.asarray(drawn)
        error = drawn.std(0) / np.sqrt(draws)
        assert error.max() > 0
        assert np.all(np.abs(drawn.mean(0) - exact) <= 5 * error + 1e-12)
