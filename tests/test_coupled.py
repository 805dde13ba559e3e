"""Coupled problems: an inner mean of its own for every outer sample."""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mvrc
from mvrc.estimators import Ema, Msvr, PlugIn, RandomLevel, Sox
from mvrc.estimators.plug_in import PlugInState
from mvrc.oracle import Oracle
from mvrc.sampling import Pair, Words
from mvrc.sampling.pairs import Paired
from mvrc.sampling.rows import Gathered, Numbers

N, n, D = 12, 60, 3
TABLED = ("pool", "others", "groups")
KINDS = (*TABLED, "simulator")
METHODS = ("bsgd", "sox", "msvr", "bspiderboost", "rt-mlmc", "mvrc")


def inner(x: Any, k: Any, s: Any) -> Any:
    return jnp.stack([jnp.sin(k @ x) * (s @ x), (s @ x - k[0]) ** 2])


def outer(y: Any, k: Any) -> Any:
    return jnp.log1p(y[0] ** 2) + jnp.sqrt(1 + y[1]) + 0.1 * k[1] * y[0]


def rows(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, D))


def draw(key: Any, k: Any, size: int) -> Any:
    """One of two points, so that the conditional mean is known."""
    sign = jax.random.rademacher(key, (size, 1), dtype=k.dtype)
    return k + 0.7 * sign


def problem(kind: str, dtype: Any = np.float64, **options: Any) -> mvrc.Coupled:
    outside = rows(N, 0).astype(dtype)
    if kind == "pool":
        return mvrc.Coupled(inner, outer, rows(n, 1).astype(dtype), outside, **options)
    if kind == "others":
        return mvrc.Coupled(inner, outer, outside, outside, others=True, **options)
    if kind == "groups":
        return mvrc.Coupled(
            inner, outer, rows(n, 1).astype(dtype), outside, groups=GROUPS, **options
        )
    return mvrc.Coupled(inner, outer, mvrc.Simulator(draw, 50), outside, **options)


GROUPS = np.concatenate([np.arange(N), np.random.default_rng(2).integers(0, N, n - N)])


def inner_rows(kind: str, k: int) -> np.ndarray:
    """The inner samples of outer sample k."""
    if kind == "pool":
        return rows(n, 1)
    if kind == "others":
        return np.delete(rows(N, 0), k, axis=0)
    return rows(n, 1)[k == GROUPS]


X0 = np.array([0.3, -0.5, 0.8])


@pytest.mark.parametrize("kind", KINDS)
def test_objective_and_gradient_are_those_of_the_sum_as_it_is_written(kind: str) -> None:
    given = problem(kind)
    inside = [inner_rows(kind, k) for k in range(N)] if kind in TABLED else evaluated()
    pairs = list(enumerate(inside))
    total = sum(outer_value(value(X0, k, rows), k) for k, rows in pairs) / N
    assert given.objective(X0) == pytest.approx(total, rel=1e-13)
    wanted = sum(slope(X0, k, r).T @ outer_slope(value(X0, k, r), k) for k, r in pairs) / N
    np.testing.assert_allclose(given.gradient(X0), wanted, rtol=1e-11, atol=1e-13)
    assert given.check(X0)


def evaluated() -> np.ndarray:
    """The fixed draws of the simulator, by which Φ is evaluated."""

    @jax.jit
    @jax.vmap
    def inside(k: Any, row: Any) -> Any:
        key = jax.random.wrap_key_data(np.array([0, 0], np.uint32))
        return draw(jax.random.fold_in(key, k), row, 50)

    with problem("simulator").precision(X0):
        return np.asarray(inside(np.arange(N), rows(N, 0)))


@pytest.mark.parametrize("together", [4, 16, 100])
def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    for kind in KINDS:
        whole = problem(kind).gradient(X0)
        monkeypatch.setattr("mvrc.oracle.coupled.TOGETHER", together)
        np.testing.assert_allclose(problem(kind).gradient(X0), whole, rtol=1e-11, atol=1e-14)
        monkeypatch.undo()


