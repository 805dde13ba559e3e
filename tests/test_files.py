"""Rows in files: the same answers as in memory, read ahead, and refused in sentences."""

from __future__ import annotations

import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import mvrc

N, D = 3000, 4
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((N, D)) + 0.1
TARGETS = 1 + RNG.random(200)


def inner(x, row):
    return jnp.stack([row @ x, (row @ x) ** 2])


def outer(y):
    return -y[0] + 0.2 * (y[1] - y[0] ** 2)


def problem(data, *more, **how):
    last = outer if not more else lambda y, t: -y[0] + t * (y[1] - y[0] ** 2)
    return mvrc.Composition(inner, last, data, *more, regularizer=mvrc.L1(0.01), **how)


def run(data, *more, method=None, epochs=2, x0=None, **how):
    start = np.zeros(D) if x0 is None else x0
    return mvrc.minimize(problem(data, *more, **how), start, method, epochs=epochs, seed=1)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Of 8 KiB, so that a pass has many, the last of them in part."""
    monkeypatch.setattr("mvrc.sampling.reading.CHUNK", 2**13)


@pytest.fixture
def files(tmp_path):
    """The same rows in every kind of file."""
    np.save(tmp_path / "rows.npy", ROWS)
    np.save(tmp_path / "a.npy", ROWS[:1100])
    np.save(tmp_path / "b.npy", ROWS[1100:])
    with (tmp_path / "rows.bin").open("wb") as file:
        file.write(b"header!" + ROWS.tobytes())
    return tmp_path


def readers(folder):
    raw = {"dtype": float, "shape": (D,), "offset": 7}
    mapped = np.memmap(folder / "rows.bin", float, "r", 7, (N, D))
    return {
        "npy": mvrc.File(folder / "rows.npy"),
        "two files": mvrc.File([folder / "a.npy", str(folder / "b.npy")]),
        "raw": mvrc.File(folder / "rows.bin", **raw),
        "memmap": mvrc.File(mapped),
        "columns": mvrc.File(folder / "rows.npy", columns=[0, 1, 2, 3]),
        "host": mvrc.Host(N, lambda start, stop: ROWS[start:stop]),
        "host with take": mvrc.Host(N, lambda i, j: ROWS[i:j], lambda chosen: ROWS[chosen]),
    }


MVRC = mvrc.MVRC(step_size=0.01, batch_size=8, period=20)


def given_by(feed):
    """Rows in the order of a pass, and some by number."""
    chunks = [feed.cut(-1, first).copy() for first in range(0, feed.count, feed.chunk)]
    chosen = np.array([[2999, 5], [5, 1200]])
    return np.concatenate(chunks)[: feed.count], feed.pick(chosen), chosen


def test_every_reader_gives_the_rows(files):
    for name, data in readers(files).items():
        rows, some, chosen = given_by(data.feed)
        np.testing.assert_array_equal(rows, ROWS, err_msg=name)
        np.testing.assert_array_equal(some, ROWS[chosen], err_msg=name)
        np.testing.assert_array_equal(data.feed.block(100, 2950, 7), np.roll(ROWS, 50, 0)[:100])


@pytest.mark.parametrize(
    ("method", "sampling"),
    [(None, "replacement"), (mvrc.MVRC(step_size=0.01), "reshuffled"), ("storm", "replacement")],
)
def test_methods_on_a_file_are_those_on_memory(files, method, sampling):
    ours, theirs = (
        run(data, method=method, sampling=sampling)
        for data in (mvrc.File(files / "rows.npy"), ROWS)
    )
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-10, atol=1e-12)
    assert ours.counts[:3] == theirs.counts[:3]
    assert ours.history["objective"] == pytest.approx(theirs.history["objective"], rel=1e-11)


def test_two_levels_pytrees_float32_and_seeds_side_by_side(files):
    np.save(files / "few.npy", ROWS.astype(np.float32))
    np.save(files / "targets.npy", TARGETS.astype(np.float32))
    few = mvrc.File(files / "few.npy", columns={"first": 0, "rest": slice(1, None)})
    whole = {"first": ROWS.astype(np.float32)[:, 0], "rest": ROWS.astype(np.float32)[:, 1:]}
    targets = mvrc.File(files / "targets.npy")

    def value(x, row):
        t = row["first"] * x["a"] + row["rest"] @ x["b"]
        return jnp.stack([t, t**2])

    def many(data, targets):
        f = lambda y, t: -y[0] + t * (y[1] - y[0] ** 2)  # noqa: E731
        made = mvrc.Composition(value, f, data, targets)
        start = {"a": np.float32(0), "b": np.zeros(D - 1, np.float32)}
        return mvrc.minimize_many(made, start, MVRC, seeds=2, epochs=2)

    for ours, theirs in zip(
        many(few, targets), many(whole, TARGETS.astype(np.float32)), strict=True
    ):
        np.testing.assert_allclose(ours.x["b"], theirs.x["b"], rtol=1e-4)
        assert ours.x["b"].dtype == np.float32


def test_batches_beyond_the_budget_are_blocks(files):
    data = mvrc.File(files / "rows.npy", budget=2**10)
    ours, theirs = run(data, method=MVRC), run(ROWS, method=MVRC, sampling="reshuffled")
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-12)
    assert any("contiguous blocks" in note for note in ours.notes)


def test_a_run_goes_on_and_is_refused_on_other_rows(files, tmp_path):
    path, folder = files / "rows.npy", tmp_path / "checkpoint"
    given = {"method": MVRC, "checkpoint": folder, "seed": 1}
    make = lambda: pickle.loads(pickle.dumps(problem(mvrc.File(path))))  # noqa: E731
    mvrc.minimize(make(), np.zeros(D), epochs=1, **given)
    again = mvrc.minimize(make(), np.zeros(D), epochs=2, **given)
    np.testing.assert_array_equal(again.x, run(mvrc.File(path), method=MVRC).x)
    np.save(path, ROWS[::-1])
    with pytest.raises(ValueError, match="belongs to another run: inner_data"):
        mvrc.minimize(make(), np.zeros(D), epochs=3, **given)


def test_bad_rows_are_named(files):
    path = files / "rows.npy"
    broken = np.load(path, mmap_mode="r+")
    broken[2345, 1] = np.nan
    broken.flush()
    with pytest.raises(ValueError, match=r"rows.npy, row 2345: it has NaN or infinite values"):
        problem(mvrc.File(path)).objective(np.zeros(D))
    broken[2345, 1] = 0.0
    broken.flush()
    data = problem(mvrc.File(path))
    with path.open("r+b") as file:
        file.truncate(128 + 100 * D * 8 + 5)
    with pytest.raises(ValueError, match=r"rows.npy has changed since .*it has 3,333 bytes"):
        data.objective(np.zeros(D))
    with pytest.raises(ValueError, match=r"rows.npy is truncated: .* ends in row 100\."):
        mvrc.File(path)


def test_a_file_that_changes_during_a_run(files):
    path = files / "rows.npy"
    data = problem(mvrc.File(path))

    def meddle(info):
        np.save(path, ROWS[::-1])

    with pytest.raises(ValueError, match=r"rows.npy has changed .*it was written"):
        mvrc.minimize(data, np.zeros(D), MVRC, epochs=3, callback=meddle)


def test_parquet(files):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    names = list("abcd")

    def write(path, rows, **more):
        columns = {name: rows[:, i] for i, name in enumerate(names)} | more
        parquet.write_table(pyarrow.table(columns), path, row_group_size=500)

    folder = files / "set"
    folder.mkdir()
    write(folder / "1.parquet", ROWS[:1700], word=["w"] * 1700)
    write(folder / "2.parquet", ROWS[1700:], word=["w"] * (N - 1700))
    rows, some, chosen = given_by(mvrc.File(folder, columns=names).feed)
    np.testing.assert_array_equal(rows, ROWS)
    np.testing.assert_array_equal(some, ROWS[chosen])
    spec = mvrc.File(folder / "1.parquet", columns={"x": ["a", "b"], "y": "c"}).spec()
    assert (spec["x"].shape, spec["y"].shape) == ((2,), ())
    with pytest.raises(TypeError, match="column 'word' is of type string"):
        mvrc.File(folder)
    with pytest.raises(ValueError, match=r"columns has 'e', and the file has a, b, c, d, word"):
        mvrc.File(folder, columns=["e"])
    write(folder / "2.parquet", np.where(ROWS > 3, np.nan, ROWS)[1700:])
    bad = int(np.flatnonzero((ROWS[1700:] > 3).any(axis=1))[0])
    with pytest.raises(ValueError, match=rf"2.parquet, row {bad}: it has NaN"):
        problem(mvrc.File(folder, columns=names)).objective(np.zeros(D))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda f: mvrc.File(f / "none.npy"), "does not exist"),
        (lambda f: mvrc.File(ROWS), "arrays in memory are data as they are"),
        (lambda f: mvrc.File([]), "path is an empty list"),
        (lambda f: mvrc.File(f / "rows.bin"), "dtype and shape of a row are required"),
        (lambda f: mvrc.File(f / "rows.bin", dtype=float, shape=D), "are not whole rows of 32"),
        (lambda f: mvrc.File(f / "rows.npy", dtype=float), "which has its own; leave them out"),
        (lambda f: mvrc.File(f / "rows.npy", columns=[4]), "a row has 4 columns, 0 to 3"),
        (lambda f: mvrc.File([f / "rows.npy", f / "wide.npy"]), r"wide.npy has rows of float64\[5"),
        (lambda f: mvrc.File(f / "fortran.npy"), "is in Fortran order"),
        (lambda f: mvrc.File(f / "words.npy"), "rows are of dtype <U1"),
        (lambda f: mvrc.File([f / "rows.npy", f / "rows.bin"]), "several kinds"),
        (lambda f: mvrc.File(f / "rows.npy", budget=0), "budget must be an integer"),
        (lambda f: mvrc.Host(5, ROWS), "chunks must be a function"),
        (lambda f: mvrc.Host(1, lambda i, j: ROWS[i:j]), "n has 1 rows; it may have from 2"),
        (lambda f: mvrc.Host(5, lambda i, j: ROWS), r"chunks\(0, 1\) returned shapes"),
        (lambda f: mvrc.File(f, columns=["a"]), "in which no .parquet file is"),
    ],
)
def test_what_is_no_file_of_rows_is_refused(files, make, sentence):
    np.save(files / "wide.npy", np.zeros((3, 5)))
    np.save(files / "fortran.npy", np.asfortranarray(ROWS))
    np.save(files / "words.npy", np.array(["a", "b"]))
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=sentence):
        make(files)


def test_a_function_of_the_users_that_fails(files):
    def chunks(start, stop):
        if stop > 2000:
            raise OSError("the database is gone")
        return ROWS[start:stop]

    with pytest.raises(OSError, match="the database is gone"):
        problem(mvrc.Host(N, chunks)).objective(np.zeros(D))
    short = mvrc.Host(N, lambda start, stop: ROWS[start : min(stop, 2000)])
    with pytest.raises(ValueError, match=r"chunks\(1\d\d\d, 20\d\d\) returned shapes"):
        problem(short).objective(np.zeros(D))


def test_integers_that_do_not_fit(files):
    whole = np.arange(100, dtype=np.int64)
    whole[70] = 2**40
    np.save(files / "whole.npy", whole)
    data = mvrc.Composition(
        lambda x, i: x * jnp.float32(i), lambda y: jnp.sum(y**2), mvrc.File(files / "whole.npy")
    )
    with pytest.raises(ValueError, match="whole.npy, row 70: it has integers that do not fit"):
        data.objective(np.zeros(1, np.float32))
