"""A default step that is too long: the run starts again at a quarter of it, and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from cases import ONE, TWO
from mvrc import datasets
from mvrc.applications import sparse_additive

# --- problems on which the curvature at x0 says little ------------------------------------------


def tilted(t: float):
    """(1/t) log E exp(t·loss) of a logistic loss, from a start where one sample outweighs all."""
    rng = np.random.default_rng(0)
    a, w = rng.standard_normal((500, 10)), rng.standard_normal(10)
    b = np.where(a @ w + 0.5 * rng.standard_normal(500) > 0, 1.0, -1.0)

    def inner(x, s):
        return jnp.exp(t * jnp.logaddexp(0.0, -s["b"] * (s["a"] @ x)))[None]

    problem = mvrc.Composition(inner, lambda y: jnp.log(y[0]) / t, {"a": a, "b": b})
    return problem, np.full(10, -1.0)


def network():
    """The root mean square error of tanh units in float32, all of them near 0, where F is flat."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((300, 4)).astype("f")
    target = np.sin(2 * features[:, 0]) + features[:, 1] ** 2
    x0 = {
        "weights": (0.005 * rng.standard_normal((16, 4))).astype("f"),
        "bias": np.zeros(16, "f"),
        "last": (0.0025 * rng.standard_normal(16)).astype("f"),
        "offset": np.zeros((), "f"),
    }

    def inner(x, s):
        hidden = jnp.tanh(x["weights"] @ s["features"] + x["bias"])
        return ((x["last"] @ hidden + x["offset"] - s["target"]) ** 2)[None]

    data = {"features": features, "target": target.astype("f")}
    return mvrc.Composition(inner, lambda y: jnp.sqrt(1e-3 + y[0]), data), x0


PROBLEMS = {"tilt 1": lambda: tilted(1.0), "tilt 5": lambda: tilted(5.0), "network": network}