@pytest.mark.parametrize("kind", KINDS)
def test_auto_solves_and_says_what_it_did(kind: str) -> None:
    result = mvrc.minimize(problem(kind), X0)
    assert result.status is mvrc.Status.CONVERGED
    gradient = np.asarray(problem(kind).gradient(result.x))
    assert np.linalg.norm(gradient) < 1e-5
    pairs, outside = problem(kind).evaluations
    assert result.counts.inner_values == (result.epochs + 1) * pairs
    assert outside == N
    assert ("simulator" in result.explain()) == (kind == "simulator")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.one_in(3)
def test_every_method_gets_on(kind: str, method: str) -> None:
    if method == "rt-mlmc" and kind not in ("simulator", "pool"):
        pytest.skip("fewer inner samples than it has levels for")
    given = problem(kind, inner_batch=16 if kind in ("simulator", "pool") else 4)
    result = mvrc.minimize(given, X0, method, epochs=15)
    assert np.isfinite(result.objective)
    assert result.objective < result.history["objective"][0]


def parts(given: mvrc.Coupled, size: int, steps: int = 50) -> Any:
    """Functions of a problem, tickets of its small batches, and what opens them."""
    source = given.inner_source
    tickets = jnp.asarray(source.tickets(Words(3), steps, size))
    return given.functions(given.geometry(X0)), tickets, lambda ticket: source.small(ticket, size)


def followed(given: mvrc.Coupled, estimator: Any, size: int, path: Any = None) -> Any:
    """An estimator refreshed on everything and updated along a path, as one program: its gradients
    and batches, its last state, and the counts of an update."""
    path = PATH if path is None else path
    counts = []
    with given.precision(X0):
        functions, tickets, opened = parts(given, size)

        @jax.jit
        def run(path: Any) -> Any:
            everything = Oracle(functions, {"values": given.inner_source.everything()})

            def step(state: Any, at: Any) -> Any:
                ticket, x = at
                oracle = Oracle(functions, {"values": opened(ticket)})
                state = estimator.update(oracle, state, x)
                counts.append(oracle.counts)
                return state, (state.gradient, opened(ticket).samples())

            begun = estimator.refresh(everything, path[0])
            return jax.lax.scan(step, begun, (tickets[: len(path)], path))

        state, (gradients, pairs) = run(jnp.asarray(np.stack(path)))
    pairs = jax.tree_util.tree_map(np.asarray, pairs)
    pairs = [jax.tree_util.tree_map(lambda a, t=t: a[t], pairs) for t in range(len(path))]
    return np.asarray(gradients), pairs, state, counts[-1]


def drawn(kind: str, pair: Any) -> list[tuple[int, np.ndarray]]:
    """Outer samples of a batch with their inner ones, as numbers."""
    found = []
    for i, k in enumerate(pair.k):
        if pair.inside is None:
            inside = inner_rows(kind, int(k))
        elif kind == "pool":
            inside = rows(n, 1)[pair.inside]
        elif kind == "others":
            chosen = [j for j in pair.inside if j != k]
            inside = rows(N, 0)[chosen[: len(pair.inside) - 1]]
        else:
            inside = rows(n, 1)[np.argsort(GROUPS, kind="stable")][pair.inside[i]]
        found.append((int(k), inside))
    return found


def value(x: np.ndarray, k: int, inside: np.ndarray) -> np.ndarray:
    """gₖ by NumPy."""
    a = rows(N, 0)[k]
    return np.stack([np.sin(a @ x) * (inside @ x), (inside @ x - a[0]) ** 2]).mean(axis=1)


def slope(x: np.ndarray, k: int, inside: np.ndarray) -> np.ndarray:
    """gₖ' by NumPy."""
    a = rows(N, 0)[k]
    first = np.cos(a @ x) * a * (inside @ x)[:, None] + np.sin(a @ x) * inside
    second = 2 * (inside @ x - a[0])[:, None] * inside
    return np.stack([first.mean(axis=0), second.mean(axis=0)])


