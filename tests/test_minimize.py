"""minimize: stopping, outputs, callback, progress, divergence, interruption, many seeds."""

from __future__ import annotations

import re

import equinox as eqx
import jax
import numpy as np
import pytest

import mvrc
from cases import METHOD_CASES, ONE, TWO, one_level, quadratic
from mvrc.engine import compile as programs
from mvrc.engine.state import Reservoir, offer
from mvrc.oracle import exact
from mvrc.oracle.exact import BLOCK, block_size
from mvrc.run.loop import Run
from mvrc.solvers.result import COLUMNS
from mvrc.support import cache

METHOD = mvrc.MVRC(ONE.step_size, batch_size=6, period=7)
EACH = 40 + 2 * 6 * 6  # samples of an epoch


def run(method=METHOD, case=ONE, **options):
    return mvrc.minimize(case.problem, case.x0, method, **{"epochs": 5, **options})


def test_solves_the_problem():
    """To a stationary point by the exact gradient mapping, the same as plain descent finds."""
    result = run(epochs=300, tol=1e-9)
    assert result.status is mvrc.Status.CONVERGED
    assert result.gradient_mapping <= 1e-9
    x = ONE.x0
    for _ in range(20_000):
        u = x - 0.1 * ONE.gradient(x)
        x = np.sign(u) * np.maximum(np.abs(u) - 0.1 * 0.02, 0)
    np.testing.assert_allclose(result.x, x, atol=1e-7)
    assert result.objective == pytest.approx(ONE.objective(x), abs=1e-12)


@pytest.mark.parametrize("case", [ONE, TWO], ids=lambda c: c.name)
def test_default_method_needs_no_tuning(case):
    result = mvrc.minimize(case.problem, case.x0, epochs=300, tol=1e-6)
    assert result.status is mvrc.Status.CONVERGED
    assert 0 < result.step_size < 10


def test_stops_by_each_limit():
    assert run(epochs=2).status is mvrc.Status.EPOCHS
    by_samples = run(epochs=None, samples=3 * EACH - 5)
    assert by_samples.status is mvrc.Status.SAMPLES
    assert by_samples.counts.inner_values == 3 * EACH
    by_time = run(epochs=None, seconds=1e-9)
    assert by_time.status is mvrc.Status.SECONDS
    assert by_time.epochs == 1
    both = run(epochs=4, samples=EACH)
    assert (both.status, both.epochs) == (mvrc.Status.SAMPLES, 1)
    assert run(epochs=0).epochs == 0
    already = run(tol=1e9)
    assert (already.status, already.epochs) == (mvrc.Status.CONVERGED, 0)


def test_relative_tolerance():
    result = run(epochs=300, rtol=1e-3)
    first, *_, last = result.history["gradient_mapping"]
    assert result.status is mvrc.Status.CONVERGED
    assert last <= 1e-3 * first
    assert np.all(result.history["gradient_mapping"][:-1] > 1e-3 * first)
    assert run(epochs=300, rtol=1e-3, tol=1e-1).epochs < result.epochs


def test_a_stationary_start_is_no_reason_to_stop_without_a_tolerance():
    case = ONE.problem
    heavy = mvrc.Composition(case.inner, case.outer, case.inner_data, regularizer=mvrc.L1(1e3))
    assert mvrc.minimize(heavy, np.zeros_like(ONE.x0), METHOD, epochs=2).epochs == 2
    assert mvrc.minimize(heavy, np.zeros_like(ONE.x0), METHOD, epochs=2, rtol=1e-3).epochs == 0


def test_a_finite_explosion_is_a_divergence():
    """1e100 is a number, but not an answer; the best recorded point comes back."""
    data = np.random.default_rng(0).standard_normal((50, 3))
    problem = mvrc.Composition(_rows, lambda y: y @ y, data + 1)
    result = mvrc.minimize(problem, np.ones(3), mvrc.ProximalGradient(step_size=50.0), epochs=40)
    assert result.status is mvrc.Status.DIVERGED
    assert result.objective <= result.history["objective"][0]


