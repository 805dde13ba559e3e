"""Wall time as a limit, both times in the history, and rows measured on a part of the samples."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from cases import ONE, TWO, online
from mvrc.applications import mean_variance

METHOD = mvrc.MVRC(0.05, batch_size=6, period=7)


def portfolio(n, d=3):
    return mean_variance(0.05 + np.random.default_rng(0).standard_normal((n, d)), 0.2, 0.01)


def timed(seconds, problem, method, **options):
    """A run after one that has compiled, and what the whole call took."""
    x0 = np.zeros(3)
    mvrc.minimize(problem, x0, method, epochs=2, **options)
    start = time.perf_counter()
    result = mvrc.minimize(problem, x0, method, seconds=seconds, **options)
    return result, time.perf_counter() - start


@pytest.mark.parametrize(
    ("n", "method", "options"),
    [
        # The algorithm has less than half of the time: without measuring on the clock the calls
        # took 1.7 to 2.6 times as long as they may, the last of these twenty times.
        (200, mvrc.MVRC(0.1), {}),
        (200_000, mvrc.MVRC(0.1, batch_size=10, period=2, refresh_size=100), {}),
        (200, mvrc.MVRC(0.1), {"callback": lambda info: time.sleep(0.01)}),
    ],
    ids=["tiny", "passes are expensive", "callbacks are slow"],
)
def test_seconds_bounds_the_wall_time(n, method, options):
    limit = 1.5
    problem = portfolio(n)
    # A busy machine may lengthen one call, hardly three.
    for _ in range(3):
        result, took = timed(limit, problem, method, **options)
        if took < 1.2 * limit:
            break
    assert took < 1.2 * limit
    assert result.status is mvrc.Status.SECONDS
    assert result.epochs > 1
    assert 0.8 * limit < result.wall_seconds <= took


def test_both_times_are_in_the_history():
    result = mvrc.minimize(
        ONE.problem, ONE.x0, METHOD, epochs=4, callback=lambda info: time.sleep(0.02)
    )
    algorithm, wall = result.history["seconds"], result.history["wall_seconds"]
    assert algorithm[0] == wall[0] == 0
    assert np.all(np.diff(algorithm) > 0)
    assert np.all(np.diff(wall)[1:] > 0.02)  # a row has the callbacks before it
    assert wall[-1] + 0.02 < result.wall_seconds
    assert algorithm[-1] == result.seconds < wall[-1]


def test_one_epoch_is_made_whatever_it_takes():
    result = mvrc.minimize(ONE.problem, ONE.x0, METHOD, seconds=1e-9)
    assert (result.status, result.epochs) == (mvrc.Status.SECONDS, 1)


def test_wall_time_goes_on_in_a_resumed_run(tmp_path):
    def slow(info):
        time.sleep(0.03)

    def run(**limits):
        return mvrc.minimize(
            ONE.problem, ONE.x0, METHOD, checkpoint=tmp_path, callback=slow, **limits
        )

    first = run(epochs=3)
    second = run(epochs=6)
    assert second.history["wall_seconds"][4] > first.wall_seconds - 0.02 > 0.07
    assert second.wall_seconds > 0.18
    timed = run(seconds=0.4)
    assert timed.status is mvrc.Status.SECONDS and timed.epochs > 6
    again = run(seconds=0.4)
    assert (again.status, again.epochs) == (timed.status, timed.epochs)  # read back, not run again


# --- a part of the samples ----------------------------------------------------------------------


def ordered(n=1000, N=None):
    """Φ(0) is the mean of 0, …, n − 1, plus that of 0, …, N − 1."""
    outer_data = None if N is None else np.arange(N, dtype=float)[:, None]
    outer = (lambda y: y[0]) if N is None else (lambda y, s: y[0] + s[0])
    return mvrc.Composition(
        lambda x, s: x + s, outer, np.arange(n, dtype=float)[:, None], outer_data, mvrc.L2(1e-6)
    )


@pytest.mark.parametrize("N", [None, 600])
def test_the_part_is_spread_over_all_samples(N):
    options = {"epochs": 1, "measure_samples": 50}
    problem = ordered(N=N)
    result = mvrc.minimize(problem, np.zeros(1), mvrc.MVRC(1e-3), **options)
    middle = 499.5 + (0 if N is None else 299.5)
    first = result.history["objective"][0]
    assert first == pytest.approx(middle, rel=0.05)
    np.testing.assert_array_equal(result.history["measured_samples"], 50)
    other = mvrc.minimize(problem, np.zeros(1), mvrc.MVRC(1e-3), seed=1, **options)
    assert other.history["objective"][0] == first


@pytest.mark.parametrize("case", [ONE, TWO], ids=lambda c: c.name)
def test_a_part_changes_what_is_measured_and_nothing_else(case):
    method = mvrc.MVRC(case.step_size, batch_size=6, period=7)
    run = lambda **options: mvrc.minimize(case.problem, case.x0, method, epochs=20, **options)  # noqa: E731
    exact, part, whole = run(), run(measure_samples=20), run(measure_samples=10**6)
    np.testing.assert_array_equal(exact.x, part.x)
    np.testing.assert_array_equal(exact.history["objective"], whole.history["objective"])
    np.testing.assert_array_equal(exact.history["measured_samples"], case.problem.n)
    assert exact.message == whole.message
    assert np.all(exact.history["objective"] != part.history["objective"])
    assert part.objective == part.history["objective"][-1]
    assert part.message.endswith(f"both measured on 20 of {case.problem.n} samples.")
    # At once and in blocks, one seed and several: the same part.
    asked = run(measure_samples=20, callback=lambda info: None)
    np.testing.assert_allclose(asked.history["objective"], part.history["objective"], rtol=1e-12)
    many = mvrc.minimize_many(case.problem, case.x0, method, seeds=2, epochs=20, measure_samples=20)
    np.testing.assert_allclose(many[0].history["objective"], part.history["objective"], rtol=1e-9)


def test_a_part_of_a_stream_is_a_smaller_evaluation_batch():
    stream = mvrc.Stream(lambda key, size: jax.random.normal(key, (size, 2)), evaluation_size=4000)
    problem = mvrc.Composition(lambda x, s: x + s, lambda y: jnp.sum(y**2), stream)
    method = mvrc.MVRC(0.05, batch_size=6, period=7, refresh_size=50)
    result = mvrc.minimize(problem, np.ones(2, np.float32), method, epochs=2, measure_samples=500)
    np.testing.assert_array_equal(result.history["measured_samples"], 500)
    smaller = mvrc.Stream(stream.draw, evaluation_size=500)
    other = mvrc.Composition(problem.inner, problem.outer, smaller)
    np.testing.assert_allclose(result.objective, other.objective(result.x), rtol=1e-5)


def test_rows_that_auto_knows_without_measuring_stay_exact():
    result = mvrc.minimize(ONE.problem, ONE.x0, epochs=3, measure_samples=10)
    np.testing.assert_array_equal(result.history["measured_samples"], ONE.problem.n)
    assert result.history["objective"][0] == pytest.approx(ONE.objective(ONE.x0), abs=1e-12)
    stream = online()
    judged = mvrc.minimize(stream, np.zeros(5), epochs=2, measure_samples=100)
    np.testing.assert_array_equal(judged.history["measured_samples"], 100)


def test_another_part_is_another_run(tmp_path):
    run = lambda k: mvrc.minimize(  # noqa: E731
        ONE.problem, ONE.x0, METHOD, epochs=1, checkpoint=tmp_path, measure_samples=k
    )
    run(10)
    with pytest.raises(ValueError, match="belongs to another run: measure_samples was 10"):
        run(20)