def outer_slope(y: np.ndarray, k: int) -> np.ndarray:
    b = rows(N, 0)[k][1]
    return np.array([2 * y[0] / (1 + y[0] ** 2) + 0.1 * b, 0.5 / np.sqrt(1 + y[1])])


def outer_value(y: np.ndarray, k: int) -> float:
    return np.log1p(y[0] ** 2) + np.sqrt(1 + y[1]) + 0.1 * rows(N, 0)[k][1] * y[0]


PATH = [X0 + 0.05 * t * np.array([1.0, -1.0, 0.5]) for t in range(6)]


@pytest.mark.parametrize("kind", TABLED)
@pytest.mark.parametrize("start", ["exact", "first"])
@pytest.mark.one_in(2)
def test_sox_is_its_rule(kind: str, start: str) -> None:
    """Against a slow twin in NumPy on the same batches."""
    given = problem(kind, inner_batch=4)
    gamma, beta = 0.3, 0.2
    estimator = Sox(mvrc.Power(gamma), mvrc.Power(beta), start)
    u = {k: value(X0, k, inner_rows(kind, k)) for k in range(N)} if start == "exact" else {}
    v = None
    gradients, batches, state, counts = followed(given, estimator, 5)
    for x, batch, gradient in zip(PATH, batches, gradients, strict=True):
        total = np.zeros(D)
        for k, inside in drawn(kind, batch):
            now = value(x, k, inside)
            u[k] = (1 - gamma) * u[k] + gamma * now if k in u else now
            total += slope(x, k, inside).T @ outer_slope(u[k], k) / 5
        v = total if v is None else (1 - beta) * v + beta * total
        np.testing.assert_allclose(gradient, v, rtol=1e-11, atol=1e-13)
    table = np.asarray(state.table)
    for k in u:
        np.testing.assert_allclose(table[k], u[k], rtol=1e-11)
    assert counts.outer_gradients == 5
    each = 4 + (kind == "others")
    assert counts.inner_values == counts.inner_jacobians == 5 * each


@pytest.mark.parametrize("kind", TABLED)
@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.one_in(2)
def test_msvr_is_its_rule(kind: str, recursive: bool) -> None:
    given = problem(kind, inner_batch=4)
    gamma, beta, size = 0.3, 0.2, 5
    share = (N - size) / (size * (1 - gamma)) + (1 - gamma)
    estimator = Msvr(gamma, beta, recursive, "exact")
    u = {k: value(X0, k, inner_rows(kind, k)) for k in range(N)}
    v, before = None, X0
    gradients, batches, _, counts = followed(given, estimator, size)
    for x, batch, gradient in zip(PATH, batches, gradients, strict=True):
        total, earlier = np.zeros(D), np.zeros(D)
        for k, inside in drawn(kind, batch):
            now, then = value(x, k, inside), value(before, k, inside)
            earlier += slope(before, k, inside).T @ outer_slope(u[k], k) / size
            u[k] = (1 - gamma) * u[k] + gamma * now + share * (now - then)
            total += slope(x, k, inside).T @ outer_slope(u[k], k) / size
        if v is None:
            v = total
        elif recursive:
            v = (1 - beta) * (v - earlier) + total
        else:
            v = (1 - beta) * v + beta * total
        np.testing.assert_allclose(gradient, v, rtol=1e-10, atol=1e-12)
        before = x
    once = size * (4 + (kind == "others"))  # version 1 asks for Jacobians at the new point only
    assert counts.inner_values == 2 * once
    assert counts.inner_jacobians == (2 * once if recursive else once)


@pytest.mark.parametrize("kind", TABLED)
def test_without_memory_sox_is_the_plug_in(kind: str) -> None:
    given = problem(kind, inner_batch=4)
    one = mvrc.Power(1.0)
    sox, plug = (followed(given, e, 5, PATH[:3])[0] for e in (Sox(one, one), PlugIn()))
    np.testing.assert_allclose(sox, plug, rtol=1e-12)


