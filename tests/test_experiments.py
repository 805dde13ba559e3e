"""The paper's experiments: the spec is the paper's, runs are kept, nothing is done twice."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import mvrc
from mvrc import datasets
from mvrc.experiments import problems, runner, sources, spec, tuning
from mvrc.experiments.sources import Source

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
PAPER = spec.load()


def small_source(real=False):
    return Source("small", "simulated", real, (datasets.simulate_industry(n=600, d=5).values,))


def small(**changes):
    """A short portfolio experiment."""
    base = dataclasses.replace(
        PAPER["portfolio-30"], batch_size=32, epochs=3, seeds=2, step_size=0.02, data=("small",)
    )
    tuning = dataclasses.replace(base.tuning, methods=base.tuning.methods[:2], lowest=-1,
                                 highest=0, passes=20, seeds=1)  # fmt: skip
    return dataclasses.replace(base, **{"tuning": tuning, "controls": (), **changes})


@pytest.fixture
def with_small(monkeypatch):
    monkeypatch.setitem(sources._SOURCES, "small", lambda folder: small_source())


# --- the spec -----------------------------------------------------------------------------------


def test_the_spec_is_the_papers():
    for name, eta, n in (("portfolio-30", 1e-3, 24_452), ("portfolio-38", 1e-4, 10_000)):
        e = PAPER[name]
        assert (e.step_size, e.batch_size, e.steps(n)) == (eta, 256, -(-n // 256))
        assert e.asc_pg == spec.AscPg(step_size=1e-4, average=1.0)
    e = PAPER["spam"]
    sizes = (e.step_size, e.batch_size, e.outer_batch_size, e.steps(5000))
    assert sizes == (0.004, 70, 10, 140)
    assert e.asc_pg == spec.AscPg(step_size=0.004, average=2.0)
    assert all(e.seeds == 10 for e in PAPER.values())
    names = {"mvrc-constant", "mvrc-decay-restart", "civr", "vrsc-pg", "katyusha", "asc-pg"}
    assert all({m.id for m in e.methods} == names for e in PAPER.values())
    controls = {"civr-control", "vrsc-pg-control", "katyusha-control"}
    assert all({m.id for m in e.controls} == controls for e in PAPER.values())


def test_methods_have_the_papers_parameters():
    e, n = PAPER["portfolio-30"], 24_452
    made = {m.id: problems.method(m, e, n) for m in e.methods}
    assert made["mvrc-constant"].momentum == mvrc.Constant(0.8)
    assert made["mvrc-decay-restart"].momentum == mvrc.Diminishing(restart=True)
    assert {m.period for m in made.values()} == {96}
    assert {m.batch_size for m in made.values()} == {256}
    assert made["asc-pg"].step_size == 1e-4 and made["katyusha"].tau1 == 0.4
    spam = PAPER["spam"]
    two = {m.id: problems.method(m, spam, 5000) for m in spam.methods}
    assert two["asc-pg"].average == mvrc.Power(2.0, 4 / 9)
    assert two["civr"].batch == mvrc.Sizes(70, None, 10)
    assert two["vrsc-pg"].outer_batch_size == 10
    # θ ≡ 1, as the paper states no ε, and the matrix of Algorithms 1 and 2.
    assert two["mvrc-constant"].epsilon is None and two["mvrc-constant"].jacobian == "auto"


def test_controls_make_the_steps_of_mvrc():
    """λ = (1 + 0.8) η of the constant momentum."""
    for e in PAPER.values():
        for control in e.controls:
            made = problems.method(control, e, 5000)
            step = getattr(made, "step_size", None) or made.scheme.step_size
            assert step == pytest.approx(1.8 * e.step_size)


def test_problems_have_the_papers_numbers():
    R = datasets.simulate_industry(n=500, d=4).values
    task = problems.task(PAPER["portfolio-30"], Source("s", "", False, (R,)))
    x = np.full(4, 0.1)
    earned = R @ x
    direct = -earned.mean() + 0.2 * earned.var() + 0.01 * 0.4
    assert task.problem.objective(x) == pytest.approx(direct, rel=1e-12)
    assert np.all(task.x0 == 0) and task.exact
    assert task.best <= task.problem.objective(x)
    data = datasets.simulate_housing(n=300, noise_features=6)
    spam = problems.task(PAPER["spam"], Source("h", "", False, (data.X, data.y)))
    assert np.all(spam.x0 == 0.01) and not spam.exact
    assert spam.problem.regularizer == mvrc.L1(0.001)


def test_wrong_specs(tmp_path):
    with pytest.raises(ValueError, match="only must be .* not 'portfolio-40'"):
        spec.choose(PAPER, "portfolio-40")
    file = tmp_path / "mine.toml"
    file.write_text(
        '[methods.a]\nlabel = "A"\nrecipe = "civr"\n[experiments.a]\nepoch = 3\n', "utf-8"
    )
    with pytest.raises(ValueError, match="mine.toml: experiments.a has no key 'epoch' .*'epochs'"):
        spec.load(file)


def test_the_spec_of_the_page_is_one(tmp_path):
    """docs/experiments.md shows an own spec; it needs no ASC-PG, and says so where it does."""
    text = (Path(__file__).parents[1] / "docs" / "experiments.md").read_text("utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1], "utf-8")
    (mine,) = spec.load(file).values()
    assert [m.label for m in mine.methods] == ["MVRC, momentum 0.9", "CIVR"]
    file.write_text(
        file.read_text("utf-8").replace('recipe = "civr"', 'recipe = "asc-pg"'), "utf-8"
    )
    with pytest.raises(ValueError, match="experiments.mine runs ASC-PG and needs asc_pg"):
        spec.load(file)


def test_quick_is_shorter():
    for e in PAPER.values():
        short = spec.quick(e)
        assert short.epochs < e.epochs and short.seeds == 3


# --- sources ------------------------------------------------------------------------------------


def test_without_files_the_papers_sizes_are_simulated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("MVRC_DATA", raising=False)
    jobs = runner.plan(PAPER, tuned=False)
    sizes = {job.experiment.id: (job.source.size, job.source.real) for job in jobs}
    assert sizes["portfolio-30"] == ("24,452 × 30", False)
    assert sizes["portfolio-38"] == ("10,000 × 38", False)
    assert sizes["spam"] == ("5,000 × 100", False)
    assert sizes["portfolio-sp500"] == ("8,312 × 20", True)
    assert "portfolio-30-paper-size" not in sizes  # it would be the same again


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not there")
def test_real_files_are_used_where_they_are():
    jobs = runner.plan(PAPER, DATA, tuned=False)
    sizes = {job.experiment.id: (job.source.size, job.source.real) for job in jobs}
    assert sizes == {
        "portfolio-30": ("14,640 × 30", True),
        "portfolio-30-paper-size": ("24,452 × 30", False),
        "portfolio-38": ("5,283 × 36", True),
        "portfolio-38-paper-size": ("10,000 × 38", False),
        "spam": ("5,000 × 100", True),
    }


# --- the runner ---------------------------------------------------------------------------------


def test_runs_are_kept_and_not_repeated(tmp_path, with_small):
    jobs = runner.plan({"portfolio-30": small()})
    assert len(jobs) == 6 + 3  # two tuned methods, and Auto beside them
    told = []
    runner.run(jobs, tmp_path, lambda job, done: told.append(done))
    assert told == [False] * 9
    records = runner.records(tmp_path)
    assert [r["method"] for r in records[:6]] == [m.id for m in small().methods]
    with (tmp_path / "rows.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    expected = sum(r["seeds"] * len(r["rows"]["epoch"]) for r in records)
    assert len(rows) == expected
    assert {"experiment", "method", "seed", "inner_values", "objective"} <= set(rows[0])
    assert "jax" in records[0]["made_with"]

    told.clear()
    runner.run(jobs, tmp_path, lambda job, done: told.append(done))
    assert told == [True] * 9
    # A damaged file, another number of epochs or other data are other runs.
    (tmp_path / "runs" / f"{jobs[0].key}.json").write_text("{")
    told.clear()
    runner.run(jobs, tmp_path, lambda job, done: told.append(done))
    assert sorted(told) == [False] + [True] * 8
    assert runner.plan({"portfolio-30": small(epochs=4)})[0].key != jobs[0].key
    other = Source("small", "", False, (datasets.simulate_industry(n=600, d=5, seed=1).values,))
    assert runner.Job(small(), other, small().methods[0]).key != jobs[0].key


def test_a_run_is_that_of_minimize(tmp_path, with_small):
    """The rows of a vmapped run, of single runs, and of a direct call agree."""
    e = small(tuning=None)
    runner.run(runner.plan({"portfolio-30": e}), tmp_path / "a", lambda *_: None)
    one_by_one = {"portfolio-30": dataclasses.replace(e, together=False)}
    runner.run(runner.plan(one_by_one), tmp_path / "b", lambda *_: None)
    task = problems.task(e, small_source())
    for i, spec_of in enumerate(e.methods[:3]):
        method = problems.method(spec_of, e, 600)
        direct = mvrc.minimize(task.problem, task.x0, method, seed=1, epochs=3)
        for folder in ("a", "b"):
            record = runner.records(tmp_path / folder)[i]
            got = record["rows"]["objective"][1]
            np.testing.assert_allclose(got, direct.history["objective"], rtol=1e-9)


def test_one_step_measures_all_methods(tmp_path, with_small):
    """The gradient mapping of x0 is one number for all, whatever their own steps."""
    e = small(controls=PAPER["portfolio-30"].controls)
    runner.run(runner.plan({"portfolio-30": e}), tmp_path, lambda *_: None)
    task = problems.task(e, small_source())
    first = mvrc.minimize(task.problem, task.x0, "civr", epochs=1, mapping_step=e.step_size)
    expected = first.history["gradient_mapping"][0]
    for record in runner.records(tmp_path):
        for seed in record["rows"]["gradient_mapping"]:
            assert seed[0] == pytest.approx(expected, rel=1e-9)


def test_the_grid_grows_until_its_best_lies_inside(tmp_path, with_small):
    e = small()
    job = next(j for j in runner.plan({"portfolio-30": e}) if j.tuned)
    runner.run([job], tmp_path, lambda *_: None)
    (record,) = runner.records(tmp_path)
    powers = [one["power"] for one in record["tried"]]
    assert powers == sorted(powers) and np.allclose(np.diff(powers), 0.5)
    chosen = tuning.best(record["tried"])["power"]
    assert powers[0] < chosen < powers[-1]
    assert record["step_size"] == pytest.approx(2.0**chosen / record["smoothness"])
    assert record["seeds"] == e.seeds  # all seeds at the best, none of which chose it
    assert e.seeds < tuning.OWN_SEEDS


def test_equal_samples(tmp_path, with_small):
    """ASC-PG has as many samples as the others, within one epoch."""
    runner.run(runner.plan({"portfolio-30": small(tuning=None)}), tmp_path, lambda *_: None)
    last = {r["method"]: r["rows"]["inner_values"][-1] for r in runner.records(tmp_path)}
    assert last["civr"] == last["mvrc-constant"]
    assert 0 <= last["asc-pg"] - last["civr"] <= 2 * 600


def test_a_killed_run_goes_on(tmp_path):
    """SIGKILL in the middle; the second call repeats nothing that was finished."""
    command = [
        sys.executable, "-m", "mvrc.cli", "reproduce", "--only", "portfolio-sp500", "--quick",
        "--seeds", "1", "--no-tuning", "--workers", "1", "--output", str(tmp_path), "--json",
    ]  # fmt: skip
    env = {**os.environ, "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    first = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("runs/*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = {f: f.stat().st_mtime_ns for f in tmp_path.glob("runs/*.json")}
    assert len(kept) >= 2
    second = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    answer = json.loads(second.stdout)
    assert answer["runs"] == 9 and answer["already_there"] == len(kept)
    assert all(f.stat().st_mtime_ns == made for f, made in kept.items())
    assert Path(answer["files"]["page"]).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path, number):
    """After SIGTERM or SIGKILL nobody goes on writing."""
    command = [
        sys.executable, "-m", "mvrc.cli", "reproduce", "--only", "portfolio-sp500", "--no-tuning",
        "--workers", "2", "--output", str(tmp_path), "--json",
    ]  # fmt: skip
    env = {**os.environ, "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    parent = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    if not children.parent.exists():
        parent.kill()
        pytest.skip("needs Linux's /proc")
    deadline = time.monotonic() + 60
    workers: list[str] = []
    while len(workers) < 3 and time.monotonic() < deadline:  # a tracker of resources and two
        time.sleep(0.2)
        workers = children.read_text().split()
    time.sleep(2)
    parent.send_signal(number)
    parent.wait(timeout=30)
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{w}").exists() for w in workers) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not [w for w in workers if Path(f"/proc/{w}").exists()]


OWN = """
import jax.numpy as jnp, numpy as np, mvrc

