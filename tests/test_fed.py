"""Rows that the host hands over: the numbers of rows in memory, and what goes wrong on the way."""

import dataclasses

import jax
import numpy as np
import pytest

import mvrc
from mvrc.sampling.fed import FedSource, Feed


class Memory(Feed):
    """Rows that are in memory after all."""

    def __init__(self, data, chunk=32, broken=None):
        self.data = jax.tree_util.tree_map(np.asarray, data)
        leaves = jax.tree_util.tree_leaves(self.data)
        self.count, self.chunk, self.broken = len(leaves[0]), chunk, broken
        shape = lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype)  # noqa: E731
        self.spec = jax.tree_util.tree_map(shape, self.data)
        self.asked = []

    def cut(self, token, first):
        self.asked.append(("cut", int(token), int(first)))
        if self.broken is not None and int(first) >= self.broken:
            raise ValueError(f"rows.npy ends at row {self.broken}.")
        return self.pick(np.minimum(first + np.arange(self.chunk), self.count - 1))

    def pick(self, chosen):
        return jax.tree_util.tree_map(lambda a: a[chosen], self.data)

    def begin(self, chosen):
        self.asked.append(("begin", {role: a.shape for role, a in chosen.items()}))
        return len(self.asked)

    def picked(self, token, role, chosen):
        self.asked.append(("picked", int(token), role))
        return self.pick(chosen)


class Source(FedSource):
    feed: Memory = dataclasses.field(metadata={"static": True})

    def __init__(self, feed):
        self.feed = feed

    def given(self):
        return self.feed.data

    def fingerprint(self):
        return "memory", self.feed.data

    def thinned(self, rows):
        chosen = np.sort(np.random.default_rng(0).choice(self.count, rows, replace=False))
        return mvrc.sampling.ArraySource(self.feed.pick(chosen), "replacement")


def utility(x, row):
    return jax.numpy.array([row @ x, (row @ x) ** 2])


def two_sided(y, row):
    return -y[0] + row * (y[1] - y[0] ** 2)


def problems(dtype, two_level, n=107, **how):
    rng = np.random.default_rng(1)
    rows = (rng.standard_normal((n, 5)) + 0.3).astype(dtype)
    outer = (1 + rng.random(23)).astype(dtype)
    given = rows if not how.get("fed") else Source(Memory(rows, **how.get("feed", {})))
    outside = outer if not how.get("fed") else Source(Memory(outer, chunk=16))
    more = {"regularizer": mvrc.L1(0.01)}
    if two_level:
        return mvrc.Composition(utility, two_sided, given, outside, **more)
    return mvrc.Composition(utility, lambda y: -y[0] + y[1] - y[0] ** 2, given, **more)


@pytest.mark.parametrize(
    ("dtype", "two_level", "methods"),
    [
        (np.float64, False, [mvrc.MVRC(), mvrc.CIVR(), mvrc.CSAGA(), mvrc.Auto(steps="secant")]),
        (np.float64, True, [mvrc.MVRC(batch_size=8), mvrc.STORM(batch_size=4), mvrc.Auto()]),
        (np.float32, False, [mvrc.MVRC(refresh_size=40)]),
    ],
    ids=["single", "two-level", "float32"],
)
def test_a_run_on_rows_that_are_handed_over_is_the_run_on_rows_in_memory(dtype, two_level, methods):
    x0 = np.full(5, 0.3, dtype)
    for method in methods:
        ours, theirs = (
            mvrc.minimize(problems(dtype, two_level, fed=fed), x0, method=method, epochs=3, seed=2)
            for fed in (True, False)
        )
        tolerance = 2e-4 if dtype == np.float32 else 1e-9  # sums in another order, three epochs
        near = {"rtol": tolerance, "atol": tolerance, "err_msg": str(method)}
        np.testing.assert_allclose(ours.x, theirs.x, **near)
        np.testing.assert_allclose(ours.objective, theirs.objective, **near)
        assert ours.counts[:3] == theirs.counts[:3]


def test_small_batches_are_picked_while_the_refresh_goes_by():
    problem = problems(np.float64, False, fed=True)
    many = mvrc.minimize_many(problem, np.zeros(5), method=mvrc.MVRC(), epochs=2, seeds=[3, 4])
    asked = problem.inner_source.feed.asked
    begun = [entry for entry in asked if entry[0] == "begin"]
    assert begun[0][1] == {"values": (2, 9, 10)}
    assert len(begun) == 2  # of each epoch, for both seeds
    places = {kind: [i for i, e in enumerate(asked) if e[0] == kind] for kind in ("cut", "picked")}
    tokens = {entry[1] for entry in asked if entry[0] == "picked"}
    assert len(tokens) == 2
    for token in tokens:
        pass_ = [i for i in places["cut"] if asked[i][1] == token]
        assert all(i > max(pass_, default=-1) for i in places["picked"] if asked[i][1] == token)
    one = mvrc.minimize(problem, np.zeros(5), method=mvrc.MVRC(), epochs=2, seed=4)
    np.testing.assert_allclose(many[1].x, one.x, rtol=1e-12)


def test_what_the_host_raises_is_raised_by_the_run():
    problem = problems(np.float64, False, fed=True, feed={"broken": 64})
    with pytest.raises(ValueError, match=r"^rows.npy ends at row 64\.$"):
        problem.objective(np.zeros(5))
    whole = problems(np.float64, False, fed=True)
    assert np.isfinite(whole.objective(np.zeros(5)))
