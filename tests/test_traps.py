"""Mistakes that stand in published code (errata 6 of the algorithms' notes), each caught here."""

from __future__ import annotations

import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from cases import (
    METHOD_CASES,
    ONE,
    TWO,
    first_steps,
    quadratic,
    refresh_batches,
    resolve,
    small_batches,
)
from mvrc.datasets import read_french
from mvrc.estimators import Sarah, Spider, Svrg
from mvrc.methods.method import Start
from mvrc.oracle import Oracle
from test_conformance import epoch_counts


def portfolio(n=30, risk=5.0):
    """Mean–variance with a strong risk term; f as a mean over copies, so that B is drawn too."""
    returns = np.random.default_rng(0).standard_normal((n, 3)) + 0.2

    def inner(x, r):
        return jnp.stack([r @ x, (r @ x) ** 2])

    def outer(y, _):
        return -y[0] - risk * (y[0] ** 2 - y[1])

    return returns, mvrc.Composition(inner, outer, returns, np.zeros(n))


def test_risk_does_not_cancel():
    """One sample for the Jacobian and for the argument of ∇f makes the variance's gradient vanish:

    with h = r·x, g'ᵀ∇f(g) = (−1 − 2λh + 2λh) r = −r. The mean of the estimates must keep it.
    """
    returns, problem = portfolio()
    x0, x1 = jnp.full(3, 0.5), jnp.array([0.6, 0.3, 0.7])
    moments = np.cov(returns.T, bias=True)
    mean = returns.mean(0)
    with problem.precision(np.asarray(x0)), jax.enable_x64(True):
        x0, x1 = (jnp.asarray(np.asarray(x), jnp.float64) for x in (x0, x1))
        geometry = problem.geometry(x0)
        method = mvrc.MVRC(0.1, batch_size=1, outer_batch_size=1, period=2)
        method = method.resolve(problem, geometry, Start(problem, x0))
        spider = Spider("matrix")

        def estimate(refresh, small):
            large = Oracle(problem.functions(geometry), refresh_batches(problem, method, refresh))
            oracle = Oracle(problem.functions(geometry), small_batches(problem, method, small))
            return spider.gradient(spider.update(oracle, spider.refresh(large, x0), x1))

        refresh, tickets = first_steps(problem, method, 4000)
        drawn = jax.jit(jax.vmap(estimate))(refresh, tickets)
        drawn = np.asarray(drawn)
    exact = -mean + 2 * 5.0 * moments @ np.asarray(x1)
    error = drawn.std(0) / np.sqrt(len(drawn))
    assert np.all(np.abs(drawn.mean(0) - exact) < 5 * error)
    cancelled = -mean  # what the mistake gives
    assert np.all(np.abs(cancelled - exact) > 20 * error)
    values, jacobians, outside = (tickets[role][:, 0] for role in tickets)
    for a, b in ((values, jacobians), (values, outside), (jacobians, outside)):
        assert np.mean(a == b) < 3 / 30  # independent draws meet by chance only


def test_threshold_carries_the_step():
    """Soft thresholding is at step·weight: a small step shrinks little."""
    shrunk = mvrc.L1(0.5).prox(np.array([1.0, -1.0, 0.0004]), 1e-3)
    np.testing.assert_allclose(shrunk, [1 - 5e-4, -1 + 5e-4, 0.0], atol=1e-7)
    still = mvrc.Composition(lambda x, s: s * x, lambda y: 0 * y[0], np.ones((8, 3)),
                             regularizer=mvrc.L1(0.5))  # fmt: skip
    for name in ("mvrc", "civr", "asc-pg"):
        recipe = METHOD_CASES[name].recipe(False, step=1e-3, period=1)
        x = mvrc.minimize(still, np.ones(3), recipe, epochs=1).x
        assert 1 - 2e-3 < x[0] < 1


