"""The structure of g': rows that do not depend on x, entries that are 0, groups of rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from cases import estimate_at
from mvrc.applications import sparse_additive
from mvrc.oracle.structure import Structure

SQUARE = jax.custom_vjp(lambda x: x**2)
SQUARE.defvjp(lambda x: (x**2, x), lambda x, u: (2 * x * u,))
TWICE = jax.custom_vjp(lambda x: 2 * x)
TWICE.defvjp(lambda x: (2 * x, None), lambda _, u: (2 * u,))

MOVING = {
    "moments": (lambda x, r: jnp.stack([r @ x, (r @ x) ** 2]), [0, 1]),
    "affine": (lambda x, r: r * x + 1, [0, 0, 0]),
    "constant": (lambda x, r: r, [0, 0, 0]),
    "picked": (lambda x, r: jnp.array([x[0], x[1] * x[2], r @ x]), [0, 1, 0]),
    "joined": (lambda x, r: jnp.concatenate([r * x, jnp.sin(x[:1])]), [0, 0, 0, 1]),
    "scaled": (lambda x, r: 3 * jnp.hstack([r @ x, (r @ x) ** 2]) / r[:2], [0, 1]),
    "kink": (lambda x, r: jnp.maximum(r * x, 0), [1, 1, 1]),
    "branch": (lambda x, r: jnp.where(x > 0, x, 2 * x), [1, 1, 1]),
    "mixed": (lambda x, r: jnp.cumsum(jnp.stack([r @ x, (r @ x) ** 2])), [0, 1]),
    "columns": (lambda x, r: jnp.stack([r[:2] * x[:2], x[:2] ** 2]).ravel(order="F"), [0, 1, 0, 1]),
    "unknown": (lambda x, r: jnp.sort(x)[:2] + x[0] ** 2, [1, 1]),
    "linear without forward mode": (lambda x, r: TWICE(x), [1, 1, 1]),
    "no forward mode": (lambda x, r: SQUARE(x), [1, 1, 1]),
}


def structure_of(g, d=3, sample=3) -> Structure:
    problem = mvrc.Composition(g, lambda y: jnp.sum(y), np.ones((4, sample)))
    x = np.ones(d)
    with problem.precision(x):
        return problem.geometry(x).jacobian


@pytest.mark.parametrize("name", MOVING)
def test_rows_that_depend_on_x(name):
    function, expected = MOVING[name]
    np.testing.assert_array_equal(structure_of(function).depends_on_x, expected)


def neighbours(x, r):
    return (x[1:] - r[0] * x[:-1]) ** 2


def branching(x, r):
    return jax.lax.cond(r[0] > 0, lambda x: x**2, lambda x: 2 * x[::-1], x)


D = 12
SPARSE = {  # g of 12 unknowns, and the fewest passes that a greedy rule should find
    "diagonal": (lambda x, r: jnp.sin(r[0] * x), 1),
    "one dense row": (lambda x, r: jnp.append(x**2, r @ x), 2),
    "differences": (neighbours, 2),
    "products of matrices": (lambda x, r: (x.reshape(6, 2) @ r[:2]) ** 2, 1),
    "batched products": (
        lambda x, r: jnp.einsum("kij,kj->ki", r.reshape(3, 2, 2), x.reshape(6, 2)[:3]).ravel(), 2,
    ),
    "turned": (lambda x, r: (x.reshape(3, 4).T.ravel() * r)[::-1], 1),
    "gathered": (lambda x, r: x[np.array([3, 1, 3, 7, 11, 0, 2])] ** 2, 1),
    "strided": (lambda x, r: x[::2] * r[1::2], 1),
    "padded": (lambda x, r: jnp.pad(x**2, (2, 3)), 12),  # pad is not followed
    "unknown indices": (lambda x, r: x[jnp.argsort(r)[:6]] ** 2, 6),
    "unknown branch": (branching, 12),
    "running": (lambda x, r: jnp.cumsum(x[:8]), 8),
    "blocks": (lambda x, r: jax.nn.softmax(x.reshape(4, 3), axis=1).ravel(), 3),
    "called": (lambda x, r: jax.jit(neighbours)(x, r), 2),
    "checkpointed": (lambda x, r: jax.checkpoint(neighbours)(x, r), 2),
    "tall": (lambda x, r: jnp.concatenate([x * k for k in range(1, 6)]), 1),
    "dense": (lambda x, r: jnp.tanh(jnp.outer(r, r)[:7] @ x), 7),
    "no dependence": (lambda x, r: r * 2, 1),
}  # fmt: skip


def dense_jacobians(g, d, size):
    """g' at random points and samples, in float64."""
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        one = jax.jit(jax.jacrev(lambda x, r: jnp.ravel(g(x, r))))
        for _ in range(5):
            yield np.asarray(one(rng.standard_normal(d), rng.standard_normal(size)))