@pytest.mark.parametrize("method", ["mvrc", "civr"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_defaults_end_below_their_start(name, method):
    problem, x0 = PROBLEMS[name]()
    result = mvrc.minimize(problem, x0, method, epochs=20)
    assert result.status is mvrc.Status.EPOCHS
    assert result.objective < 0.9 * result.history["objective"][0]


def test_sarah_solves_the_papers_model_at_defaults():
    """Without normalised steps 1/(4L) is too long near the kink: Φ rose from 0.009 to 0.09."""
    data = datasets.simulate_housing()
    problem, x0 = sparse_additive(data.X, data.y), np.full(100, 0.01)
    result = mvrc.minimize(problem, x0, "sarah-c", epochs=20)
    assert result.objective < 0.2 * result.history["objective"][0]
    assert any("was too long" in note for note in result.notes)


# --- the restart itself, on a problem with a default step that is far too long -------------------

LONG = 16.0


@pytest.fixture
def long_steps(monkeypatch):
    monkeypatch.setattr("mvrc.methods.recipe.default_step_size", lambda problem, x: LONG)


def run(case=ONE, method=None, **options):
    method = method or mvrc.MVRC(batch_size=6, period=7)
    with np.errstate(all="ignore"):
        return mvrc.minimize(case.problem, case.x0, method, **{"epochs": 8, **options})


def restarts(result) -> int:
    return int(np.sum(result.history["epoch"] == 0)) - 1


def same(a, b):
    """Two runs, time apart."""
    assert (a.status, a.message, a.counts, a.notes) == (b.status, b.message, b.counts, b.notes)
    np.testing.assert_array_equal(a.x, b.x)
    for name in ("epoch", "inner_values", "step_size", "objective", "gradient_mapping"):
        np.testing.assert_allclose(a.history[name], b.history[name], rtol=1e-12, atol=1e-14)
    for left, right in zip(
        jax.tree_util.tree_leaves(a.state._replace(seconds=0, wall_seconds=0)),
        jax.tree_util.tree_leaves(b.state._replace(seconds=0, wall_seconds=0)),
        strict=True,
    ):
        np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=1e-12)


@pytest.mark.parametrize("case", [ONE, TWO], ids=lambda c: c.name)
def test_nothing_of_the_failed_attempts_is_lost(case, long_steps):
    outer = {"outer_batch_size": 3} if case is TWO else {}
    method = mvrc.MVRC(batch_size=6, period=7, epsilon=None, **outer)
    result = run(case, method)
    times = restarts(result)
    assert times >= 1
    assert result.status is mvrc.Status.EPOCHS and result.epochs == 8
    assert result.objective < result.history["objective"][0]
    assert result.step_size == LONG / 4**times
    (note,) = result.notes
    assert "default step of 16 was too long" in note
    assert f"ended with {result.step_size:.3g}" in note
    # From each start on the step of its own; counts and times go on.
    starts = np.flatnonzero(result.history["epoch"] == 0)
    np.testing.assert_array_equal(
        result.history["step_size"][starts], LONG / 4.0 ** np.arange(times + 1)
    )
    for name in ("inner_values", "seconds", "wall_seconds"):
        assert np.all(np.diff(result.history[name]) >= 0)
    # The last attempt is the run with that step given.
    given = run(case, mvrc.MVRC(result.step_size, batch_size=6, period=7, epsilon=None, **outer))
    np.testing.assert_array_equal(result.x, given.x)
    assert result.counts.inner_values > given.counts.inner_values
    assert given.notes == ()


def test_a_step_of_the_users_is_reported_as_it_is():
    result = run(method=mvrc.MVRC(1e3, batch_size=6, period=7), epochs=200)
    assert result.status is mvrc.Status.DIVERGED
    assert restarts(result) == 0 and result.notes == ()


def test_restarts_are_bounded(monkeypatch):
    monkeypatch.setattr("mvrc.methods.recipe.default_step_size", lambda problem, x: 1e30)
    result = run()
    assert result.status is mvrc.Status.DIVERGED
    assert restarts(result) == 4
    assert np.all(np.isfinite(result.x))
    assert "step_size below" in result.message


def test_rows_that_wait_restart_as_rows_at_once(long_steps):
    same(run(epochs=20), run(epochs=20, callback=lambda info: None))


def test_the_number_of_samples_includes_failed_attempts(long_steps):
    full = run()
    limit = full.counts.inner_values // 2
    result = run(epochs=None, samples=limit)
    each = 40 + 2 * 6 * 6
    assert result.status in (mvrc.Status.SAMPLES, mvrc.Status.DIVERGED)
    assert limit <= result.counts.inner_values < limit + each


def test_many_seeds_start_again_together(long_steps):
    method = mvrc.MVRC(batch_size=6, period=7)
    with np.errstate(all="ignore"):
        results = mvrc.minimize_many(ONE.problem, ONE.x0, method, seeds=3, epochs=8)
    assert len({result.step_size for result in results}) == 1
    assert all(restarts(result) >= 1 for result in results)
    for result in results:
        assert result.objective < result.history["objective"][0]


def test_a_callback_sees_every_attempt_and_stops_any(long_steps):
    seen = []
    result = run(callback=lambda info: seen.append((info.epoch, info.seconds)))
    assert [epoch for epoch, _ in seen].count(1) == restarts(result) + 1
    assert np.all(np.diff([seconds for _, seconds in seen]) > 0)
    stopped = run(callback=lambda info: True)
    assert (stopped.epochs, restarts(stopped)) == (1, 0)


@pytest.mark.parametrize("first", [1, 2, 5])
def test_resume_across_a_restart(first, long_steps, tmp_path):
    straight = run(epochs=12)
    assert restarts(straight) >= 1
    run(epochs=first, checkpoint=tmp_path)
    resumed = run(epochs=12, checkpoint=tmp_path)
    same(straight, resumed)
    again = run(epochs=12, checkpoint=tmp_path)
    same(resumed, again)
    assert again.seconds == resumed.seconds


def test_a_limit_on_samples_and_then_a_larger_one(long_steps, tmp_path):
    straight = run()
    run(epochs=None, samples=1, checkpoint=tmp_path)
    same(straight, run(checkpoint=tmp_path))


SCRIPT = """
    import sys
    sys.path.insert(0, {tests!r})
    import conftest, mvrc, time
    from test_restarts import LONG, ONE
    import mvrc.methods.recipe
    mvrc.methods.recipe.default_step_size = lambda problem, x: LONG
    mvrc.minimize(ONE.problem, ONE.x0, mvrc.MVRC(batch_size=6, period=7), epochs=100_000,
                  checkpoint={folder!r}, checkpoint_every=1, callback=lambda info: print(
                      info.epoch, len(info.history), flush=True) or time.sleep(0.02))
"""


def test_killed_after_a_restart(long_steps, tmp_path):
    code = textwrap.dedent(SCRIPT).format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        epoch, rows = map(int, line.split())
        if epoch >= 3 and rows > epoch + 1:  # beyond a restart
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert os.listdir(tmp_path)
    options = {"epochs": 12, "callback": lambda info: None}
    same(run(**options), run(checkpoint=tmp_path, **options))
