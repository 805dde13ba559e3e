"""Memory: what a run leaves behind is bounded, and data that a function closes over is let go."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc.support import cache

DATA = np.random.default_rng(0).standard_normal((40, 3)) + 0.1
WAYS = {
    "objective": lambda problem: problem.objective(np.zeros(3)),
    "check": lambda problem: problem.check(np.zeros(3)),
    "constants": lambda problem: mvrc.estimate_constants(problem, np.zeros(3), 1.0, samples=4),
    "mvrc": lambda problem: mvrc.minimize(problem, np.zeros(3), mvrc.MVRC(), epochs=2),
    "storm": lambda problem: mvrc.minimize(problem, np.zeros(3), "storm", epochs=2),
    "auto": lambda problem: mvrc.minimize(problem, np.zeros(3)),
}


class Weight(np.ndarray):
    """An array that can be watched."""


def weighted(**other):
    """A problem with functions that nobody else has, and a watch on what g closes over."""
    weight = np.full(1000, 2.0).view(Weight)
    problem = mvrc.Composition(
        lambda x, r: jnp.stack([r @ x, (r @ x) ** 2]) * jnp.mean(jnp.asarray(weight)),
        lambda y: -y[0] + 0.2 * (y[1] - y[0] ** 2),
        **{"inner_data": DATA, **other},
    )
    return problem, weakref.ref(weight)


@pytest.mark.parametrize("way", WAYS)
def test_data_go_with_the_problem(way):
    """Not only when newer programs have pushed theirs out: at once."""
    problem, watch = weighted()
    WAYS[way](problem)
    assert watch() is not None
    del problem
    gc.collect()
    assert watch() is None


def test_a_run_that_is_saved_lets_go(tmp_path):
    problem, watch = weighted()
    mvrc.minimize(problem, np.zeros(3), mvrc.MVRC(), epochs=2, checkpoint=tmp_path)
    del problem
    gc.collect()
    assert watch() is None


def stream():
    center = np.full(1000, 0.1).view(Weight)
    draw = lambda key, n: jnp.asarray(center)[0] + jax.random.normal(key, (n, 3))  # noqa: E731
    return weighted(inner_data=mvrc.Stream(draw, 50))[0], weakref.ref(center)


def custom():
    weight = np.full(1000, 0.1).view(Weight)
    penalty = mvrc.Custom(
        lambda x: jnp.asarray(weight)[0] * jnp.sum(x**2),
        lambda x, step: x / (1 + 2 * step * jnp.asarray(weight)[0]),
    )
    return weighted(regularizer=penalty)[0], weakref.ref(weight)


def operator():
    weight = np.full(1000, 0.1).view(Weight)
    scaled = lambda x: jnp.asarray(weight)[0] * x  # noqa: E731
    penalty = mvrc.Composed(mvrc.L1(0.1), (scaled, scaled), size=3)
    return weighted(regularizer=penalty)[0], weakref.ref(weight)


@pytest.mark.parametrize("make", [stream, custom, operator])
def test_others_go_with_newer_programs(make, monkeypatch):
    """Functions that are part of a tree's structure stay as long as their programs."""
    monkeypatch.setattr(cache, "LIMIT", 4)
    problem, watch = make()
    problem.objective(np.zeros(3))
    del problem
    for _ in range(2):
        weighted()[0].objective(np.zeros(3))
    newer = weighted()[0]
    newer.objective(np.zeros(3))
    gc.collect()
    assert watch() is None


def test_no_more_than_the_limit_is_kept(monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 6)
    problems = [weighted()[0] for _ in range(4)]
    values = [problem.objective(np.ones(3)) for problem in problems]
    assert len(cache._kept) <= 6
    assert [problem.objective(np.ones(3)) for problem in problems] == values


def test_the_last_used_is_kept_longest(monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 2)
    asked = []

    @cache.remember
    def square(number):
        asked.append(number)
        return number**2

    assert [square(n) for n in (1, 2, 1, 3, 1, 2)] == [1, 4, 1, 9, 1, 4]
    assert asked == [1, 2, 3, 2]


def test_many_threads_share_the_programs():
    problem = weighted()[0]
    values = []
    threads = [
        threading.Thread(target=lambda: values.append(problem.objective(np.ones(3))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(values) == 8 and len(set(values)) == 1


def test_the_second_call_compiles_nothing():
    """Seconds against milliseconds: a tenth is far from both."""
    problem = weighted()[0]
    for way in ("mvrc", "auto"):
        start = time.perf_counter()
        WAYS[way](problem)
        first = time.perf_counter() - start
        start = time.perf_counter()
        WAYS[way](problem)
        assert time.perf_counter() - start < max(0.5 * first, 0.1)


GROWTH = """
import gc, os, sys
import jax.numpy as jnp, numpy as np, mvrc
from mvrc import cache
way, alive, warm, calls = sys.argv[1], sys.argv[2] == "alive", int(sys.argv[3]), int(sys.argv[4])
cache.LIMIT = 16
data = np.random.default_rng(0).standard_normal((40, 3)) + 0.1
kept = []
def call():
    big = np.ones(2**17)  # 1 MB
    inner = lambda x, r: jnp.stack([r @ x, (r @ x) ** 2]) * jnp.mean(jnp.asarray(big))
    problem = mvrc.Composition(inner, lambda y: y[1] - y[0], data)
    if alive:  # as in a list of problems: then its data stay, and only programs go
        kept.append(problem)
    if way == "objective":
        problem.objective(np.zeros(3))
    else:
        mvrc.minimize(problem, np.zeros(3), way, epochs=2)
def resident():
    gc.collect()
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
for _ in range(warm):
    call()
before = resident()
for _ in range(calls):
    call()
print((resident() - before - (calls if alive else 0)) / calls)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("way", "problems"),
    [("objective", "gone"), ("objective", "alive"), ("mvrc", "gone"), ("auto", "gone")],
)
def test_memory_stops_growing(way, problems):
    """Resident MB a call with a new lambda over 1 MB: 3.3, 7 and 12 where all was kept."""
    asked = (way, problems, "30", "40")
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, *asked], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 1
