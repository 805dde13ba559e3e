"""The benchmarks' own arithmetic, on fabricated numbers: nothing here measures time."""

from __future__ import annotations

import json
import math
import sys
import types
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import auto, comparison, paths
from benchmarks.cases import problems
from benchmarks.cases.case import Case, build, draw
from benchmarks.parts import fit
from benchmarks.report import guard, report
from benchmarks.row import Measured, Ratio, Row
from benchmarks.timing import Spread, extra_steps, in_turns
from benchmarks.twins import sides, twin, wide_twin

import mvrc

FACTS = {
    "date": "2020-01-01", "cpu": "a", "cores": 2, "memory_gb": 1.0, "system": "Linux",
    "versions": {"jax": "1"}, "seconds": 60.0, "load_before": 0.0, "load_after": 1.0,
}  # fmt: skip
BEFORE = {"small step, float64": {"best": 9.1, "median": 8.0}}


def now(best: float, median: float) -> dict[str, dict[str, float]]:
    return {"small step, float64": {"best": best, "median": median}}


def test_a_fall_is_one_sentence_with_both_numbers():
    assert guard.falls(BEFORE, now(6.2, 5.0)) == [
        "small step, float64: was 9.1 times the speed of the NumPy twin, is now 6.2: 32 % slower "
        "(by the best times)."
    ]


def test_the_smaller_fall_is_told():
    (sentence,) = guard.falls(BEFORE, now(1.0, 6.0))
    assert sentence.endswith("was 8.0 times the speed of the NumPy twin, is now 6.0: 25 % slower "
                             "(by the medians).")  # fmt: skip


@pytest.mark.parametrize(
    ("best", "median"),
    [(9.1, 8.0), (20.0, 20.0), (7.4, 6.5), (1.0, 8.0), (9.1, 1.0)],
    ids=["equal", "faster", "less than a fifth", "best alone", "median alone"],
)
def test_no_sentence(best, median):
    assert guard.falls(BEFORE, now(best, median)) == []


def test_ratios_that_are_not_in_both_are_not_compared():
    assert guard.falls(BEFORE, {"epoch, float64": {"best": 0.1, "median": 0.1}}) == []
    assert guard.falls({}, now(1.0, 1.0)) == []


