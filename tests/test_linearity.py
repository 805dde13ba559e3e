"""Rows of g' that do not depend on x: recognised, and a run that uses it is the same run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc.linearity import curved

SQUARE = jax.custom_vjp(lambda x: x**2)
SQUARE.defvjp(lambda x: (x**2, x), lambda x, u: (2 * x * u,))
TWICE = jax.custom_vjp(lambda x: 2 * x)
TWICE.defvjp(lambda x: (2 * x, None), lambda _, u: (2 * u,))

FUNCTIONS = {
    "moments": (lambda x, r: jnp.stack([r @ x, (r @ x) ** 2]), [0, 1]),
    "affine": (lambda x, r: r * x + 1, [0, 0, 0]),
    "constant": (lambda x, r: r, [0, 0, 0]),
    "picked": (lambda x, r: jnp.array([x[0], x[1] * x[2], r @ x]), [0, 1, 0]),
    "joined": (lambda x, r: jnp.concatenate([r * x, jnp.sin(x[:1])]), [0, 0, 0, 1]),
    "scaled": (lambda x, r: 3 * jnp.hstack([r @ x, (r @ x) ** 2]) / r[:2], [0, 1]),
    "kink": (lambda x, r: jnp.maximum(r * x, 0), [1, 1, 1]),
    "branch": (lambda x, r: jnp.where(x > 0, x, 2 * x), [1, 1, 1]),
    "mixed": (lambda x, r: jnp.cumsum(jnp.stack([r @ x, (r @ x) ** 2])), [1, 1]),
    "columns": (lambda x, r: jnp.stack([r * x, x**2]).ravel(order="F"), [1] * 6),
    "linear without forward mode": (lambda x, r: TWICE(x), [1, 1, 1]),
    "no forward mode": (lambda x, r: SQUARE(x), [1, 1, 1]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_that_depend_on_x(name):
    function, expected = FUNCTIONS[name]
    np.testing.assert_array_equal(curved(function, jnp.ones(3), jnp.ones(3)), expected)


@pytest.mark.parametrize("jacobian", ["matrix", "free"])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("name", ["affine", "partly affine"])
def test_a_run_is_the_same_when_it_cannot_be_told(name, two, jacobian):
    """The same g behind x + 0·x³, whose derivative depends on x as far as anyone can tell."""
    rng = np.random.default_rng(1)
    data, outside = rng.standard_normal((40, 4)), rng.uniform(0.5, 1.5, 12)

    def inner(x, r):
        last = r[:1] @ x[:1] if name == "affine" else jnp.sin(r @ x)
        return jnp.stack([r @ x, last])

    def outer(y, *sample):
        return sum(sample, 1.0) * jnp.sum(y**2) - y[0]

    runs = []
    for g in (inner, lambda x, r: inner(x + 0 * x**3, r)):
        problem = mvrc.Composition(g, outer, data, outer_data=outside if two else None)
        method = mvrc.MVRC(0.02, batch_size=5, period=6, jacobian=jacobian)
        runs.append(mvrc.minimize(problem, np.ones(4), method, epochs=3))
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-12)
    assert runs[0].counts == runs[1].counts


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
    result = mvrc.minimize(problem, np.ones(3), method, epochs=2)
    state = result.state.core.estimator
    exact = np.mean([g(jnp.asarray(state.point), r) for r in data], axis=0)
    np.testing.assert_allclose(state.inner, exact, rtol=1e-6)
