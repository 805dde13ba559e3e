"""Counters against the formulas: an epoch costs n + 2S(τ − 1), prox is the number of steps."""

from __future__ import annotations

import numpy as np
import pytest

import mvrc
from cases import ONE, TWO, online


@pytest.mark.parametrize("jacobian", ["matrix", "free"])
def test_one_level(jacobian):
    n, s, tau, epochs = 40, 6, 7, 3
    method = mvrc.MVRC(ONE.step_size, batch_size=s, period=tau, jacobian=jacobian)
    result = mvrc.minimize(ONE.problem, ONE.x0, method, epochs=epochs)
    each = n + 2 * s * (tau - 1)
    expected = np.arange(epochs + 1)
    np.testing.assert_array_equal(result.history["inner_values"], expected * each)
    np.testing.assert_array_equal(result.history["inner_jacobians"], expected * each)
    np.testing.assert_array_equal(result.history["outer_gradients"], expected * tau)
    np.testing.assert_array_equal(result.history["prox"], expected * tau)
    assert result.counts.inner_values == epochs * each


@pytest.mark.parametrize("jacobian", ["matrix", "free"])
def test_two_levels(jacobian):
    s, s_jacobian, s_outer, tau = 6, 4, 3, 7
    method = mvrc.MVRC(
        TWO.step_size, batch_size=s, jacobian_batch_size=s_jacobian, outer_batch_size=s_outer,
        period=tau, jacobian=jacobian, epsilon=None,
    )  # fmt: skip
    counts = mvrc.minimize(TWO.problem, TWO.x0, method, epochs=2).counts
    assert counts.inner_values == 2 * (40 + 2 * s * (tau - 1))
    assert counts.inner_jacobians == 2 * (40 + 2 * s_jacobian * (tau - 1))
    assert counts.outer_gradients == 2 * (7 + 2 * s_outer * (tau - 1))
    assert counts.prox == 2 * tau


@pytest.mark.parametrize("two", [False, True])
def test_online_refresh_counts_its_own_size(two):
    sizes = {"batch_size": 5, "period": 4, "refresh_size": 50}
    if two:
        sizes |= {"outer_batch_size": 3, "outer_refresh_size": 30, "jacobian_refresh_size": 60}
    x0 = np.zeros(5, np.float32)
    method = mvrc.MVRC(0.05, epsilon=None, **sizes)
    counts = mvrc.minimize(online(two), x0, method, epochs=2).counts
    assert counts.inner_values == 2 * (50 + 2 * 5 * 3)
    assert counts.inner_jacobians == 2 * ((60 if two else 50) + 2 * 5 * 3)
    assert counts.outer_gradients == 2 * (30 + 2 * 3 * 3 if two else 4)


def test_the_epsilon_of_two_levels_is_paid_for():
    """ε relative to ‖𝒢(x0)‖ takes a pass, which the counts of the first row have."""
    result = mvrc.minimize(TWO.problem, TWO.x0, mvrc.MVRC(0.05, period=3), epochs=1)
    first = result.history.rows[0]
    assert [first[c] for c in ("inner_values", "inner_jacobians", "outer_gradients")] == [40, 40, 7]


def test_every_seed_counts_for_itself():
    method = mvrc.MVRC(ONE.step_size, batch_size=6, period=7)
    results = mvrc.minimize_many(ONE.problem, ONE.x0, method, seeds=3, epochs=2)
    assert {r.counts.inner_values for r in results} == {2 * (40 + 2 * 6 * 6)}


def test_measuring_is_not_counted():
    method = mvrc.MVRC(ONE.step_size, batch_size=6, period=7)
    often = mvrc.minimize(ONE.problem, ONE.x0, method, epochs=4, record_every=1)
    rarely = mvrc.minimize(ONE.problem, ONE.x0, method, epochs=4, record_every=4)
    assert often.counts == rarely.counts
    assert list(rarely.history["epoch"]) == [0, 4]
    np.testing.assert_array_equal(often.x, rarely.x)
