"""Composition: exact objective and gradient, pytrees, dtypes, chunks, the gradient check."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from cases import ONE, TWO, one_level, online, two_level
from mvrc.compiler import rows as copied
from mvrc.methods.method import Start
from mvrc.oracle import Oracle, functions
from mvrc.sampling import arrays, streams


@pytest.mark.parametrize("case", [ONE, TWO], ids=lambda c: c.name)
def test_exact_objective_and_gradient(case):
    for x in (case.x0, case.x0 + 0.7):
        assert case.problem.objective(x) == pytest.approx(case.objective(x), abs=1e-13)
        np.testing.assert_allclose(case.problem.gradient(x), case.gradient(x), atol=1e-13)


@pytest.mark.parametrize("make", [one_level, two_level])
@pytest.mark.parametrize("jacobian", ["matrix", "free"])
def test_chunks_change_nothing(make, jacobian, monkeypatch):
    """A full pass in pieces (with a remainder) is the full pass, up to the order of the sums."""
    method = mvrc.MVRC(0.05, batch_size=6, period=4, jacobian=jacobian)
    case = make()
    whole = mvrc.minimize(case.problem, case.x0, method, epochs=2)
    monkeypatch.setattr(functions, "_CHUNK", 17 * 12)
    case = make()  # new functions, hence compiled anew
    assert case.problem.geometry(case.x0).inner_rows(True) < 40
    pieces = mvrc.minimize(case.problem, case.x0, method, epochs=2)
    np.testing.assert_allclose(pieces.x, whole.x, rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        pieces.history["objective"], whole.history["objective"], rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("most", [2**31 - 1, 20])
def test_pieces_are_the_rows(most, monkeypatch):
    """Cut as one run of numbers, or by rows where a run is too long for a 32-bit index."""
    monkeypatch.setattr(copied, "_INT32", most)
    data = {
        "a": np.arange(84.0).reshape(7, 3, 4),
        "b": np.arange(7),
        "c": np.arange(21).reshape(7, 3),
    }
    cut = jax.jit(lambda data, start: arrays.Rows(data, 7).piece(start, 2))
    for start in range(6):
        piece = cut(data, start)
        for name, rows in data.items():
            np.testing.assert_array_equal(piece[name], rows[start : start + 2])


def test_pieces_fit_the_cache():
    """Of rows in memory 256 kB; of a stream as many as the caller allows."""
    seen = []

    def part(samples):
        seen.append(len(samples.rows))
        return jnp.sum(samples.rows)

    rows = np.ones((3_000, 256), np.float32)
    total = arrays.Rows(rows, 3_000).sum(part, 2_000)
    assert float(total) == rows.size
    assert set(seen) == {250}
    seen.clear()
    draw = lambda key, size: jnp.ones((size, 256))  # noqa: E731
    streams.Drawn(draw, jax.random.key(0), 3_000).sum(part, 2_000)
    assert set(seen) == {1_000}


def test_forward_and_reverse_jacobians_agree():
    """d < p goes forward, p <= d in reverse; both are the mean of the samples' Jacobians."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((12, 4, 2))
    problem = mvrc.Composition(lambda x, s: jnp.tanh(s @ x), lambda y: jnp.sum(y**2), a)
    x = rng.standard_normal(2)
    with problem.precision(x):
        geometry = problem.geometry(x)
        evaluate = Oracle(problem.functions(geometry))
        _, forward = evaluate.values_and_jacobian(
            geometry.x.flatten(x), problem.inner_source.everything()
        )
    slopes = 1 - np.tanh(a @ x) ** 2
    np.testing.assert_allclose(forward, (slopes[..., None] * a).mean(0), atol=1e-14)


