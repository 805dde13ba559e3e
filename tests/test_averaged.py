"""Averaged small steps: for many unknowns and samples, with a safeguard and a true status."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc.solvers.averaged import AveragedState

N, D = 40_000, 300  # so many that the curvature is not measured and a pass is expensive
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((N, 3)).astype("f")
MIX = RNG.standard_normal((3, D)).astype("f") / 10


def inner(x, row):
    """p = 2: a residual and its square, of a network whose inputs are mixed once for all rows."""
    out = jnp.sum(jnp.tanh((MIX @ x) * row)) - jnp.sin(row[0])
    return jnp.stack([out, out**2])


def outer(y):
    return jnp.log1p(y[1]) + 0.1 * y[0] ** 2


PROBLEM = mvrc.Composition(inner, outer, ROWS)
X0 = np.full(D, 0.5, "f")


@pytest.fixture(scope="module")
def run():
    return mvrc.minimize(PROBLEM, X0, epochs=6, seed=1)


def test_it_is_chosen_and_says_what_it_does(run):
    assert isinstance(run.state.core, AveragedState)
    assert "schedule-free Adam" in run.explain() and "race" in run.explain()
    assert run.objective < 0.2 * PROBLEM.objective(X0)
    assert run.status is mvrc.Status.EPOCHS  # never CONVERGED by small steps


def test_what_it_reports_is_exact(run):
    assert run.objective == pytest.approx(PROBLEM.objective(run.x), rel=1e-5)
    slope = np.linalg.norm(PROBLEM.gradient(run.x))
    assert run.gradient_mapping == pytest.approx(slope, rel=1e-3)
    objective = run.history["objective"]
    assert np.all(np.diff(objective) <= 0)  # the best point that was checked
    batch = 256
    assert run.counts.inner_values > 6 * (6 * N // batch) * batch  # steps, beside checks and race


def test_a_resumed_run_is_the_same_run(run, tmp_path):
    half = mvrc.minimize(PROBLEM, X0, epochs=3, seed=1)
    half.save(tmp_path / "half")
    rest = mvrc.minimize(PROBLEM, X0, epochs=6, seed=1, resume=mvrc.Result.load(tmp_path / "half"))
    assert np.array_equal(rest.x, run.x) and rest.counts == run.counts
    other = mvrc.minimize(PROBLEM, X0, epochs=2, seed=2)
    assert not np.array_equal(other.x, half.x)


@pytest.mark.slow
def test_units_of_x_move_the_step_with_them():
    scaled = mvrc.Composition(lambda x, row: inner(x / 100, row), outer, ROWS)
    first = mvrc.minimize(PROBLEM, X0, epochs=2)
    again = mvrc.minimize(scaled, 100 * X0, epochs=2)
    assert again.objective == pytest.approx(first.objective, rel=0.5)


@pytest.mark.parametrize("r", [mvrc.L1(1e-3), mvrc.Box(-0.5, 0.6)], ids=["l1", "box"])
def test_a_regulariser(r):
    problem = mvrc.Composition(inner, outer, ROWS, regularizer=r)
    result = mvrc.minimize(problem, X0, epochs=3)
    assert result.objective < problem.objective(X0)
    assert np.isfinite(problem.objective(result.x))


def test_it_hands_over_to_secants_which_say_when_it_has_converged():
    """Convex, with noise that small steps cannot get below."""
    rows = RNG.standard_normal((N, 8)).astype("f")
    lift = RNG.standard_normal((7, D)).astype("f")

    def square(x, row):
        return ((row[:7] @ (lift @ x) / 20 - row[7]) ** 2)[None]

    problem = mvrc.Composition(square, lambda y: jnp.sqrt(1 + y[0]), rows)
    result = mvrc.minimize(problem, np.zeros(D, "f"), epochs=400)
    assert bool(result.state.core.handed)
    assert result.status in (mvrc.Status.CONVERGED, mvrc.Status.PRECISION, mvrc.Status.PLATEAU)
    with jax.enable_x64(True):
        A = np.asarray(rows[:, :7], float) @ np.asarray(lift, float) / 20
        best = np.linalg.lstsq(A, np.asarray(rows[:, 7], float), rcond=None)[0]
        least = np.sqrt(1 + np.mean((A @ best - rows[:, 7]) ** 2))
    assert result.objective < least * (1 + 1e-5)


@pytest.mark.slow
def test_many_seeds_and_streams_still_work():
    many = mvrc.minimize_many(PROBLEM, X0, seeds=2, epochs=2)
    assert len(many) == 2 and all(r.objective < PROBLEM.objective(X0) for r in many)
    one = mvrc.minimize_many(PROBLEM, X0, seeds=[3], epochs=1)
    assert len(one) == 1