@pytest.fixture
def traced(monkeypatch):
    """An entry for every time that an epoch is traced."""
    calls = []
    original = programs.run_epoch
    monkeypatch.setattr(programs, "run_epoch", lambda *a: calls.append(a[-1]) or original(*a))
    return calls


def test_numbers_inside_functions_compile_once(traced):
    """A module as outer: its numbers are arguments of the program, so another value is a hit."""

    class Scaled(eqx.Module):
        weight: float

        def __call__(self, y):
            return self.weight * (y @ y)

    def solve(weight):
        problem = mvrc.Composition(_rows, Scaled(weight), np.ones((8, 3)) + np.eye(8, 3))
        return mvrc.minimize(problem, np.ones(3), mvrc.MVRC(0.01), epochs=1).objective

    first = solve(1.0)
    before = len(traced)
    assert before and solve(2.0) != first
    assert len(traced) == before


def _rows(x, r):
    return r * x


def test_statuses_are_sentences():
    for status in mvrc.Status:
        assert re.fullmatch(r"[A-Z].*\.", status.value)
    assert run(epochs=2).message.startswith(mvrc.Status.EPOCHS.value)


def test_history_has_its_columns_and_the_exact_values():
    points = []
    result = run(callback=lambda info: points.append(info.x))
    assert list(result.history.to_pandas().columns) == list(COLUMNS)
    assert list(result.history["epoch"]) == [0, 1, 2, 3, 4, 5]
    assert np.all(np.diff(result.history["seconds"]) > 0)
    exact = [ONE.objective(x) for x in [ONE.x0, *points]]
    np.testing.assert_allclose(result.history["objective"], exact, atol=1e-13)
    x, eta = points[-1], ONE.step_size
    u = x - eta * ONE.gradient(x)
    mapping = (x - np.sign(u) * np.maximum(np.abs(u) - eta * 0.02, 0)) / eta
    assert result.gradient_mapping == pytest.approx(np.linalg.norm(mapping), abs=1e-12)
    assert "epoch 5" in repr(result.history)


def test_seed_decides_the_run():
    np.testing.assert_array_equal(run(seed=3).x, run(seed=3).x)
    assert not np.array_equal(run(seed=3).x, run(seed=4).x)


def test_callback_stops():
    result = run(epochs=50, callback=lambda info: info.epoch == 3)
    assert (result.status, result.epochs) == (mvrc.Status.CALLBACK, 3)
    assert result.history["epoch"][-1] == 3


def test_interrupt_keeps_what_is_done():
    def press(info):
        if info.epoch == 3:
            raise KeyboardInterrupt

    result = run(epochs=50, callback=press)
    assert result.status is mvrc.Status.INTERRUPTED
    assert result.epochs == 2  # the epoch in which it happened is not torn
    assert result.history["epoch"][-1] == 2
    np.testing.assert_array_equal(result.x, run(epochs=2).x)


def test_divergence_returns_the_best_point():
    with np.errstate(all="ignore"):
        result = run(mvrc.MVRC(1e3, batch_size=6, period=7), epochs=200)
    assert result.status is mvrc.Status.DIVERGED
    assert np.all(np.isfinite(result.x))
    assert np.isfinite(result.objective)
    finite = result.history["objective"][np.isfinite(result.history["objective"])]
    assert result.objective == finite.min()
    assert "step_size below 1e+03" in result.message


def at_once(info):
    """A callback that only asks for every row as soon as its epoch is made."""


