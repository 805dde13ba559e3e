"""Tricks of compiling: when small steps are one function, and that numbers stay the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc.compiler import cse, fused_loop
from mvrc.compiler import rows as copied
from mvrc.engine import compile as programs
from mvrc.oracle import functions
from mvrc.sampling.arrays import Gathered
from mvrc.support import cache

RNG = np.random.default_rng(0)
DATA = RNG.standard_normal((200, 6))
MIX = RNG.standard_normal((3, 6))


def moments(x, r):
    return jnp.stack([r @ x, (r @ x) ** 2])


def sorted_moments(x, r):
    return jnp.stack([r @ jnp.sort(x), (r @ x) ** 2])


def indexed(x, r):
    return jnp.stack([r[:2] @ x[jnp.array([3, 1])], (r @ x) ** 2])


def mixed(x, r):
    return jnp.tanh(MIX @ (r * x))[:2]


def variance(y):
    return y[1] - y[0] ** 2 - 0.1 * y[0]


METHOD = mvrc.MVRC(step_size=0.01, batch_size=16, period=7)


@pytest.fixture(autouse=True)
def compile_anew():
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def marked(monkeypatch):
    """How often a loop was fused."""
    calls = []
    original = fused_loop._marked
    monkeypatch.setattr(fused_loop, "_marked", lambda f: calls.append(f) or original(f))
    return calls


def solve(inner=moments, **options):
    problem = mvrc.Composition(inner, variance, DATA, regularizer=mvrc.L1(0.01))
    return mvrc.minimize(problem, np.full(6, 0.3), METHOD, epochs=4, **options)


def unfused(monkeypatch, inner):
    with monkeypatch.context() as patch:
        patch.setattr(fused_loop, "_fits", lambda jaxpr: False)
        cache.clear()
        result = solve(inner)
    cache.clear()
    return result


@pytest.mark.parametrize(
    ("inner", "fits"),
    [(moments, True), (sorted_moments, False), (indexed, False), (mixed, False)],
    ids=["vectors", "sort", "scatter of a derivative", "matrix products"],
)
def test_what_is_fused(inner, fits, marked, monkeypatch):
    """The same sums in another order: 21 steps of 6 numbers agree to a few last digits."""
    one = solve(inner)
    assert bool(marked) == fits
    tasks = unfused(monkeypatch, inner)
    np.testing.assert_allclose(one.x, tasks.x, rtol=1e-12, atol=1e-14)
    assert one.counts == tasks.counts


def test_xla_takes_the_mark():
    """In the compiled program the loop is one call, and no operation inside bears the mark."""

    @jax.jit
    def run(x, data):
        return fused_loop.scan(lambda c, r: (c + r * jnp.sum(c * r), None), x, data, len(data))[0]

    text = run.lower(jnp.ones(6), jnp.asarray(DATA, jnp.float32)).compile().as_text()
    lines = [line for line in text.splitlines() if 'xla_cpu_small_call="true"' in line]
    assert len([line for line in lines if " call(" in line]) == 1
    assert all(" call(" in line or "get-tuple-element(" in line for line in lines)


def test_what_cannot_be_fused_after_all_is_compiled_as_tasks(monkeypatch):
    tasks = unfused(monkeypatch, sorted_moments)
    asked = []
    original = programs.run_epoch

    def run_epoch(*args):
        asked.append(args[-1])
        return original(*args)

    monkeypatch.setattr(fused_loop, "_fits", lambda jaxpr: True)
    monkeypatch.setattr(programs, "run_epoch", run_epoch)
    np.testing.assert_array_equal(solve(sorted_moments).x, tasks.x)
    assert asked == [True, False]  # fused, then as tasks


def test_arrays_without_numbers_and_full_passes_are_tasks(marked):
    data = {"a": DATA, "b": np.empty((200, 0))}
    problem = mvrc.Composition(lambda x, r: moments(x, r["a"]), variance, data)
    assert np.isfinite(mvrc.minimize(problem, np.full(6, 0.3), METHOD, epochs=1).objective)
    whole = mvrc.Composition(moments, variance, DATA)
    mvrc.minimize(whole, np.full(6, 0.3), "fista", epochs=1)
    assert not marked


def test_a_large_x_of_zeros_is_no_end(marked):
    """Katyusha's average starts from zeros, which XLA knows."""
    d = 70_000
    problem = mvrc.Composition(
        lambda x, i: x[:2] * i, lambda y: jnp.sum(y**2), np.arange(1.0, 21.0)
    )
    method = mvrc.Katyusha(step_size=1e-4, batch_size=1, period=4)
    result = mvrc.minimize(problem, np.ones(d), method, epochs=2)
    assert marked
    assert np.isfinite(result.objective)


def test_an_argument_without_use_is_no_end():
    """XLA aborts over a function with an argument that it can do without; so none may be."""
    data = {"used": DATA, "unused": DATA.astype(np.float32)}

    def inner(x, r):
        nothing = 0 * r["unused"].astype(jnp.int32).sum()
        return jnp.stack([r["used"] @ x + nothing, (r["used"] @ x) ** 2])

    problem = mvrc.Composition(inner, lambda y: y[1] + 0 * y[0].astype(jnp.int32), data)
    result = mvrc.minimize(problem, np.full(6, 0.3), METHOD, epochs=1)
    assert np.isfinite(result.objective)


