"""Rows in shards: the same bits on any number of devices and processes, and rows in memory."""

import jax
import numpy as np
import pytest
from tests import sharded

import mvrc

QUICK = ("mvrc", "two-level", "newton")


@pytest.fixture(scope="module")
def alone():
    """The runs of one process with one device."""
    return sharded.processes(1, "run", *QUICK)


def test_two_processes_give_the_bits_of_one(alone):
    assert sharded.processes(2, "run", *QUICK) == alone


@pytest.mark.slow
def test_the_bits_do_not_depend_on_processes_or_devices():
    names = sharded.methods()
    alone = sharded.processes(1, "run", *names, seconds=900)
    assert sharded.processes(1, "run", *names, devices=2, seconds=900) == alone
    assert sharded.processes(2, "run", *names, seconds=900) == alone
    assert sharded.processes(4, "run", *names, seconds=900) == alone


@pytest.mark.parametrize("name", ["mvrc", "saga", "newton", "secant"])
def test_shards_are_the_rows_in_memory(name):
    dtype, two_level, method = sharded.methods()[name]
    x0 = sharded.start(dtype)
    ours, theirs = (
        mvrc.minimize(sharded.problem(dtype, two_level, whole), x0, method=method, epochs=2, seed=1)
        for whole in (False, True)
    )
    near = {"rtol": 1e-4 if dtype == "float32" else 1e-10, "atol": 1e-6}  # another order of sums
    np.testing.assert_allclose(ours.x["w"], theirs.x["w"], **near)
    np.testing.assert_allclose(ours.objective, theirs.objective, **near)
    assert ours.counts[:3] == theirs.counts[:3]


def utility(x, row):
    return jax.numpy.stack([row @ x, (row @ x) ** 2])


def test_what_cannot_be_is_refused_in_a_sentence():
    rows = np.ones((10, 3))
    for made, words in [
        (lambda: mvrc.Sharded(rows), r"^read_shard must be a function read_shard\(k\), not "),
        (lambda: mvrc.Sharded(lambda k: rows[:, : 2 + k], 2), r"has rows unlike those of another"),
        (lambda: mvrc.Sharded(lambda k: np.full((3, 2), np.nan), 2), r"\(0\) has NaN .* in row 0;"),
        (lambda: mvrc.Sharded(lambda k: "rows", 2), r"^read_shard\(0\) returned 'rows'"),
        (lambda: mvrc.Sharded(lambda k: rows[:0], 2), r"^read_shard gives no rows at all"),
        (lambda: mvrc.shard({"a": rows, "b": rows[:4]}), r"arrays with \[4, 10\] rows"),
        (lambda: mvrc.shard(rows, shards=0), r"^shards must be "),
        (lambda: mvrc.shard(rows, axis="data"), r"^axis is given without the mesh"),
    ]:  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=words):
            made()
