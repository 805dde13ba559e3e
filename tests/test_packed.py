"""A program that serves every number of samples gives what the one for that number gives."""

from __future__ import annotations

import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc.compiler import disk
from mvrc.sampling import packed
from mvrc.solvers.catalogue import METHODS
from mvrc.support import cache

LENGTH = 1024  # of a piece of these samples


def inner(x, s):
    return jnp.stack([s @ x, (s @ x) ** 2, jnp.tanh(s[0] * x[1])])


def outer(y, s=None):
    return (0 if s is None else s[0]) * y[0] - y[0] + 0.2 * (y[1] - y[0] ** 2) + 0.1 * y[2] ** 2


def problem(n, N=None, dtype=np.float64, sampling="replacement"):
    rng = np.random.default_rng(n)
    rows = (0.05 + rng.standard_normal((n, 3))).astype(dtype)
    more = None if N is None else 0.1 * rng.standard_normal((N, 1)).astype(dtype)
    return mvrc.Composition(inner, outer, rows, more, mvrc.L1(0.01), sampling=sampling)


@pytest.fixture
def exact(monkeypatch):
    """Runs with programs for this number of samples alone."""

    def run(*args, **kwargs):
        with monkeypatch.context() as changed:
            changed.setattr(packed, "BUFFER", 0)
            return mvrc.minimize(*args, **kwargs)

    return run


