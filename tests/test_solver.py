"""mvrc.Solver, and results that go on: the same run as that of `minimize`."""

from __future__ import annotations

import numpy as np
import pytest

import mvrc
from cases import ONE, TWO

METHODS = ["mvrc", "c-saga", "storm", "fista", None]


def by_hand(case, method, epochs, seed=0):
    solver = mvrc.Solver(case.problem, method, seed=seed)
    state, rows = solver.init(case.x0), []
    for _ in range(epochs):
        state, info = solver.step(state)
        rows.append(solver.measure(state))
        if info.done:
            break
    return solver.result(state, rows)


@pytest.mark.parametrize("method", METHODS)
def test_steps_by_hand_are_those_of_minimize(method):
    mine = by_hand(ONE, method, 4, seed=3)
    run = mvrc.minimize(ONE.problem, ONE.x0, method, epochs=4, seed=3)
    np.testing.assert_array_equal(mine.x, run.x)
    assert mine.counts == run.counts
    for name in ("epoch", "inner_values", "decision"):
        np.testing.assert_array_equal(mine.history[name], run.history[name])
    for name in ("objective", "gradient_mapping"):  # which minimize measures for several at once
        np.testing.assert_allclose(mine.history[name], run.history[name], rtol=1e-12)
    assert mine.status in (mvrc.Status.STOPPED, run.status)


def test_a_state_can_be_gone_back_to():
    solver = mvrc.Solver(ONE.problem, "c-saga")
    first = solver.init(ONE.x0)
    once, _ = solver.step(first)
    again, _ = solver.step(first)
    assert solver.measure(once)["objective"] == solver.measure(again)["objective"]


def test_without_a_start_a_solver_says_so():
    state = mvrc.Solver(ONE.problem).init(ONE.x0)
    with pytest.raises(RuntimeError, match="init"):
        mvrc.Solver(ONE.problem).step(state)


@pytest.mark.parametrize("method", METHODS)
def test_a_result_goes_on_bit_for_bit(method, tmp_path):
    first = mvrc.minimize(TWO.problem, TWO.x0, method, epochs=2)
    first.save(tmp_path / "result")
    loaded = mvrc.Result.load(tmp_path / "result")
    on = mvrc.minimize(TWO.problem, TWO.x0, method, epochs=5, resume=loaded)
    whole = mvrc.minimize(TWO.problem, TWO.x0, method, epochs=5)
    np.testing.assert_array_equal(on.x, whole.x)
    assert on.counts == whole.counts
    np.testing.assert_allclose(on.history["objective"], whole.history["objective"], rtol=1e-12)


def test_another_run_is_refused():
    other = mvrc.minimize(ONE.problem, ONE.x0, "civr", epochs=1)
    with pytest.raises(ValueError, match="resume is the result of a different run"):
        mvrc.minimize(ONE.problem, ONE.x0, "c-saga", epochs=2, resume=other)
    again = mvrc.minimize(ONE.problem, ONE.x0, "civr", epochs=1)
    with pytest.raises(ValueError, match="different run: .*seed"):
        mvrc.minimize(ONE.problem, ONE.x0, "civr", epochs=2, resume=again, seed=1)
    narrow = mvrc.minimize(ONE.problem, ONE.x0.astype(np.float32), "civr", epochs=1)
    with pytest.raises(ValueError, match="different run: .*dtype"):
        mvrc.minimize(ONE.problem, ONE.x0, "civr", epochs=2, resume=narrow)
    with pytest.raises(TypeError, match="resume must be of class Result, not 3"):
        mvrc.minimize(ONE.problem, ONE.x0, "civr", epochs=2, resume=3)


def test_other_data_are_refused_and_another_step_size_is_not():
    rows = np.random.default_rng(0).standard_normal((50, 3))
    squared = lambda x, s: (s @ x - 1)[None] ** 2  # noqa: E731
    problem = lambda rows: mvrc.Composition(squared, lambda y: y[0], rows)  # noqa: E731
    first = mvrc.minimize(problem(rows), np.zeros(3), epochs=1)
    with pytest.raises(ValueError, match="resume is a result on other data.*x0=result.x"):
        mvrc.minimize(problem(rows + 1e-9), np.zeros(3), resume=first)
    with pytest.raises(ValueError, match="other data"):
        mvrc.minimize(problem(rows[1:]), np.zeros(3), resume=first)
    steps = [mvrc.minimize(problem(rows.copy()), np.zeros(3), mvrc.CIVR(1e-2), epochs=2)]
    steps += [
        mvrc.minimize(problem(rows), np.zeros(3), mvrc.CIVR(s), epochs=4, resume=steps[0])
        for s in (1e-2, 1e-3)
    ]
    assert steps[1].step_size == 1e-2 and steps[2].step_size == 1e-3
    moved = [np.linalg.norm(r.x - steps[0].x) for r in steps[1:]]
    assert 0 < moved[1] < 0.5 * moved[0]


@pytest.mark.parametrize("data", [b"", b"hello", b"\x80\x04cno.such\nThing\n."], ids=repr)
def test_a_file_that_is_no_result(data, tmp_path):
    (tmp_path / "result").write_bytes(data)
    with pytest.raises(ValueError, match="is no result that was saved, or not by this version"):
        mvrc.Result.load(tmp_path / "result")