def test_an_accepted_run_is_what_the_next_is_compared_with(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(guard, "BASELINE", tmp_path / "baseline.json")
    ratios = [Ratio("small step, float64", 9.1, 8.0)]
    assert guard.compare(ratios, FACTS) == []
    assert "no baseline" in capsys.readouterr().out
    guard.accept(report.section([], [], ratios, FACTS))
    assert json.loads(guard.BASELINE.read_text())["machine"]["cpu"] == "a"
    assert guard.compare(ratios, FACTS) == []
    assert capsys.readouterr().out == "No speed fell by more than 20 % against the baseline.\n"
    slower = [Ratio("small step, float64", 4.55, 4.0)]
    (sentence,) = guard.compare(slower, FACTS | {"cpu": "b"})
    assert "50 % slower" in sentence
    assert "cpu was a, is b" in capsys.readouterr().out


def test_each_command_keeps_the_section_of_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(report, "PAGE", tmp_path / "performance.md")
    monkeypatch.setattr(paths, "IMAGES", tmp_path)
    step = {"mvrc": {"best": 10.0, "median": 12.0}, "plain NumPy": {"best": 90.0, "median": 90.0}}
    cases = [
        Measured("batch", vars(Case(batch=b)), step, 1e6, 1.0, 100.0, 6.0) for b in (256, 1024)
    ]
    report.write("full", report.section([Row("slow", 2.0, "s", most=1)], cases, [], FACTS))
    report.write("quick", report.section([Row("fast", 0.5, "s", most=1)], [], [], FACTS))
    page = report.PAGE.read_text()
    assert page.index("## `make bench`") < page.index("| fast | 0.50 s | at most 1 s | pass |")
    assert page.index("## `make bench-full`") < page.index("| slow | 2.00 s | at most 1 s | FAIL |")
    assert "| batch = 1,024, float64 | 10.0 | 12.0 | 1 | 1.0 | 100 | 9.0 x |" in page


def test_exponents_of_powers_are_exact():
    sizes = np.array([10.0, 100.0, 1000.0])
    assert fit.exponent(sizes, 3 * sizes**0.93) == pytest.approx(0.93)


def test_slopes_and_ratios_of_best_and_median():
    step = Spread.of([3.0, 5.0, 4.0]).slope(Spread.of([1.0, 2.0, 3.0]), 2)
    assert step == Spread(1.0, 1.0)
    assert Spread(6.0, 8.0).over(Spread(2.0, 4.0)) == Spread(3.0, 2.0)
    assert in_turns({"a": lambda: 1.0}, 0, least=3) == {"a": [1.0, 1.0, 1.0]}
    assert extra_steps(lambda steps: None) >= 8


@pytest.mark.parametrize("side", sides.ALL)
def test_every_twin_makes_the_iterates_of_mvrc(side):
    if not sides.installed(side):
        pytest.skip(f"{side} is not installed")
    data, zeros = problems.returns(200, assets=5), np.zeros(5)
    state = twin.Twin(zeros, zeros)
    for _ in range(2):
        state = sides.epoch(side)(data, state, np.random.default_rng(0), 200, 4)
    result = mvrc.minimize(problems.portfolio(data), zeros, problems.method(4, 200), epochs=2)
    np.testing.assert_allclose(state.x, result.x, rtol=0, atol=1e-14)  # rounding of 1e-3


@pytest.mark.parametrize("form", ["matrix", "free"])
def test_the_wide_twin_makes_the_iterates_of_mvrc(form):
    case = Case("wide", 60, 4, 3, 60, jacobian=form)
    data, mix = draw(case)
    state = twin.Twin(np.zeros(4), np.zeros(4))
    for _ in range(2):
        state = wide_twin.epoch(data, mix, form == "matrix", state, np.random.default_rng(0), 60, 5)
    recipe = problems.method(5, 60, jacobian=form)
    result = mvrc.minimize(build(case, (data, mix)).problem, np.zeros(4), recipe, epochs=2)
    np.testing.assert_allclose(state.x, result.x, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("measured", "reached"), [(math.nan, False), (1e-7, True), (1e-5, False)])
def test_only_a_number_below_the_goal_reaches_it(measured, reached):
    problem = mvrc.Composition(lambda x, s: x * s, lambda y: jnp.sum(y**2), np.ones((4, 2)))
    instance = types.SimpleNamespace(
        problem=problem, x0=np.ones(2), unknowns=2, measure=lambda x: measured
    )
    run = auto.one(instance, mvrc.MVRC(0.1), 5)
    assert (run["values"] is not None) == reached


def test_auto_is_run_again_beside_the_recorded_tuned_runs(tmp_path, monkeypatch):
    file, ran = tmp_path / "auto.json", []

    def record(*arguments: str, day: str) -> dict[str, dict]:
        monkeypatch.setattr(sys, "argv", ["auto", *arguments])
        monkeypatch.setattr(auto.machine, "today", lambda: day)
        known = {name: (lambda name=name: name) for name in ("small", "large")}
        auto.record(file, known, tune, beside, str)
        return json.loads(file.read_text())["instances"]

    def tune(instance: str) -> dict:
        ran.append(f"tuned {instance}")
        return {"best": len(ran)}

    def beside(instance: str, row: dict) -> dict:
        ran.append(f"auto {instance}")
        return row | {"auto": len(ran)}

    record("small", day="2020-01-01")
    found = record("--only", "auto", day="2020-01-02")
    assert ran == ["tuned small", "auto small", "auto small"]  # of "large" there is nothing to keep
    days = {"tuned": "2020-01-01", "auto": "2020-01-02"}
    assert found == {"small": {"best": 1, "auto": 3, "ran": days}}
    assert comparison._days(found) == " **Rows:** `Auto` 2020-01-02, tuned methods 2020-01-01."
    found = record("large", day="2020-01-02")
    assert comparison._days(found).endswith("tuned methods 2020-01-01 (large: 2020-01-02).")
    assert comparison._days(record(day="2020-01-03")) == ""


def test_the_page_of_comparisons_says_who_is_ahead():
    mine = {"values": 5.0, "jacobians": 40.0, "seconds": 0.02, "cold": 3.0, "looked": 3.0}
    best = {"method": "c-saga", "factor": 2.0, "values": 10.0, "jacobians": 10.0, "seconds": 0.1}
    row = {"convex": True, "n": 100, "d": 3, "auto": mine, "best": best}
    found = {"mean–variance, 30 industries": row}
    assert "| 0.50 | 0.80 | 0.7 pass |" in comparison._auto_table(found)
    assert "All 1 instances pass" in comparison._verdict(found)
    assert "4.0 times its Jacobians (c-saga)" in comparison._losses(found)
    slow = {"mean–variance, 30 industries": row | {"auto": mine | {"values": 8.0}}}
    assert "0.7 FAIL" in comparison._auto_table(slow)
    assert "1 of 1 fail" in comparison._verdict(slow)