def matrix_of(g, x, r):
    """g' of one sample by the library: mean over two equal rows, kept and expanded."""
    from mvrc.oracle import Oracle

    problem = mvrc.Composition(g, lambda y: jnp.sum(y), np.stack([r, r]))
    with problem.precision(x):
        geometry = problem.geometry(x)
        oracle = Oracle(problem.functions(geometry))
        kept = oracle.jacobian(jnp.asarray(x), problem.inner_source.everything())
        u = np.arange(1.0, geometry.y.size + 1)
        matrix = geometry.jacobian.expand(kept)
        pulled = oracle.pull(kept, jnp.asarray(u))
        again = geometry.jacobian.compress(matrix)
        return geometry.jacobian, *(np.asarray(a) for a in (kept, matrix, pulled, u, again))


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.one_in(2)
def test_few_passes_give_the_whole_matrix(name):
    g, passes = SPARSE[name]
    rng = np.random.default_rng(1)
    x, r = rng.standard_normal(D), rng.standard_normal(D)
    structure, kept, matrix, pulled, u, again = matrix_of(g, x, r)
    with jax.enable_x64(True):
        exact = np.asarray(jax.jacrev(g)(x, r))
    assert structure.passes == passes
    np.testing.assert_allclose(matrix, exact, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(pulled, exact.T @ u, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(again, kept)


@pytest.mark.parametrize("name", SPARSE)
def test_the_pattern_holds_for_random_samples(name):
    """No entry that is 0 by structure is met as another number; rows that stay stay."""
    from mvrc.oracle.dependence import dependence

    g, _ = SPARSE[name]

    def tangent(x, along, r):
        return jax.jvp(lambda x: jnp.ravel(g(x, r)), (x,), (along,))[1]

    found = dependence(jax.make_jaxpr(tangent)(jnp.ones(D), jnp.ones(D), jnp.ones(D)), True)
    for matrix in dense_jacobians(g, D, D):
        assert not np.any(matrix[~found.pattern])
    x, y, r = (np.random.default_rng(5).standard_normal(D) for _ in range(3))
    with jax.enable_x64(True):
        change = jax.jacrev(g)(2 * x, r) - jax.jacrev(g)(y - 3, r)
    assert not np.any(np.asarray(change)[~found.moving])


@pytest.mark.parametrize("name", SPARSE)
def test_agrees_with_another_detector(name):
    """`asdex` as a reference: its groups of rows or columns are as many."""
    # Not installed, or a release that does not import with this JAX (0.5.2 with JAX 0.12).
    asdex = pytest.importorskip("asdex", exc_type=ImportError)
    g, _ = SPARSE[name]
    pattern = asdex.jacobian_sparsity(g, jnp.ones(D), jnp.ones(D), argnums=0)
    structure = structure_of(g, D, D)
    if name in ("padded", "unknown branch"):  # not followed here
        assert structure.passes == D
        return
    rows, columns = asdex.color_rows(pattern), asdex.color_cols(pattern)
    fewest = min(int(np.max(c[0], initial=0)) + 1 for c in (rows, columns))
    assert structure.passes == max(fewest, 1)


def test_the_papers_model_takes_two_passes():
    """101 × 100: one dense row and a diagonal. A zero sample closed over would show no entry."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 100)), rng.uniform(1, 2, 50)
    problem = sparse_additive(X, y)
    x = np.full(100, 0.01)
    with problem.precision(x):
        structure = problem.geometry(x).jacobian
    assert (structure.passes, structure.entries) == (2, 200)
    assert structure.columns is None


def test_a_large_matrix_is_not_searched_for_long():
    """A g with more entries than are worth a search, and marks that would not fit."""

    def wide(x, r):
        return jnp.tanh(jnp.outer(r, x)).ravel()  # 300 × 300 = 90,000 rows

    structure = structure_of(wide, 300, 300)
    assert structure.p * structure.d == 300**3
    assert structure.columns is not None and structure.passes == 300


@pytest.mark.parametrize("jacobian", ["matrix", "free"])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("name", ["affine", "partly affine", "sparse"])
@pytest.mark.one_in(2)
def test_a_run_is_the_same_when_it_cannot_be_told(name, two, jacobian):
    """The same g of Mx + 0·x³, M the identity as data: dense and curved as far as one can tell."""
    rng = np.random.default_rng(1)
    data, outside = rng.standard_normal((40, 4)), rng.uniform(0.5, 1.5, 12)

    def inner(x, r):
        if name == "sparse":
            return jnp.concatenate([(r * x) ** 2, (r @ x)[None], r * x])
        last = r[:1] @ x[:1] if name == "affine" else jnp.sin(r @ x)
        return jnp.stack([r @ x, last])

    def hidden(x, sample):
        r, identity = sample
        return inner(identity @ x + 0 * x**3, r)

    def outer(y, *sample):
        return sum(sample, 1.0) * jnp.sum(y**2) - y[0]

    runs = []
    for g, samples in ((inner, data), (hidden, (data, np.tile(np.eye(4), (40, 1, 1))))):
        problem = mvrc.Composition(g, outer, samples, outer_data=outside if two else None)
        method = mvrc.MVRC(0.02, batch_size=5, period=6, jacobian=jacobian, epsilon=None)
        runs.append(mvrc.minimize(problem, np.ones(4), method, epochs=3))
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-11)
    assert runs[0].counts == runs[1].counts


@pytest.mark.parametrize("name", ["sarah-c", "vrsc-pg", "c-saga", "storm", "katyusha", "smvr"])
def test_methods_with_a_matrix_keep_it_short(name):
    """The other methods with g' in their state: the same run with and without the structure."""
    rng = np.random.default_rng(2)
    data = rng.standard_normal((40, 6))

    def inner(x, r):
        return jnp.concatenate([(r * x) ** 2, (r @ x)[None]])

    def hidden(x, sample):
        r, identity = sample
        return inner(identity @ x, r)

    runs, kept = [], []
    for g, samples in ((inner, data), (hidden, (data, np.tile(np.eye(6), (40, 1, 1))))):
        problem = mvrc.Composition(g, lambda y: jnp.sum(jnp.log1p(y**2)) - y[-1], samples)
        method = mvrc.METHODS[name](0.02, batch_size=5, period=6)
        runs.append(mvrc.minimize(problem, np.ones(6), method, epochs=3))
        leaves = jax.tree_util.tree_leaves(estimate_at(problem, np.ones(6), method))
        kept.append(sum(np.size(a) for a in leaves))
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-11)
    assert kept[0] < kept[1]


@pytest.mark.parametrize(
    "g",
    [lambda x, r: r * x + jax.lax.stop_gradient(x**2), lambda x, r: jnp.floor(3 * x) + r * x,
     lambda x, r: r * TWICE(x)],
    ids=["stopped", "steps", "known only backwards"],
)  # fmt: skip
def test_a_constant_derivative_is_not_taken_for_an_affine_function(g):
    """g̃ follows the values of g, which may jump where its derivative does not."""
    data = np.random.default_rng(0).uniform(0.5, 1.5, (8, 3))
    problem = mvrc.Composition(g, lambda y: jnp.sum(y**2), data)
    method = mvrc.MVRC(0.05, batch_size=8, period=5)  # every batch is everything
    state = estimate_at(problem, np.ones(3), method, np.full(3, 0.8), np.full(3, 0.3))
    exact = np.mean([g(jnp.asarray(state.point), r) for r in data], axis=0)
    np.testing.assert_allclose(state.inner, exact, rtol=1e-6)


# Steps of random functions of a vector v and a sample r; what is odd is kept odd on purpose.
STEPS = [
    lambda v, r, a: jnp.sin(v),
    lambda v, r, a: v * jnp.resize(r, v.shape),
    lambda v, r, a: v[::-1],
    lambda v, r, a: jnp.cumsum(v),
    lambda v, r, a: v[np.array([a % len(v), 3 * a % len(v), 7 * a % len(v), 0])],
    lambda v, r, a: jnp.concatenate([v, v[:2] ** 2]),
    lambda v, r, a: jnp.where(v > 0, v, jnp.roll(v, 1)),
    lambda v, r, a: v[: len(v) // 2 * 2].reshape(-1, 2) @ r[:2],
    lambda v, r, a: v[: len(v) // 2 * 2].reshape(2, -1).T.ravel(),
    lambda v, r, a: jnp.outer(v[:3], r[:2]).ravel(),
    lambda v, r, a: jax.lax.dynamic_slice(v, (a % 3,), (max(1, len(v) - 2),)),
    lambda v, r, a: jnp.append(v, jnp.max(v[:2])),
    lambda v, r, a: jax.nn.softmax(v[: len(v) // 2 * 2].reshape(-1, 2), axis=1).ravel(),
    lambda v, r, a: jax.jit(lambda u: u**2 + 1)(v),
    lambda v, r, a: v[jnp.argsort(jnp.resize(r, v.shape))],
    lambda v, r, a: jax.lax.cond(r[0] > 0, lambda u: u, lambda u: u[::-1], v),
    lambda v, r, a: jax.lax.scan(lambda c, u: (c + u, c * u), v[0], v)[1],
    lambda v, r, a: v.at[a % len(v)].set(0.0),
    lambda v, r, a: jnp.pad(v, (1, 1)),
    lambda v, r, a: jnp.floor(v) * r[0] + v,
    lambda v, r, a: v + v[a % len(v)],
    lambda v, r, a: jax.vmap(lambda u, i: u * r[i])(v, jnp.arange(len(v)) % 3),
]


@pytest.mark.slow
def test_random_functions_keep_to_their_pattern():
    """Seeds drawn anew: on a failure the message has the steps."""
    from mvrc.oracle.dependence import dependence

    rng = np.random.default_rng()
    for _ in range(60):
        chosen = [(int(rng.integers(len(STEPS))), int(rng.integers(1000))) for _ in range(5)]

        def g(x, r, chosen=chosen):
            v, r = x * 1.0, jnp.asarray(r)
            for step, a in chosen:
                v = STEPS[step](v, r, a)[:24]
                if len(v) < 2:
                    v = jnp.concatenate([v, x[:2]])
            return v

        def tangent(x, along, r, g=g):
            return jax.jvp(lambda x: g(x, r), (x,), (along,))[1]

        with jax.enable_x64(True):
            closed = jax.make_jaxpr(tangent)(jnp.ones(6), jnp.ones(6), jnp.ones(5))
            found, rough = dependence(closed, True), dependence(closed, False)
            for _ in range(4):
                r = rng.standard_normal(5)
                first, second = (np.asarray(jax.jacfwd(g)(rng.standard_normal(6) * s, r))
                                 for s in (1, 3))  # fmt: skip
                assert not np.any(first[~found.pattern]), chosen
                for moving in (found.moving, rough.moving):
                    change = np.abs(first - second)[~moving]
                    assert not np.any(change > 1e-12), chosen
