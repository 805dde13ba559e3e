"""The benchopt benchmark: its solvers agree, and benchopt runs it by its own command."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "benchopt"


def module(name, monkeypatch):
    """A file of the benchmark, with stand-ins for benchopt's base classes."""
    if "benchopt" not in sys.modules and importlib.util.find_spec("benchopt") is None:
        bases = {f"Base{kind}": object for kind in ("Objective", "Dataset", "Solver")}
        monkeypatch.setitem(sys.modules, "benchopt", types.SimpleNamespace(**bases))
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), FOLDER / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def plain(kind, **parameters):
    made = kind.__new__(kind)
    made.__dict__.update(parameters)
    return made


def test_all_solvers_come_to_one_minimum(monkeypatch):
    data = plain(module("datasets/simulated", monkeypatch).Dataset, n=400, d=5, seed=0)
    objective = plain(module("objective", monkeypatch).Objective, risk_aversion=0.2, l1=0.01)
    objective.set_data(**data.get_data())
    values = {}
    for name, passes, given in (
        ("fista", 300, {}), ("lbfgs", 300, {}), ("mvrc_methods", 60, {"method": "auto"}),
        ("mvrc_methods", 60, {"method": "mvrc"}),
        ("adam", 1500, {"step_size": 1e-3, "batch_size": 400}),
    ):  # fmt: skip
        solver = plain(module(f"solvers/{name}", monkeypatch).Solver, **given)
        solver.set_objective(**objective.get_objective())
        solver.run(passes)
        found = objective.evaluate_result(**solver.get_result())
        values[name, given.get("method")] = found["value"]
        start = objective.evaluate_result(**objective.get_one_result())["value"]
        assert found["value"] < start
    best = min(values.values())
    for (name, _), value in values.items():
        assert value <= best + (0.02 if name == "adam" else 1e-6) * abs(best), (name, value, best)
    assert np.isfinite(best)


@pytest.mark.slow
def test_benchopt_runs_it(tmp_path):
    command = shutil.which("benchopt", path=str(Path(sys.executable).parent))
    if command is None:
        pytest.skip("benchopt is not installed")
    copy = tmp_path / "benchmark"
    shutil.copytree(FOLDER, copy)
    args = ["-d", "simulated[n=2000,d=10]", "-s", "fista-numpy", "-s", "mvrc[method=auto]"]
    done = subprocess.run(
        [command, "run", str(copy), *args, "-n", "3", "-r", "1", "--no-plot", "--no-html"],
        capture_output=True, text=True, timeout=540,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(copy.rglob("*.parquet"))