def test_pytrees_everywhere():
    """Dicts for x, y and data give the same run as flat arrays."""
    data = ONE.problem.inner_data

    def inner(x, s):
        h = s["a"][:2] @ x["first"] + s["a"][2:] @ x["rest"].reshape(3)
        return {"moments": (h, h**2), "sine": jnp.sin(h + s["b"])}

    def outer(y):
        return ONE.problem.outer(jnp.stack([*y["moments"], y["sine"]]))

    problem = mvrc.Composition(inner, outer, data, regularizer=ONE.problem.regularizer)
    x0 = {"first": ONE.x0[:2], "rest": ONE.x0[2:].reshape(3, 1)}
    method = mvrc.MVRC(0.05, batch_size=6, period=4)
    tree = mvrc.minimize(problem, x0, method, epochs=3)
    flat = mvrc.minimize(ONE.problem, ONE.x0, method, epochs=3)
    assert tree.x["rest"].shape == (3, 1)
    joined = np.concatenate([tree.x["first"], tree.x["rest"].ravel()])
    np.testing.assert_allclose(joined, flat.x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("make", [one_level, two_level])
def test_dtypes_follow_the_arrays(make):
    """float64 without touching JAX's global switch; float32 stays float32, with the switch too."""
    assert not jax.config.read("jax_enable_x64")
    method = mvrc.MVRC(0.05, batch_size=6, period=4)
    wide = mvrc.minimize(make().problem, make().x0, method, epochs=3)
    case = make(dtype=np.float32)
    narrow = mvrc.minimize(case.problem, case.x0, method, epochs=3)
    assert wide.x.dtype == np.float64
    assert narrow.x.dtype == np.float32
    # 12 steps of float32 rounding on numbers of order one.
    np.testing.assert_allclose(narrow.x, wide.x, atol=2e-5)
    assert not np.array_equal(narrow.x.astype(float), wide.x)
    with jax.enable_x64(True):
        case = make(dtype=np.float32)
        again = mvrc.minimize(case.problem, case.x0, method, epochs=3)
    assert again.x.dtype == np.float32
    assert not jax.config.read("jax_enable_x64")


def test_numpy_and_jax_data_give_the_same_run():
    data = {k: np.asarray(v, np.float32) for k, v in ONE.problem.inner_data.items()}
    method = mvrc.MVRC(0.05, batch_size=6, period=4)
    x0 = ONE.x0.astype(np.float32)
    from_numpy = mvrc.Composition(ONE.problem.inner, ONE.problem.outer, data)
    from_jax = mvrc.Composition(
        ONE.problem.inner, ONE.problem.outer, {k: jnp.asarray(v) for k, v in data.items()}
    )
    a = mvrc.minimize(from_numpy, x0, method, epochs=2)
    b = mvrc.minimize(from_jax, jnp.asarray(x0), method, epochs=2)
    np.testing.assert_array_equal(a.x, b.x)
    assert isinstance(b.x, np.ndarray)


def written(x, sample):
    h = sample["a"] @ x
    slopes = jnp.stack([1.0, 2 * h, jnp.cos(h + sample["b"])])
    return slopes[:, None] * sample["a"]


@pytest.mark.parametrize("jacobian", ["matrix", "free"])
def test_hand_written_jacobian_is_used_and_right(jacobian):
    method = mvrc.MVRC(0.05, batch_size=6, period=4, jacobian=jacobian)
    by_hand = one_level(inner_jacobian=written)
    a = mvrc.minimize(by_hand.problem, ONE.x0, method, epochs=2)
    b = mvrc.minimize(ONE.problem, ONE.x0, method, epochs=2)
    np.testing.assert_allclose(a.x, b.x, rtol=0, atol=1e-13)
    wrong = one_level(inner_jacobian=lambda x, s: 2 * written(x, s))
    c = mvrc.minimize(wrong.problem, ONE.x0, method, epochs=2)
    assert np.abs(c.x - b.x).max() > 1e-3


def test_check_agrees_on_right_derivatives():
    for problem in (ONE.problem, TWO.problem, one_level(inner_jacobian=written).problem):
        report = problem.check(ONE.x0)
        assert report.ok, report
        assert "agree" in repr(report)
    single = one_level(dtype=np.float32)
    assert single.problem.check(single.x0)


def test_check_names_the_wrong_entry():
    def wrong(x, sample):
        return written(x, sample).at[1, 2].mul(1.01)

    report = one_level(inner_jacobian=wrong).problem.check(ONE.x0 + 1)
    assert not report.ok
    assert "your inner_jacobian" in repr(report)
    assert "entry (1, 2)" in repr(report)


def test_check_finds_a_broken_custom_derivative_and_a_pole():
    @jax.custom_jvp
    def square(u):
        return u**2

    square.defjvp(lambda primals, tangents: (square(*primals), 3 * primals[0] * tangents[0]))
    data = np.ones((4, 2))
    broken = mvrc.Composition(lambda x, s: s * x, lambda y: square(y[0]) + y[1], data)
    assert "autodiff of outer: entry (0, 0)" in repr(broken.check(np.array([1.0, 2.0])))
    pole = mvrc.Composition(lambda x, s: jnp.sqrt(s * x), lambda y: y[0], data)
    assert "not finite" in repr(pole.check(np.array([0.0, 1.0])))


@pytest.mark.parametrize("two", [False, True])
def test_stream_is_measured_on_one_fixed_batch(two):
    problem = online(two)
    x = np.full(5, 0.2, np.float32)
    assert problem.kind == ("E²" if two else "E¹")
    assert problem.objective(x) == online(two).objective(x)
    sizes = {"batch_size": 8, "period": 5, "refresh_size": 200}
    if two:
        sizes |= {"outer_batch_size": 8, "outer_refresh_size": 200}
    result = mvrc.minimize(problem, x, mvrc.MVRC(0.05, **sizes), epochs=30, seed=1)
    other = mvrc.minimize(problem, x, mvrc.MVRC(0.05, **sizes), epochs=30, seed=2)
    assert result.history["objective"][0] == other.history["objective"][0]
    assert result.objective < result.history["objective"][0] - 0.05
    assert result.history["objective"][1] != other.history["objective"][1]
    larger = mvrc.Stream(problem.inner_data.draw, evaluation_size=4000)
    bigger = mvrc.Composition(problem.inner, problem.outer, larger, problem.outer_data)
    assert bigger.objective(x) != problem.objective(x)


def test_estimated_constants_match_a_problem_where_they_are_known():
    """g linear with orthonormal rows scaled by s: l_g = s, L_g = 0; f quadratic: L_f = 2."""
    rng = np.random.default_rng(0)
    scale = 1.5
    rows = np.stack([scale * np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(50)])
    problem = mvrc.Composition(lambda x, s: s @ x, lambda y: jnp.sum(y**2), rows)
    constants = mvrc.estimate_constants(problem, np.ones(3), 2.0)
    assert constants.l_g == pytest.approx(scale, rel=1e-10)
    assert constants.L_g < 1e-12
    assert constants.L_f == pytest.approx(2, rel=1e-10)
    spread = np.mean(np.sum((rows - rows.mean(0)) ** 2, axis=(1, 2)))
    assert constants.sigma_dg == pytest.approx(np.sqrt(spread), rel=1e-10)
    assert 0 < constants.l_f < 2 * scale * np.sqrt(3) * 3
    method = mvrc.MVRC.from_theory(constants, problem, alpha=0.8)
    result = mvrc.minimize(problem, np.ones(3), method, epochs=20)
    assert np.all(np.diff(result.history["objective"]) < 0)


@pytest.mark.parametrize("alpha", [None, 0.8])
@pytest.mark.parametrize("name", ["Σ¹", "E¹", "Σ²", "E²"])
def test_theory_gives_methods_that_run(name, alpha):
    """The parameters of every class arrive in the method, and its first epoch descends."""
    problem = {"Σ¹": ONE.problem, "Σ²": TWO.problem, "E¹": online(), "E²": online(True)}[name]
    x0 = ONE.x0 if "Σ" in name else ONE.x0.astype(np.float32)
    assert problem.kind == name
    constants = mvrc.Constants(1.0, 1.0, 1.5, 1.0, 0.2, 0.2, 0.2)
    epsilon = 0.2 if name != "Σ¹" else None
    method = mvrc.MVRC.from_theory(constants, problem, epsilon=epsilon, alpha=alpha)
    resolved = resolve_on(problem, x0, method)
    if name == "E²":
        tau = int(1.5 / 0.2)
        assert (resolved.steps, resolved.batch.outer) == (tau, (54 if alpha is None else 6) * tau)
    if name == "Σ²":
        assert resolved.scheme.epsilon == epsilon
        assert resolved.refresh == mvrc.Sizes()
    result = mvrc.minimize(problem, x0, method, epochs=3, output="random")
    assert result.history["objective"][-1] < result.history["objective"][0]


def resolve_on(problem, x0, method):
    with problem.precision(x0):
        return method.resolve(problem, problem.geometry(x0), Start(problem, x0))


def test_dominance_needs_no_regularizer():
    constants = mvrc.Constants(1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="dominance is for problems without a regularizer"):
        mvrc.MVRC.from_theory(constants, ONE.problem, dominance=2.0)
    smooth = mvrc.Composition(ONE.problem.inner, ONE.problem.outer, ONE.problem.inner_data)
    method = mvrc.MVRC.from_theory(constants, smooth, dominance=2.0, epsilon=0.1)
    assert method.momentum.restart == "random"
    assert method.momentum.restart_every > 1


def test_large_stream_seeds_are_different_batches():
    """All 64 bits of a seed count, also those that JAX drops without its 64-bit mode."""
    draw, x = online().inner_data.draw, np.full(5, 0.2, np.float32)
    values = {
        mvrc.Composition(
            ONE.problem.inner, ONE.problem.outer, mvrc.Stream(draw, 100, seed=seed)
        ).objective(x)
        for seed in (0, 2**40, 2**63)
    }
    assert len(values) == 3