def test_an_inner_function_without_k_is_a_composition() -> None:
    """The same numbers on the same batches: exact, plug-in, and SOX with every k as SCGD."""
    free = lambda x, s: jnp.stack([jnp.sin(s @ x), (s @ x) ** 2])  # noqa: E731
    pool, outside = rows(n, 1), rows(N, 0)
    coupled = mvrc.Coupled(lambda x, k, s: free(x, s), outer, pool, outside, inner_batch=4)
    plain = mvrc.Composition(free, outer, pool, outside)
    assert coupled.objective(X0) == pytest.approx(plain.objective(X0), rel=1e-13)
    np.testing.assert_allclose(coupled.gradient(X0), plain.gradient(X0), rtol=1e-12)
    with coupled.precision(X0):
        functions, tickets, opened = parts(coupled, N)
        _, some, opened_some = parts(coupled, 5)
        other = plain.functions(plain.geometry(X0))
        gamma = mvrc.Power(0.4)
        sox, ema = Sox(gamma, mvrc.Power(1.0)), Ema(gamma)
        inside, outside_all = plain.everything()
        pool, outside = jnp.asarray(pool), jnp.asarray(outside)

        @jax.jit
        def begin(x: Any) -> Any:
            everything = Oracle(functions, {"values": coupled.inner_source.everything()})
            both = Oracle(other, {"values": inside, "outer": outside_all})
            return sox.refresh(everything, x), ema.refresh(both, x)

        @jax.jit
        def step(states: Any, x: Any, all_k: Any, some_k: Any) -> Any:
            small = opened(all_k)
            same = {"values": Gathered(pool, small.samples().inside, 4), "outer": outside_all}
            state = sox.update(Oracle(functions, {"values": small}), states[0], x)
            average = ema.update(Oracle(other, same), states[1], x)
            few = opened_some(some_k)
            pair, begun = few.samples(), PlugInState(x)
            same = {"values": Gathered(pool, pair.inside, 4), "outer": Gathered(outside, pair.k, 5)}
            first = PlugIn().update(Oracle(functions, {"values": few}), begun, x)
            second = PlugIn().update(Oracle(other, same), begun, x)
            return (state, average), (first.gradient, second.gradient)

        states = begin(jnp.asarray(X0))
        for t, x in enumerate(PATH):
            states, plug_in = step(states, jnp.asarray(x), tickets[t], some[t + 10])
            np.testing.assert_allclose(states[0].gradient, states[1].gradient, rtol=1e-12)
            np.testing.assert_allclose(*plug_in, rtol=1e-12)


def test_one_outer_sample_is_a_composition_of_one_level() -> None:
    k = rows(1, 0)
    coupled = mvrc.Coupled(inner, outer, rows(n, 1), k)
    plain = mvrc.Composition(lambda x, s: inner(x, k[0], s), lambda y: outer(y, k[0]), rows(n, 1))
    np.testing.assert_allclose(coupled.gradient(X0), plain.gradient(X0), rtol=1e-12)
    first, second = (mvrc.minimize(p, X0).x for p in (coupled, plain))
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", TABLED)
def test_full_batches_are_the_gradient_method(kind: str) -> None:
    """SOX without memory, MSVR and SPIDER from an exact start, to 1e-10 of a NumPy twin."""
    step, x, wanted = 0.05, X0, []
    for _ in range(8):
        total = np.zeros(D)
        for k in range(N):
            inside = inner_rows(kind, k)
            total += slope(x, k, inside).T @ outer_slope(value(x, k, inside), k) / N
        x = x - step * total
        wanted.append(x)
    every = {"batch_size": N, "period": 4}
    methods = (
        mvrc.BSGD(step, **every),
        mvrc.SOX(step, weight=1.0, gradient_weight=1.0, **every),
        mvrc.MSVR(step, weight=0.5, gradient_weight=0.3, start="exact", **every),
        mvrc.MSVR(step, weight=1.0, gradient_weight=1.0, **every),
        mvrc.BSpiderBoost(step, **every),
    )
    for method in methods:
        given = problem(kind, inner_batch=n)
        result = mvrc.minimize(given, X0, method, epochs=2)
        np.testing.assert_allclose(result.x, wanted[-1], rtol=1e-10, err_msg=str(method))


