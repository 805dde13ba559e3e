"""Nothing lost: 2N epochs equal N + resume + N bit for bit, also after kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from cases import ONE, TWO
from mvrc.run import checkpoint

COUPLED = SimpleNamespace(
    problem=mvrc.Coupled(
        lambda x, k, s: jnp.stack([k * x[0] - s[0], (x[1] - s[1]) ** 2]),
        lambda y, k: jnp.sqrt(1 + y[0] ** 2) + jnp.log(1 + y[1]),
        np.random.default_rng(5).standard_normal((40, 2)),
        np.linspace(-1, 1, 30),
        mvrc.L2(0.01),
        inner_batch=4,
    ),
    x0=np.array([0.5, -1.0]),
)
SETTINGS = {
    "one level": (ONE, mvrc.MVRC(0.05, batch_size=6, period=7), {}),
    "restart, random output": (
        ONE,
        mvrc.MVRC(0.05, mvrc.Diminishing(restart="random", restart_every=2), 6, period=7),
        {"output": "random"},
    ),
    "two levels, matrix-free": (
        TWO,
        mvrc.MVRC(0.05, batch_size=6, outer_batch_size=3, period=7, epsilon=0.2, jacobian="free"),
        {"output": "best"},
    ),
    "coupled": (COUPLED, mvrc.SOX(0.01, batch_size=3, period=4, start="first"), {}),
}
KILLED = pytest.mark.parametrize("name", ["one level", "coupled"])


def same(a, b):
    """All leaves of two states, bit for bit; time apart."""
    a, b = (state._replace(seconds=0, wall_seconds=0) for state in (a, b))
    left, right = jax.tree_util.tree_leaves(a), jax.tree_util.tree_leaves(b)
    assert len(left) == len(right)
    for x, y in zip(left, right, strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


@pytest.mark.parametrize("name", SETTINGS)
def test_resume_is_bit_for_bit(name, tmp_path):
    case, method, options = SETTINGS[name]
    options = {**options, "seed": 4, "record_every": 2}
    straight = mvrc.minimize(case.problem, case.x0, method, epochs=10, **options)
    first = mvrc.minimize(
        case.problem, case.x0, method, epochs=5, checkpoint=tmp_path / "run", **options
    )
    assert list(first.history["epoch"]) == [0, 2, 4, 5]
    second = mvrc.minimize(
        case.problem, case.x0, method, epochs=10, checkpoint=tmp_path / "run", **options
    )
    same(straight.state, second.state)
    np.testing.assert_array_equal(straight.x, second.x)
    for column in ("epoch", "inner_values", "objective", "gradient_mapping"):
        np.testing.assert_array_equal(straight.history[column], second.history[column])
    again = mvrc.minimize(
        case.problem, case.x0, method, epochs=10, checkpoint=tmp_path / "run", **options
    )
    same(second.state, again.state)
    assert again.seconds == second.seconds  # read back, not run again


@pytest.mark.parametrize(("seconds", "saves"), [(0.0, 4), (1e6, 1)])
def test_saves_are_limited_by_time_and_the_last_is_made(seconds, saves, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", seconds)
    monkeypatch.setattr(checkpoint, "SHARE", 0)
    made = []
    save = checkpoint.Checkpoint.save
    monkeypatch.setattr(
        checkpoint.Checkpoint, "save", lambda self, *a: made.append(1) or save(self, *a)
    )
    case, method, _ = SETTINGS["one level"]
    mvrc.minimize(case.problem, case.x0, method, epochs=3, checkpoint=tmp_path)
    assert len(made) == saves
    assert int(np.load(tmp_path / "state.npz")["rows"]["epoch"][-1]) == 3


def test_a_file_of_another_version_is_refused(tmp_path):
    """One without the table of rows, though all else is as it should be."""
    case, method, _ = SETTINGS["one level"]
    mvrc.minimize(case.problem, case.x0, method, epochs=2, checkpoint=tmp_path)
    with np.load(tmp_path / "state.npz") as file:
        arrays = {name: file[name] for name in file.files if name != "rows"}
    np.savez(tmp_path / "state.npz", **arrays)
    with pytest.raises(ValueError, match="its arrays are those of another version"):
        mvrc.minimize(case.problem, case.x0, method, epochs=4, checkpoint=tmp_path)


@KILLED
def test_many_seeds_resume(name, tmp_path):
    case, method, _ = SETTINGS[name]
    straight = mvrc.minimize_many(case.problem, case.x0, method, seeds=2, epochs=6)
    mvrc.minimize_many(case.problem, case.x0, method, seeds=2, epochs=3, checkpoint=tmp_path)
    resumed = mvrc.minimize_many(
        case.problem, case.x0, method, seeds=2, epochs=6, checkpoint=tmp_path
    )
    for a, b in zip(straight, resumed, strict=True):
        same(a.state, b.state)


SCRIPT = """
    import sys
    sys.path.insert(0, {tests!r})
    import conftest
    from test_checkpoint import SETTINGS
    import mvrc, signal, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    case, method, _ = SETTINGS[{name!r}]
    mvrc.minimize(case.problem, case.x0, method, epochs=100_000, checkpoint={folder!r}, {options}
                  callback=lambda info: print(info.epoch, flush=True) or time.sleep(0.02))