def test_large_batches_and_many_seeds_are_tasks(marked, monkeypatch):
    mvrc.minimize_many(
        mvrc.Composition(moments, variance, DATA), np.full(6, 0.3), METHOD, seeds=2, epochs=1
    )
    monkeypatch.setattr(fused_loop, "MOST", 16 * 6 * 8 - 1)
    solve()
    assert not marked
    monkeypatch.setattr(fused_loop, "MOST", 16 * 6 * 8)
    cache.clear()
    solve()
    assert marked


def test_fused_loops_can_be_switched_off(marked, monkeypatch):
    monkeypatch.setenv("MVRC_FUSED_LOOP", "0")
    solve()
    assert not marked


@pytest.mark.parametrize("rows", [10, 5000, 20_000])
def test_a_constant_of_g_is_no_end(rows, marked):
    """XLA would write a constant into the function, and then have no use for the argument."""
    table = np.random.default_rng(1).standard_normal((rows, 6))
    result = solve(lambda x, r: jnp.stack([r @ x, jnp.mean((table @ x) ** 2)]))
    assert marked
    mean = np.mean((table @ result.x) ** 2)
    gain = float(np.mean(DATA @ result.x))
    expected = mean - gain**2 - 0.1 * gain + 0.01 * np.abs(result.x).sum()
    assert result.objective == pytest.approx(expected, rel=1e-12)


def test_a_batch_wider_than_a_piece(monkeypatch):
    """A batch of more numbers than are held at once is summed in a few pieces, not row by row."""
    lengths = []
    original = Gathered.piece

    def piece(self, start, length):
        lengths.append(length)
        return original(self, start, length)

    monkeypatch.setattr(functions, "_CHUNK", 12 * (6 + 6 + 2 * 2))
    monkeypatch.setattr(copied, "PIECE", 6 * 8)
    monkeypatch.setattr(Gathered, "piece", piece)
    result = solve()
    assert set(lengths) == {8}
    monkeypatch.undo()
    cache.clear()
    np.testing.assert_allclose(result.x, solve().x, rtol=1e-12, atol=1e-14)


def test_streams_and_random_outputs_fit(marked):
    stream = mvrc.Stream(lambda key, size: jax.random.normal(key, (size, 6)))
    problem = mvrc.Composition(moments, variance, stream)
    method = mvrc.MVRC(step_size=0.01, batch_size=16, refresh_size=64, period=7)
    result = mvrc.minimize(problem, np.full(6, 0.3, np.float32), method, epochs=3, output="random")
    assert marked
    assert np.isfinite(result.objective)


TABLES = np.random.default_rng(2).standard_normal((2, 2000))


def test_two_tables_that_look_alike_are_two():
    """As words long constants are abbreviated; with this switch of JAX they stand in equations."""
    tables = TABLES.copy()
    tables[1, 0], tables[1, -1] = tables[0, 0], tables[0, -1]

    def both(x):
        return jnp.sum(jnp.asarray(tables[0]) * x), jnp.sum(jnp.asarray(tables[1]) * x)

    with jax.enable_x64(True), jax._src.config.use_simplified_jaxpr_constants(True):
        one, two = cse.merged(both)(jnp.ones(2000))
    assert float(one) == pytest.approx(tables[0].sum())
    assert float(two) == pytest.approx(tables[1].sum())


@pytest.mark.parametrize("trick", ["TRICKS", "CSE", "FUSED_LOOP", "PREFETCH", "RUNS", "BRANCH"])
def test_numbers_are_the_same_without_a_trick(trick, monkeypatch):
    """On data beyond the cache, where all of them are at work: 21 steps agree to a few digits."""
    data = np.random.default_rng(3).standard_normal((100_000, 6))
    problem = mvrc.Composition(moments, variance, data)
    one = mvrc.minimize(problem, np.full(6, 0.3), METHOD, epochs=3)
    monkeypatch.setenv(f"MVRC_{trick}", "0")
    two = mvrc.minimize(problem, np.full(6, 0.3), METHOD, epochs=3)
    np.testing.assert_allclose(one.x, two.x, rtol=1e-10, atol=1e-12)
    assert one.counts == two.counts


@pytest.mark.parametrize("method", [mvrc.SOX, mvrc.MSVR])
@pytest.mark.parametrize("wide", [False, True])
def test_tables_of_coupled_problems_are_written_inside_of_the_loop(
    method, wide, marked, monkeypatch
):
    """With rows that are not too wide; a table that is larger than what a loop may copy."""
    if wide:
        monkeypatch.setattr("mvrc.compiler.rows._NARROW", 1)
    outside = np.linspace(0.5, 1.5, 40_000)
    problem = mvrc.Coupled(
        lambda x, k, s: jnp.stack([x[0] * s[0] - k, (x[1] - s[1]) ** 2]),
        lambda y, k: jnp.exp(y[0]) + y[1], DATA, outside, inner_batch=5,
    )  # fmt: skip
    chosen = method(1e-3, batch_size=7, period=40)
    one = mvrc.minimize(problem, np.zeros(2), chosen, epochs=3)
    assert bool(marked) == (not wide)
    monkeypatch.setenv("MVRC_FUSED_LOOP", "0")
    two = mvrc.minimize(problem, np.zeros(2), chosen, epochs=3)
    np.testing.assert_allclose(one.x, two.x, rtol=1e-10, atol=1e-14)
    assert one.counts == two.counts