@pytest.mark.parametrize("kind", KINDS)
def test_inner_draws_are_unbiased(kind: str) -> None:
    """The mean of gₖ over many batches is gₖ, and row k is never among the others of k."""
    given = problem(kind, inner_batch=3)
    with given.precision(X0):
        functions, *_ = parts(given, 3)
        k = jnp.arange(N, dtype=jnp.int32)

        @jax.jit
        def one(key: Any) -> Any:
            return functions.means(jnp.asarray(X0), Pair(k, given.inner_source.inside.draw(
                key, 0, k, 3)))  # fmt: skip

        found = jax.lax.map(one, jax.random.split(jax.random.key(5), 20_000), batch_size=500)
        exact = functions.means(jnp.asarray(X0), Pair(k))
        error = np.abs(found.mean(axis=0) - exact)
        allowed = 4.5 * found.std(axis=0) / np.sqrt(len(found)) + 1e-12
        if kind == "simulator":  # two points: the conditional mean is known
            ahead = np.stack([rows(N, 0) + 0.7, rows(N, 0) - 0.7])
            exact = np.stack([value(X0, i, ahead[:, i]) for i in range(N)])
            error = np.abs(found.mean(axis=0) - exact)
        assert np.all(error <= allowed)


def test_groups_of_equal_size_are_a_sampler_in_distribution() -> None:
    """Mean and spread of the plug-in over many keys."""
    size = 4
    inside = rows(N * size, 4)
    groups = np.repeat(np.arange(N), size)

    def sample(key: Any, k: Any, count: int) -> Any:
        chosen = jax.random.randint(key, (count,), 0, size)
        return k[D:].reshape(size, D)[chosen]

    outside = np.concatenate([rows(N, 0), inside.reshape(N, -1)], axis=1)
    g = lambda x, k, s: inner(x, k[:D], s)  # noqa: E731
    f = lambda y, k: outer(y, k[:D])  # noqa: E731
    pair = (
        mvrc.Coupled(g, f, inside, outside, groups=groups, inner_batch=3),
        mvrc.Coupled(g, f, mvrc.Simulator(sample), outside, inner_batch=3),
    )
    spreads = []
    for given in pair:
        with given.precision(X0):
            functions, tickets, opened = parts(given, 5, 20_000)

            def one(t: Any, functions: Any = functions, opened: Any = opened) -> Any:
                oracle = Oracle(functions, {"values": opened(t)})
                begun = PlugInState(jnp.asarray(X0))
                return PlugIn().update(oracle, begun, jnp.asarray(X0)).gradient

            found = jax.jit(lambda t, one=one: jax.lax.map(one, t, batch_size=500))(tickets)
        spreads.append((np.mean(found, axis=0), np.std(found, axis=0)))
    (first, one), (second, two) = spreads
    assert np.all(np.abs(first - second) <= 4.5 * (one + two) / np.sqrt(20_000))
    np.testing.assert_allclose(one, two, rtol=0.05)