def same_run(waited, asked):
    """Two results that differ by rounding of what was measured, and by time."""
    assert (waited.status, waited.message, waited.counts) == (
        asked.status, asked.message, asked.counts,
    )  # fmt: skip
    np.testing.assert_array_equal(waited.x, asked.x)
    for name in COLUMNS[:5]:
        np.testing.assert_array_equal(waited.history[name], asked.history[name])
    for name in ("objective", "gradient_mapping"):
        np.testing.assert_allclose(waited.history[name], asked.history[name], rtol=1e-12)
    for left, right in zip(
        jax.tree_util.tree_leaves(waited.state.core),
        jax.tree_util.tree_leaves(asked.state.core),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


@pytest.mark.parametrize("case", [ONE, TWO], ids=lambda c: c.name)
@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 21},  # two blocks and a rest
        {"epochs": 21, "record_every": 2, "output": "best"},  # the last row is off the grid
        {"epochs": None, "samples": 10 * EACH},
        {"epochs": 0},
    ],
    ids=str,
)
def test_rows_measured_together_are_those_measured_at_once(case, options):
    method = mvrc.MVRC(case.step_size, batch_size=6, period=7)
    waited = run(method, case, **options)
    same_run(waited, run(method, case, **options, callback=at_once))
    assert waited.objective == waited.history["objective"][-1]


@pytest.mark.parametrize("step", [30.0, 1e3])
def test_divergence_is_the_same_when_it_is_noticed_late(step, tmp_path):
    """Within a block, as every epoch but the last of one is."""
    method = mvrc.MVRC(step, batch_size=6, period=2)
    with np.errstate(all="ignore"):
        waited = run(method, epochs=200, checkpoint=tmp_path)
        asked = run(method, epochs=200, callback=at_once)
    assert waited.status is mvrc.Status.DIVERGED
    assert waited.epochs % BLOCK
    same_run(waited, asked)


def test_interrupt_measures_what_waits(monkeypatch):
    advance = Run._advance

    def press(self, now):
        if len(now.pending) == 3:
            raise KeyboardInterrupt
        return advance(self, now)

    monkeypatch.setattr(Run, "_advance", press)
    result = run(epochs=50)
    assert result.status is mvrc.Status.INTERRUPTED
    assert list(result.history["epoch"]) == [0, 1, 2, 3]
    assert np.isfinite(result.history["objective"]).all()


def test_large_problems_are_measured_point_by_point(monkeypatch):
    """Where a block would need more room than it may have, as the state of a run counts too."""
    core = run(epochs=0).state.core
    geometry = ONE.problem.geometry(ONE.x0)
    assert block_size(ONE.problem, geometry, core) == BLOCK
    assert block_size(ONE.problem, geometry, (core, np.broadcast_to(0.0, (2**23,)))) == 1
    monkeypatch.setattr(exact, "ROOM", 100)
    assert block_size(ONE.problem, geometry, core) == 1


@pytest.mark.parametrize("case", METHOD_CASES.values(), ids=METHOD_CASES)
def test_a_second_run_compiles_nothing(case, caplog):
    """With another step and seed, too: they are arguments of the compiled programs."""
    problem, x0, _ = quadratic(penalty=0.0 if case.smooth_only else 0.1)
    mvrc.minimize(problem, x0, case.recipe(False), epochs=2)
    with jax.log_compiles(), caplog.at_level("WARNING", logger="jax"):
        mvrc.minimize(problem, x0, case.recipe(False, case.step / 2), epochs=2, seed=3)
    messages = [record.getMessage() for record in caplog.records]
    assert [text for text in messages if "ompiling" in text or "XLA comp" in text] == []


def test_best_output_is_the_lowest_recorded():
    noisy = mvrc.MVRC(0.15, batch_size=1, period=40, jacobian="matrix")
    best = run(noisy, epochs=12, output="best", seed=3)
    last = run(noisy, epochs=12, seed=3)
    assert best.objective == best.history["objective"].min()
    assert best.objective < last.objective
    assert last.objective == last.history["objective"][-1]