def check(one, other, tolerance=1e-9):
    assert one.counts == other.counts
    assert one.status == other.status
    np.testing.assert_allclose(one.x, other.x, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(one.objective, other.objective, rtol=tolerance)


def same_minimum(one, other):
    """Of Auto, whose last steps are decided by rounding: the same word on the same point."""
    assert one.status == other.status
    if one.status == mvrc.Status.UNBOUNDED:
        return
    np.testing.assert_allclose(one.objective, other.objective, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(one.x, other.x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n, N", [(60, None), (60, 40)], ids=["one level", "two levels"])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.one_in(2)
def test_every_method(name, n, N, exact):
    """Given the same draws, x and Φ to rounding and counts exactly."""
    given = problem(n, N)
    limits = {"epochs": 3, "seed": 5}
    try:
        found = mvrc.minimize(given, np.zeros(3), name, **limits)
    except ValueError as refused:
        with pytest.raises(ValueError, match=str(refused)[:20]):
            exact(given, np.zeros(3), name, **limits)
        return
    check(found, exact(given, np.zeros(3), name, **limits))


@pytest.mark.parametrize("n", [2, 3, LENGTH - 1, LENGTH, LENGTH + 1, 2 * LENGTH, 5000])
@pytest.mark.parametrize("sampling", ["replacement", "reshuffled"])
@pytest.mark.one_in(2)
def test_every_count(n, sampling, exact):
    """At the edges of a piece, of full passes and of small batches alike."""
    given = problem(n, sampling=sampling)
    method = mvrc.MVRC(batch_size=2, period=3, step_size=0.1)
    check(*(run(given, np.zeros(3), method, epochs=2) for run in (mvrc.minimize, exact)))
    same_minimum(*(run(given, np.zeros(3)) for run in (mvrc.minimize, exact)))


@pytest.mark.parametrize("N", [2, LENGTH - 1, LENGTH + 1])
def test_every_outer_count(N, exact):
    given = problem(50, N)
    method = mvrc.MVRC(batch_size=7, outer_batch_size=1, period=3, step_size=0.1)
    check(*(run(given, np.zeros(3), method, epochs=2) for run in (mvrc.minimize, exact)))


def test_the_buffer_itself(monkeypatch, exact):
    """n at the capacity, and one above it, where the rows are left where they are."""
    monkeypatch.setattr(packed, "BUFFER", 4 * LENGTH * 24)  # of three numbers
    for n, fits in ((4 * LENGTH, True), (4 * LENGTH + 1, False)):
        given = problem(n)
        with given.precision(np.zeros(3)):
            source = given.packed(given.geometry(np.zeros(3))).inner_source
        assert isinstance(source, packed.PackedSource) == fits
        same_minimum(*(run(given, np.zeros(3)) for run in (mvrc.minimize, exact)))


def test_rows_beyond_the_count_are_not_read(monkeypatch):
    """What lies in the buffer after the last piece may be anything."""
    given = problem(700)
    expected = mvrc.minimize(given, np.zeros(3))
    original = packed._copied

    def spoiled(array, room):
        buffer = np.array(original(array, room))
        buffer[-(-len(array) // LENGTH) * LENGTH :] = np.nan
        return jnp.asarray(buffer)

    monkeypatch.setattr(packed, "_copied", spoiled)
    with_nan = problem(700)
    np.testing.assert_array_equal(mvrc.minimize(with_nan, np.zeros(3)).x, expected.x)


def test_problems_with_other_pieces_share_a_buffer(monkeypatch):
    """The first filled it for its short pieces; in the longer ones of the second there was NaN."""
    empty = np.empty

    def used(shape, *args):  # memory as it is when somebody has used it before
        memory = empty(shape, *args)
        memory.view(np.uint8)[...] = 255
        return memory

    monkeypatch.setattr(np, "empty", used)
    given = mvrc.Composition(lambda x, s: s * x, lambda y: jnp.sum(y**2 + y), np.ones((40, 5)))
    assert np.isfinite(given.gradient(np.zeros((2, 5)))).all()
    assert np.isfinite(given.gradient(np.zeros(5))).all()


def test_part_of_the_samples_is_measured(exact):
    given = problem(3000)
    method = mvrc.MVRC(batch_size=5, period=5, step_size=0.1)
    limits = {"epochs": 2, "measure_samples": 500}
    found, other = (run(given, np.zeros(3), method, **limits) for run in (mvrc.minimize, exact))
    np.testing.assert_allclose(found.history["objective"], other.history["objective"], rtol=1e-10)


@pytest.mark.parametrize(
    "method", ["auto", mvrc.MVRC(batch_size=5, outer_batch_size=5, period=5)], ids=["auto", "mvrc"]
)
def test_another_n_compiles_nothing(method, monkeypatch):
    """Also where the next n has another piece, and another number of outer samples."""
    seen = []
    original = disk.compile
    monkeypatch.setattr(disk, "compile", lambda *a: seen.append(1) or original(*a))
    mvrc.minimize(problem(3000, 200), np.zeros(3), method, epochs=3)
    seen.clear()
    for n, N in ((2999, 201), (3001, 199), (5000, 130)):
        mvrc.minimize(problem(n, N), np.zeros(3), method, epochs=3)
    assert not seen


def test_buffers_go_with_their_data():
    before = len(packed._buffers)
    given = problem(100)
    mvrc.minimize(given, np.zeros(3), epochs=1)
    assert len(packed._buffers) == before + 1
    del given
    cache.clear()
    assert len(packed._buffers) == before


# What is kept on disk.

PROGRAM = """
import sys, time
import numpy as np
import mvrc
from jax import stages
from tests import test_packed as t
made = []
original = stages.Lowered.compile
stages.Lowered.compile = lambda self, *a, **k: made.append(1) or original(self, *a, **k)
result = mvrc.minimize(t.problem(500), np.zeros(3), sys.argv[1], epochs=3)
print(len(made), result.x.tobytes().hex(), flush=True)
"""


def run(folder, method="mvrc", **environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, method], capture_output=True, text=True, check=True,
        env={**os.environ, "MVRC_CACHE": str(folder), **environment},
    )  # fmt: skip
    made, x = done.stdout.split()
    return int(made), x, done.stderr


@pytest.mark.parametrize("method", ["mvrc", "auto", "c-saga"])
def test_the_second_process_compiles_nothing(tmp_path, method):
    """And computes the same bits, without a word of XLA's."""
    cold, x, _ = run(tmp_path, method)
    warm, again, said = run(tmp_path, method)
    assert cold > 0 and warm == 0
    assert x == again
    assert said == ""


def test_what_changes_a_program_is_in_its_name(tmp_path):
    made, _, _ = run(tmp_path)
    other, _, _ = run(tmp_path, XLA_FLAGS="--xla_backend_optimization_level=1")
    assert other == made
    without, _, _ = run(tmp_path, MVRC_QUICK="0")
    assert without == made


def test_damaged_files_are_compiled_anew(tmp_path):
    made, x, _ = run(tmp_path)
    files = sorted(tmp_path.iterdir())
    assert len(files) == made
    for i, file in enumerate(files):
        data = file.read_bytes()
        file.write_bytes([b"", data[: len(data) // 2], data[:50] + b"xx" + data[52:]][i % 3])
    again, same, said = run(tmp_path)
    assert again == made and same == x and said == ""
    assert run(tmp_path)[0] == 0


@pytest.mark.parametrize("folder", ["0", "/proc/nowhere"])
def test_without_a_folder_nothing_is_said(folder):
    made, _, said = run(folder)
    assert made > 0 and said == ""


def test_the_folder_stays_below_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "LIMIT", 1000)
    for i in range(8):
        disk._save(tmp_path, f"{i}", bytes(200))
        os.utime(tmp_path / f"{i}", (i, i))
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["4", "5", "6", "7"]
    old = tmp_path / "killed.part"
    old.write_bytes(b"")
    os.utime(old, (0, 0))
    disk._save(tmp_path, "8", bytes(200))
    assert not old.exists()


def test_the_cache_is_switched_off(tmp_path):
    before = disk.folder()
    assert mvrc.compilation_cache(tmp_path) == tmp_path.resolve() == disk.folder()
    assert mvrc.compilation_cache(None) is None
    assert disk.folder() is None
    mvrc.compilation_cache(before)


@pytest.mark.parametrize("two_level", [False, True])
@pytest.mark.slow
def test_the_default_step_of_so_many_unknowns_that_a_subsample_is_summed_in_pieces(two_level):
    d = 20_000  # 512 rows are more than 2²² numbers
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((600, 4)).astype("f")
    spread = np.arange(d) % 4

    def inner(x, s):
        return jnp.mean(jnp.cos(x) * s[spread])[None] + jnp.mean(x**2)

    outer = (lambda y, s: (y[0] - s[0]) ** 2) if two_level else lambda y: (y[0] - 3.0) ** 2
    outside = rows[:50] if two_level else None
    problem = mvrc.Composition(inner, outer, rows, outside)
    x0 = np.full(d, 0.5, "f")
    result = mvrc.minimize(problem, x0, "mvrc", epochs=1)
    assert result.objective < problem.objective(x0)