def test_random_levels_have_the_mean_of_all_inner_samples() -> None:
    """The plug-in with two inner samples is far off, with all sixteen it is what they give."""
    given = problem("pool", inner_batch=16)
    with given.precision(X0):
        functions, tickets, opened = parts(given, N, 40_000)
        at = jnp.asarray(X0)

        def mean(estimator: Any) -> tuple[np.ndarray, np.ndarray]:
            def one(t: Any) -> Any:
                oracle = Oracle(functions, {"values": opened(t)})
                return estimator.update(oracle, estimator.refresh(oracle, at), at).gradient

            found = jax.jit(lambda t: jax.lax.map(one, t, batch_size=100))(tickets)
            return np.mean(found, axis=0), np.std(found, axis=0) / 200

        (levels, error), (plug, other) = mean(RandomLevel(3)), mean(PlugIn())
    assert np.all(np.abs(levels - plug) <= 4.5 * np.hypot(error, other))


def test_a_k_that_is_there_twice() -> None:
    """Both go into the gradient, and the table keeps their mean."""
    given = problem("groups", inner_batch=3)
    with given.precision(X0):
        functions, *_ = parts(given, 3)
        source = given.inner_source
        sox = Sox(mvrc.Power(0.3), mvrc.Power(1.0))

        @jax.jit
        def run(k: Any, x: Any) -> Any:
            batch = Paired(Numbers(k, 3), source, jax.random.key(2))
            everything = Oracle(functions, {"values": source.everything()})
            state = sox.refresh(everything, x)
            new = sox.update(Oracle(functions, {"values": batch}), state, x)
            return state.table, new.table, functions.means(x, batch.samples())

        old, new, now = map(np.asarray, run(jnp.array([4, 7, 4], jnp.int32), jnp.asarray(X0)))
    assert not np.allclose(now[0], now[2])
    np.testing.assert_allclose(new[4], 0.7 * old[4] + 0.3 * (now[0] + now[2]) / 2, rtol=1e-12)
    np.testing.assert_allclose(new[3], old[3])


@pytest.mark.parametrize("method", ["sox", "msvr", "mvrc", "rt-mlmc"])
@pytest.mark.parametrize("kind", ["pool", "simulator"])
@pytest.mark.one_in(2)
def test_a_resumed_run_is_the_same_run(kind: str, method: str, tmp_path: Any) -> None:
    given = problem(kind, inner_batch=16)
    whole = mvrc.minimize(given, X0, method, epochs=6)
    mvrc.minimize(given, X0, method, epochs=3).save(tmp_path / "half")
    half = mvrc.Result.load(tmp_path / "half")
    again = mvrc.minimize(given, X0, method, epochs=6, resume=half)
    np.testing.assert_array_equal(whole.x, again.x)
    mvrc.minimize(given, X0, method, epochs=3, checkpoint=tmp_path / "folder")
    last = mvrc.minimize(given, X0, method, epochs=6, checkpoint=tmp_path / "folder")
    np.testing.assert_array_equal(whole.x, last.x)


def test_seeds_side_by_side_are_the_runs_one_by_one() -> None:
    given = problem("groups", inner_batch=2)
    many = mvrc.minimize_many(given, X0, "sox", seeds=3, epochs=4)
    for seed, one in enumerate(many):
        alone = mvrc.minimize(given, X0, "sox", seed=seed, epochs=4)
        np.testing.assert_allclose(one.x, alone.x, rtol=1e-12)


def test_single_precision_regularisers_optimisers_and_models() -> None:
    given = problem("pool", np.float32)
    result = mvrc.minimize(given, X0.astype(np.float32), "msvr", epochs=5)
    assert result.x.dtype == np.float32
    assert np.isfinite(result.objective)
    box = problem("others", regularizer=mvrc.Box(-0.2, 0.2))
    assert np.abs(mvrc.minimize(box, 0 * X0, "sox", epochs=5).x).max() <= 0.2
    adam = mvrc.Method(
        Sox(mvrc.Power(0.5), mvrc.Power(1.0)), mvrc.OptaxScheme(optax.adam(0.05)), mvrc.Sizes(4)
    )
    found = mvrc.minimize(problem("pool"), X0, adam, epochs=30)
    assert found.objective < found.history["objective"][0]
    short = mvrc.minimize(problem("pool"), X0, optax.adam(0.05), epochs=30)
    assert short.objective < short.history["objective"][0]

    model = eqx.nn.MLP(D, 1, 4, 1, key=jax.random.key(0))
    score = lambda m, k, s: jax.nn.softplus(m(s) - m(k))  # noqa: E731
    ranked = mvrc.Coupled(
        score, lambda y, k: jnp.log1p(y[0]), rows(n, 1).astype("f"), rows(N, 0).astype("f")
    )
    trained = mvrc.minimize(ranked, model, "sox", epochs=5)
    assert isinstance(trained.x, eqx.nn.MLP)