"""


def start(folder: Path, options: str = "", name: str = "one level") -> subprocess.Popen:
    """A run in another process, past its fifth epoch."""
    code = textwrap.dedent(SCRIPT).format(
        tests=str(Path(__file__).parent), folder=str(folder), options=options, name=name
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 5:
            return process
    raise AssertionError("the run ended before its fifth epoch")


@KILLED
def test_killed_run_goes_on_bit_for_bit(name, tmp_path):
    process = start(tmp_path, "checkpoint_every=1,", name)
    process.send_signal(signal.SIGKILL)
    process.wait()
    case, method, _ = SETTINGS[name]
    saved = int(np.load(tmp_path / "state.npz")["rows"]["epoch"][-1])
    assert saved >= 4
    options = {"epochs": saved + 5, "callback": lambda info: None}  # as there: rows at once
    resumed = mvrc.minimize(case.problem, case.x0, method, checkpoint=tmp_path, **options)
    straight = mvrc.minimize(case.problem, case.x0, method, **options)
    same(straight.state, resumed.state)
    np.testing.assert_array_equal(straight.history["objective"], resumed.history["objective"])
    assert sorted(os.listdir(tmp_path)) == ["state.npz"]


def test_ctrl_c_saves(tmp_path):
    """SIGINT ends the run with what it has, although the next regular save is far away."""
    process = start(tmp_path, "checkpoint_every=1_000_000,")
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGINT)  # again: Python drops one that falls into a finaliser
        time.sleep(2)
    assert process.returncode == 0
    assert int(np.load(tmp_path / "state.npz")["rows"]["epoch"][-1]) >= 4


def test_a_save_that_fails_costs_no_result(tmp_path, monkeypatch):
    """A full disk: a warning with the reason, the run goes on, and the result has a note."""
    import errno

    folder = tmp_path / "run"

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    method = mvrc.MVRC(0.05, batch_size=6, period=7)
    with monkeypatch.context() as patched:
        patched.setattr("mvrc.run.checkpoint.np.savez", full)
        with pytest.warns(UserWarning, match="could not be saved .No space left on device"):
            result = mvrc.minimize(
                ONE.problem, ONE.x0, method, epochs=3, checkpoint=folder, checkpoint_every=1
            )
    assert result.status is mvrc.Status.EPOCHS
    assert any("No space left" in note for note in result.notes)
    assert not list(folder.glob("*.tmp"))
    straight = mvrc.minimize(ONE.problem, ONE.x0, method, epochs=3)
    np.testing.assert_array_equal(result.x, straight.x)


def test_a_folder_that_is_removed_costs_no_result(tmp_path):
    import shutil

    folder = tmp_path / "run"
    method = mvrc.MVRC(0.05, batch_size=6, period=7)

    def remove(info):
        shutil.rmtree(folder, ignore_errors=True)

    with pytest.warns(UserWarning, match="could not be saved"):
        result = mvrc.minimize(
            ONE.problem, ONE.x0, method, epochs=3, checkpoint=folder, checkpoint_every=1,
            callback=remove,
        )  # fmt: skip
    assert result.status is mvrc.Status.EPOCHS


def test_temporary_files_of_killed_runs_are_removed(tmp_path):
    dead, alive = tmp_path / "state-999999999-x.tmp", tmp_path / f"state-{os.getpid()}-x.tmp"
    other = tmp_path / "mine.tmp"
    for file in (dead, alive, other):
        file.write_text("")
    method = mvrc.MVRC(0.05, batch_size=6, period=7)
    mvrc.minimize(ONE.problem, ONE.x0, method, epochs=1, checkpoint=tmp_path)
    assert not dead.exists() and alive.exists() and other.exists()


def test_a_schedule_that_differs_late_is_another_run(tmp_path):
    """Equal at t = 1, 2, 3, 10 and 100, where schedules were once compared."""

    def late(t):
        return jnp.where(t > 1000, 0.5, 0.8)

    def always(t):
        return jnp.where(t > 1000, 0.8, 0.8)

    for schedule in (late, always):
        method = mvrc.MVRC(0.05, mvrc.Momentum(alpha=schedule), batch_size=6, period=7)
        run = lambda m=method: mvrc.minimize(ONE.problem, ONE.x0, m, epochs=1, checkpoint=tmp_path)  # noqa: E731
        if schedule is late:
            run()
        else:
            with pytest.raises(ValueError, match="belongs to another run.*alpha"):
                run()


def test_other_random_numbers_are_another_run(tmp_path):
    method = mvrc.MVRC(0.05, batch_size=6, period=7)
    mvrc.minimize(ONE.problem, ONE.x0, method, epochs=1, checkpoint=tmp_path)
    old = jax.config.jax_threefry_partitionable
    jax.config.update("jax_threefry_partitionable", not old)
    try:
        with pytest.raises(ValueError, match="belongs to another run: jax_threefry_partitionable"):
            mvrc.minimize(ONE.problem, ONE.x0, method, epochs=2, checkpoint=tmp_path)
    finally:
        jax.config.update("jax_threefry_partitionable", old)


@pytest.mark.parametrize("damage", ["nan", "no rows", "plain rows", "other names", "words"])
def test_damaged_numbers_are_refused(tmp_path, damage):
    method = mvrc.MVRC(0.05, batch_size=6, period=7)
    mvrc.minimize(ONE.problem, ONE.x0, method, epochs=1, checkpoint=tmp_path)
    file = tmp_path / "state.npz"
    with np.load(file) as saved:
        arrays = {name: saved[name] for name in saved.files}
    rows = arrays["rows"]
    if damage == "nan":
        name = next(n for n, a in arrays.items() if n.startswith("leaf") and a.shape == (5,))
        arrays[name] = np.full(5, np.nan)
    elif damage == "other names":
        arrays["rows"] = rows.astype([(f"x{n}", rows.dtype[n]) for n in rows.dtype.names])
    else:
        arrays["rows"] = {"no rows": rows[:0], "plain rows": np.zeros(3),
                          "words": np.array(["a", "b"])}[damage]  # fmt: skip
    np.savez(file, **arrays)
    with pytest.raises(ValueError, match="is not a readable mvrc checkpoint"):
        mvrc.minimize(ONE.problem, ONE.x0, method, epochs=2, checkpoint=tmp_path)
