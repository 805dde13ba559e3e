"""Rows in shards: the same bits on any number of devices and processes, and rows in memory."""

import jax
import numpy as np
import pytest
from tests import sharded

import mvrc

QUICK = ("two-level", "newton")


@pytest.fixture(scope="module")
def alone():
    """The runs of one process with one device."""
    return sharded.processes(1, "run", *QUICK)


@pytest.mark.slow
def test_two_processes_give_the_bits_of_one(alone):
    assert sharded.processes(2, "run", *QUICK) == alone


@pytest.mark.slow
def test_the_bits_do_not_depend_on_processes_or_devices():
    names = sharded.methods()
    alone = sharded.processes(1, "run", *names, seconds=900)
    assert sharded.processes(1, "run", *names, devices=2, seconds=900) == alone
    assert sharded.processes(2, "run", *names, seconds=900) == alone
    assert sharded.processes(4, "run", *names, seconds=900) == alone


@pytest.mark.parametrize(
    "name",
    ["mvrc", "newton", *(pytest.param(n, marks=pytest.mark.slow) for n in ("saga", "secant"))],
)
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


def test_a_run_is_resumed_on_another_number_of_processes(tmp_path):
    """Saved by two, resumed by one: the bits of a run that was never stopped."""
    straight = sharded.processes(1, "straight", "two-level")
    sharded.processes(2, f"save:{tmp_path}", "two-level")
    assert sharded.processes(1, f"resume:{tmp_path}", "two-level") == straight


@pytest.mark.slow
def test_a_run_is_resumed_on_more_processes_and_devices(tmp_path):
    names = "mvrc", "storm", "saga", "newton", "averaged"
    straight = sharded.processes(1, "straight", *names, seconds=600)
    for before, after in [(1, 2), (2, 4), (4, 1)]:
        folder = tmp_path / f"{before}-{after}"
        sharded.processes(before, f"save:{folder}", *names, seconds=600)
        assert sharded.processes(after, f"resume:{folder}", *names, seconds=600) == straight


@pytest.mark.slow
def test_seeds_side_by_side_and_callbacks_on_two_processes():
    alone = sharded.processes(1, "many", "mvrc", "storm")
    assert alone["mvrc"][1:] == ["CALLBACK", 4, 3]
    assert sharded.processes(2, "many", "mvrc", "storm") == alone


def test_another_number_of_shards_is_refused(tmp_path):
    rows = np.random.default_rng(0).standard_normal((40, 3))
    for shards in (4, 5):
        data = mvrc.shard(rows, shards=shards)
        problem = mvrc.Composition(utility, lambda y: y[1] - y[0], data)
        how = {"method": mvrc.MVRC(step_size=0.01), "epochs": 1, "checkpoint": tmp_path}
        if shards == 4:
            mvrc.minimize(problem, np.zeros(3), **how)
            continue
        with pytest.raises(ValueError, match=r"in 4 shards and is now .* in 5 shards") as error:
            mvrc.minimize(problem, np.zeros(3), **how)
        assert "\n" not in str(error.value)


@pytest.mark.slow
def test_collectives_are_few_and_small():
    """An epoch: one gather of sums for each pass of its refresh, one for the rows of all steps."""
    found = sharded.processes(1, "collectives", "few", devices=2)["few"]
    n, D = sum(sharded.SIZES), sharded.D
    assert max(len(program) for program in found) <= 2
    assert max(size for program in found for size in program) < n * D / 4


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