def test_mistakes_are_sentences() -> None:
    pool, outside = rows(n, 1), rows(N, 0)
    make = lambda *a, **k: mvrc.Coupled(inner, outer, *a, **k)  # noqa: E731
    with pytest.raises(ValueError, match="outer sample 11 has no inner samples"):
        make(pool, outside, groups=np.arange(n) % (N - 1))
    with pytest.raises(
        ValueError, match="groups has the number 12, but outer samples are .* 0 to 11"
    ):
        make(pool, outside, groups=np.arange(n) % (N + 1))
    with pytest.raises(ValueError, match="groups has shape .* an integer for each of the 60 rows"):
        make(pool, outside, groups=np.arange(5))
    with pytest.raises(ValueError, match="both must be the same points"):
        make(pool, outside, others=True)
    with pytest.raises(ValueError, match="groups is for arrays"):
        make(mvrc.Simulator(draw), outside, groups=GROUPS)
    with pytest.raises(TypeError, match="outer_sample, sample"):
        mvrc.Coupled(lambda x, s: x, outer, pool, outside)
    with pytest.raises(ValueError, match=r"inner\(x, outer_sample, sample\) failed"):
        mvrc.minimize(mvrc.Coupled(lambda x, k, s: x @ k[:2], outer, pool, outside), X0)
    with pytest.raises(ValueError, match=r"draw\(key, outer_sample, 3\) .* 3 rows"):
        wrong = mvrc.Simulator(lambda key, k, size: jnp.zeros((size + 1, D)))
        mvrc.minimize(mvrc.Coupled(inner, outer, wrong, outside), X0)
    with pytest.raises(ValueError, match="does not use its key"):
        same = mvrc.Simulator(lambda key, k, size: jnp.zeros((size, D)))
        mvrc.minimize(mvrc.Coupled(inner, outer, same, outside), X0)
    with pytest.raises(ValueError, match="pole"):
        mvrc.minimize(problem("pool"), X0, mvrc.MSVR(weight=1.0, batch_size=3))
    with pytest.raises(ValueError, match="of a Coupled problem"):
        mvrc.minimize(
            mvrc.Composition(lambda x, s: x * s, lambda y: y @ y, pool), X0, "sox", epochs=1
        )
    with pytest.raises(ValueError, match="'sox' or 'msvr'"):
        mvrc.minimize(problem("pool"), X0, "c-saga", epochs=1)
    with pytest.raises(ValueError, match="inner_batch is 4"):
        mvrc.minimize(problem("pool", inner_batch=4), X0, "rt-mlmc", epochs=1)
    with pytest.raises(ValueError, match="'averaged'"):
        mvrc.minimize(problem("pool"), X0, mvrc.Auto("averaged"), epochs=1)