@pytest.mark.parametrize("name", METHOD_CASES)
def test_full_passes_are_counted(name):
    """Exactly, for g, g', ∇f and prox: the first pass of C-SAGA and every refresh are in it."""
    case = METHOD_CASES[name]
    problem, x0, _ = quadratic(penalty=0.0 if case.smooth_only else 0.1)
    result = mvrc.minimize(problem, x0, case.recipe(False), epochs=1)
    start, each = epoch_counts(case, two=False)
    assert tuple(result.counts) == tuple(a + b for a, b in zip(start, each, strict=True))


@pytest.mark.parametrize("estimator", [Spider("matrix"), Spider("free"), Sarah(), Svrg()])
@pytest.mark.parametrize("case", [ONE, TWO], ids=lambda c: c.name)
def test_first_difference_after_a_refresh_is_from_its_own_point(estimator, case):
    """A step that stays where the refresh was changes nothing, whatever the batch."""
    problem = case.problem
    sizes = {"outer_batch_size": 3} if problem.two_level else {}
    method = resolve(case, mvrc.MVRC(0.1, batch_size=5, period=2, **sizes))
    with problem.precision(case.x0):
        geometry, x = problem.geometry(case.x0), jnp.asarray(case.x0)
        drawn = first_steps(problem, method, 1)
        refresh, small = jax.tree_util.tree_map(lambda a: a[0], drawn)
        large = Oracle(problem.functions(geometry), refresh_batches(problem, method, refresh))
        state = estimator.refresh(large, x)
        few = Oracle(problem.functions(geometry), small_batches(problem, method, small))
        again = estimator.update(few, state, x)
        np.testing.assert_allclose(
            estimator.gradient(again), estimator.gradient(state), rtol=0, atol=1e-14
        )
        np.testing.assert_allclose(estimator.gradient(state), case.gradient(case.x0), atol=1e-13)


@pytest.mark.parametrize("name", METHOD_CASES)
def test_measuring_leaves_the_run_alone(name):
    """Logging between epochs must not touch the estimator."""
    case = METHOD_CASES[name]
    problem, x0, _ = quadratic(penalty=0.0 if case.smooth_only else 0.1)
    recipe = case.recipe(False)
    often = mvrc.minimize(problem, x0, recipe, epochs=4, callback=lambda info: None)
    rarely = mvrc.minimize(problem, x0, recipe, epochs=4, record_every=4)
    np.testing.assert_array_equal(often.x, rarely.x)
    assert often.counts == rarely.counts


OFFICIAL = """  This file was created by CMPT_IND_RETS_DAILY using the 201903 CRSP database.
  Missing data are indicated by -99.99 or -999.

  Average Value Weighted Returns -- Daily
,Food ,Water,Steel
19260701,   0.05, -99.99,   0.17
19260702,   0.44, -99.99,   0.28
19260706,  -999, -99.99,   0.10
19260707,   0.10, -99.99,  -0.40

  Average Equal Weighted Returns -- Daily
,Food ,Water,Steel
19260701,  77.00, 77.00,  77.00

Copyright 2019 Kenneth R. French
"""


def test_missing_codes_are_not_returns(tmp_path):
    """−99.99 and −999 as returns would be losses of all and more; here they are absent."""
    file = tmp_path / "3_Industry.CSV"
    file.write_text(OFFICIAL)
    with zipfile.ZipFile(tmp_path / "3_Industry.zip", "w") as archive:
        archive.write(file, file.name)
    for path in (file, tmp_path / "3_Industry.zip"):
        data = read_french(path, most_missing=0.3)
        assert data.assets == ("Food", "Steel")
        assert data.dropped == ("Water",)
        assert list(data.dates) == [19260701, 19260702, 19260707]
        np.testing.assert_array_equal(data.values, [[0.05, 0.17], [0.44, 0.28], [0.10, -0.40]])
    assert list(read_french(file, days=2, most_missing=0.5).dates) == [19260707]
    with pytest.raises(ValueError, match="is not a daily file of the French library"):
        other = tmp_path / "other.csv"
        other.write_text("a,b\n1,2\n")
        read_french(other)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_french(tmp_path / "nothing.csv")