def test_random_output_is_one_of_the_queries():
    """z of a run with α = 1 is x before the step: with period 1 those are the recorded points."""
    method = mvrc.MVRC(ONE.step_size, mvrc.Momentum(1.0, lam=1.0), period=1, batch_size=6)
    points = [ONE.x0]
    options = {"epochs": 6, "output": "random", "callback": lambda i: points.append(i.x)}
    chosen = {
        min(range(7), key=lambda k, x=x: np.abs(points[k] - x).sum())
        for x in (run(method, seed=seed, **options).x for seed in range(1, 12))
    }
    assert len(chosen) > 2
    result = run(method, **options)
    assert min(np.abs(result.x - p).max() for p in points[:6]) == 0
    assert result.objective == pytest.approx(ONE.objective(result.x), abs=1e-13)


def test_reservoir_is_uniform():
    """Over 20,000 keys each of 5 points is kept with probability 1/5 (five standard errors)."""

    def pick(key):
        kept = Reservoir(jax.numpy.zeros(1), jax.numpy.int32(0))
        for i, uniform in enumerate(jax.random.uniform(key, (5,))):
            kept = offer(kept, jax.numpy.full(1, float(i)), uniform)
        return kept.point[0]

    kept = np.asarray(jax.vmap(pick)(jax.random.split(jax.random.key(0), 20_000)))
    shares = np.bincount(kept.astype(int), minlength=5) / 20_000
    assert np.abs(shares - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / 20_000)


def test_random_restart_starts_from_a_query_of_the_last_epoch():
    """With period 1 and α = 1 the only query since the restart is x itself before its step."""
    momentum = mvrc.Momentum(1.0, lam=1.0, restart="random")
    method = mvrc.MVRC(ONE.step_size, momentum, period=1, batch_size=6)
    # Each epoch returns to where the one before started, so every epoch makes the first step.
    points = []
    run(method, epochs=4, callback=lambda i: points.append(i.x))
    for point in points[1:]:
        np.testing.assert_allclose(point, points[0], atol=1e-15)
    longer = mvrc.MVRC(0.2, mvrc.Constant(0.8, restart="random", restart_every=2), 6, period=7)
    result = run(longer, epochs=200, tol=1e-6)
    assert result.status is mvrc.Status.CONVERGED


def test_many_seeds_are_single_runs():
    many = mvrc.minimize_many(ONE.problem, ONE.x0, METHOD, seeds=[3, 8], epochs=4)
    for seed, result in zip([3, 8], many, strict=True):
        single = run(seed=seed, epochs=4)
        np.testing.assert_allclose(result.x, single.x, rtol=0, atol=1e-13)
        np.testing.assert_allclose(
            result.history["objective"], single.history["objective"], atol=1e-13
        )
        assert result.status is mvrc.Status.EPOCHS
        assert result.counts == single.counts
    assert len(mvrc.minimize_many(ONE.problem, ONE.x0, METHOD, seeds=3, epochs=1)) == 3


def test_one_diverging_seed_does_not_spoil_the_others():
    """Steps at the edge of stability: whichever seeds blow up say so, the rest finish."""
    method = mvrc.MVRC(1e3, batch_size=6, period=7)
    with np.errstate(all="ignore"):
        results = mvrc.minimize_many(ONE.problem, ONE.x0, method, seeds=3, epochs=300)
    for result in results:
        assert result.status is mvrc.Status.DIVERGED
        assert np.isfinite(result.objective)


def test_progress_shows_the_numbers(capsys):
    result = run(epochs=3, progress=True)
    shown = capsys.readouterr().out
    assert "epoch 3" in shown
    assert f"{result.objective:.6g}" in shown
    assert f"{3 * EACH}" in shown
    run(epochs=1)
    assert capsys.readouterr().out == ""