def method(step_size):
    return mvrc.CIVR(step_size, batch_size=8)

def problem(returns):
    inner = lambda x, r: jnp.stack([r @ x, (r @ x) ** 2])
    outer = lambda y: -y[0] + 0.2 * (y[1] - y[0] ** 2)
    return mvrc.Composition(inner, outer, returns), np.zeros(returns.shape[1])

def whole():
    return problem(np.random.default_rng(1).normal(0.1, 1.0, (60, 3)))
"""
OWN_TOML = """
title = "Mine & yours"
[methods.own]
label = "Own"
recipe = "own_parts:method"
[methods.fista]
label = "FISTA"
recipe = "fista"
[experiments.table]
title = "A table"
problem = "own_parts:problem"
data = ["returns.csv"]
methods = ["own", "fista"]
step_size = 0.05
batch_size = 8
period = "pass"
epochs = 3
seeds = 2
[experiments.whole]
title = "Its own data"
problem = "own_parts:whole"
methods = ["own"]
step_size = 0.05
batch_size = 8
period = "pass"
epochs = 2
seeds = 1
"""


def test_own_methods_problems_and_tables(tmp_path, monkeypatch):
    """Run as they are; a change of the problem's file is another run; the page has the title."""
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "own_parts.py").write_text(OWN, "utf-8")
    R = np.random.default_rng(0).normal(0.1, 1.0, (80, 4))
    lines = [f"{20200101 + i},{','.join(map(repr, row.tolist()))}" for i, row in enumerate(R)]
    (tmp_path / "returns.csv").write_text("\n".join(["date,a,b,c,d", *lines]), "utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(OWN_TOML, "utf-8")
    experiments = spec.load(file)
    jobs = runner.plan(experiments)
    assert [job.source.n for job in jobs] == [80, 80, 60]
    np.testing.assert_array_equal(jobs[0].source.arrays[0], R)
    out = tmp_path / "out"
    runner.run(jobs, out, lambda job, done: None)
    records = runner.records(out)
    direct = mvrc.minimize(
        *problems.loading.load("own_parts:problem", R), mvrc.CIVR(0.05, 8), epochs=3
    )
    assert records[0]["rows"]["objective"][0][-1] == pytest.approx(direct.objective, rel=1e-9)
    assert spec.title(file) == "Mine & yours"
    (tmp_path / "own_parts.py").write_text(OWN + "\n# changed\n", "utf-8")
    assert runner.plan(experiments)[0].key != jobs[0].key
    from mvrc.report.page import write

    (out / "title.txt").write_text(spec.title(file), "utf-8")
    assert "<title>Mine &amp; yours</title>" in write(out)["page"].read_text("utf-8")
    file.write_text(OWN_TOML.replace("own_parts:method", "own_parts:methods"), "utf-8")
    with pytest.raises(ValueError, match="own_parts defines no methods .did you mean 'method'"):
        runner.plan(spec.load(file))
    file.write_text(OWN_TOML.replace('"own_parts:whole"', '"portfolio"'), "utf-8")
    with pytest.raises(ValueError, match="experiments.whole.data is empty"):
        spec.load(file)