def test_the_error_of_the_plug_in_falls_with_the_inner_batch_and_sox_goes_on() -> None:
    """f(y) = y⁴ − y² of a mean: the plug-in has a minimum elsewhere, by about 1/|B₂|."""
    count = 60
    outside = np.random.default_rng(0).uniform(0.5, 1.5, (count, 1))

    def sample(key: Any, k: Any, size: int) -> Any:
        return jax.random.normal(key, (size, 1))

    g = lambda x, k, s: x - k + s  # noqa: E731
    f = lambda y, k: jnp.exp(y[0]) - y[0]  # noqa: E731
    x0 = np.zeros(1)
    # E exp(y + s̄) = exp(y + 1/2m): Φ = mean exp(x − k) − x, the plug-in's minimum is 1/2m lower.
    exact = -np.log(np.mean(np.exp(-outside)))
    distance = {}
    for size, method in itertools.product((1, 4), (mvrc.BSGD, mvrc.SOX)):
        given = mvrc.Coupled(g, f, mvrc.Simulator(sample, 4), outside, inner_batch=size)
        weight = {} if method is mvrc.BSGD else {"weight": 0.02, "gradient_weight": 0.1}
        chosen = method(0.02, batch_size=20, period=60, **weight)
        runs = mvrc.minimize_many(given, x0, chosen, seeds=4, epochs=15, record_every=15)
        distance[method.__name__, size] = np.mean([r.x[0] for r in runs]) - exact
    for size in (1, 4):
        assert distance["BSGD", size] == pytest.approx(-1 / (2 * size), abs=0.05)
        assert abs(distance["SOX", size]) < 0.05


@pytest.mark.parametrize("kind", ["pool", "groups"])
@pytest.mark.parametrize("name", ["sox", "msvr", "bsgd"])
@pytest.mark.one_in(2)
def test_the_tracker_has_the_numbers_of_minimize(kind: str, name: str) -> None:
    given = problem(kind, inner_batch=4)
    own = {
        "sox": Sox(mvrc.Power(0.3), mvrc.Power(0.2), "first"),
        "msvr": Msvr(0.3, 0.2, True, "first"),
        "bsgd": PlugIn(),
    }[name]
    tracker = mvrc.tracker(
        inner, outer, name, weight=0.3, gradient_weight=0.2, coupled=True, count=N,
        shared=kind == "pool",
    )  # fmt: skip
    gradients, batches, _, _ = followed(given, own, 5)
    with given.precision(X0):
        outside, inside = jnp.asarray(rows(N, 0)), jnp.asarray(given.inner_data)
        kept, update = None, jax.jit(tracker.update)
        surrogate = jax.jit(jax.grad(lambda x, kept, handed: tracker.surrogate(kept, x, handed)))
        for x, pair, gradient in zip(PATH, batches, gradients, strict=True):
            handed = jnp.asarray(pair.k), outside[pair.k], inside[pair.inside]
            kept = tracker.init(jnp.asarray(x), handed) if kept is None else kept
            of_surrogate = surrogate(jnp.asarray(x), kept, handed)
            found, kept = update(kept, jnp.asarray(x), handed)
            np.testing.assert_allclose(found, gradient, rtol=1e-12)
            np.testing.assert_allclose(of_surrogate, found, rtol=1e-9, atol=1e-12)


def test_a_tracker_that_is_given_the_wrong_batch_says_so() -> None:
    with pytest.raises(ValueError, match="count is required"):
        mvrc.tracker(inner, outer, "sox", coupled=True)
    with pytest.raises(ValueError, match="coupled=True; leave them out"):
        mvrc.tracker(lambda x, s: x, lambda y: y[0], count=3)
    tracker = mvrc.tracker(inner, outer, coupled=True, count=N)
    with pytest.raises(TypeError, match="indices, outer samples, inner samples"):
        tracker.init(X0, rows(4, 0))
    with pytest.raises(ValueError, match="one leading axis, of the outer samples"):
        tracker.init(X0, (np.arange(3), rows(4, 0), rows(5, 1)))


def test_files_and_shards_are_refused_in_a_sentence(tmp_path):
    rows = np.ones((8, 3))
    np.save(tmp_path / "rows.npy", rows)
    shards = mvrc.Sharded(lambda k: rows[4 * k : 4 * k + 4], shards=2)
    for source in (mvrc.File(tmp_path / "rows.npy"), shards):
        with pytest.raises(TypeError, match="inner_data of a Coupled problem must be arrays"):
            mvrc.Coupled(lambda x, k, s: s @ x, lambda y, k: y, source, rows)