def test_plot_draws_the_history(tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    figure = run().plot(best=-10.0)
    assert [len(axis.lines) for axis in figure.axes] == [1, 1]
    assert figure.axes[0].get_yscale() == "log"
    figure.savefig(tmp_path / "history.png")


def test_reshuffled_sampling_converges():
    case = one_level(sampling="reshuffled")
    result = run(case=case, epochs=300, tol=1e-8)
    assert result.status is mvrc.Status.CONVERGED


def test_step_sizes_share_one_program(traced):
    """Numbers are arguments of the compiled epoch: another step size compiles nothing."""
    cache.clear()
    run(mvrc.MVRC(0.05, batch_size=6, period=7), epochs=1)
    before = len(traced)
    run(mvrc.MVRC(0.01, mvrc.Constant(0.5), batch_size=6, period=7), epochs=1)
    assert before and len(traced) == before


def test_infeasible_start_is_not_divergence():
    """Normalised steps approach the set from outside: the objective is +∞ for a while."""
    problem = mvrc.Composition(
        ONE.problem.inner, ONE.problem.outer, ONE.problem.inner_data, None, mvrc.Box(-0.5, 0.5)
    )
    method = mvrc.MVRC(0.05, batch_size=6, period=7, epsilon=50.0)
    result = mvrc.minimize(problem, np.full(5, 2.0), method, epochs=40)
    assert result.history["objective"][0] == np.inf
    assert result.status is mvrc.Status.EPOCHS
    assert np.abs(result.x).max() < 0.5 + 1e-3


def test_seeds_that_break_give_their_best_point():
    """A seed that left the numbers returns a finite point also when a random one was asked for."""
    problem = mvrc.Composition(
        lambda x, s: s * x, lambda y: jax.numpy.exp(y[0] ** 2), np.full((8, 2), 3.0)
    )
    method = mvrc.MVRC(10.0, batch_size=2, period=3)
    with np.errstate(all="ignore"):
        results = mvrc.minimize_many(
            problem, np.ones(2), method, seeds=2, epochs=5, output="random", tol=1e-9
        )
    for result in results:
        assert result.status is mvrc.Status.DIVERGED
        assert np.isfinite(result.x).all()


@pytest.mark.parametrize("case", [ONE, TWO], ids=lambda c: c.name)
def test_a_table_changed_in_place_is_the_same_run(case, tmp_path):
    """A checkpoint keeps states whole; without one the table of C-SAGA is not copied."""
    method = mvrc.CSAGA(0.02, batch_size=6, period=7, table="full")
    whole = run(method, case, checkpoint=tmp_path / "run.npz")
    spent = run(method, case)
    np.testing.assert_array_equal(whole.x, spent.x)
    np.testing.assert_array_equal(whole.history["objective"], spent.history["objective"])
    lost = run(mvrc.CSAGA(1e3, batch_size=6, period=7, table="full"), case)
    assert lost.status is mvrc.Status.DIVERGED


@pytest.mark.parametrize("case", [ONE, TWO], ids=lambda c: c.name)
def test_many_runs_that_leave_the_numbers_give_all_that_is_known(case):
    """The last good state has no table any more: an epoch that came to nothing overwrote it."""
    method = mvrc.CSAGA(1e150, batch_size=6, period=7, table="full")
    results = mvrc.minimize_many(case.problem, case.x0, method, seeds=2, epochs=5)
    for result in results:
        assert result.status is mvrc.Status.DIVERGED and np.all(np.isfinite(result.x))
        assert all(not leaf.is_deleted() for leaf in jax.tree_util.tree_leaves(result.state)
                   if isinstance(leaf, jax.Array))  # fmt: skip


def test_an_interrupt_before_the_first_row_returns_the_start(monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "_flush", interrupted)
    result = run(checkpoint=tmp_path)
    assert (result.status, result.epochs) == (mvrc.Status.INTERRUPTED, 0)
    np.testing.assert_array_equal(result.x, ONE.x0)
    assert not list(tmp_path.glob("*.npz")), "nothing was made that could be continued"
