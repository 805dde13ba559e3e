"""r(Ax): fused lasso and graph-guided lasso by SPIDER+ADMM, against exact references."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import mvrc

D, WEIGHT = 12, 0.15
RNG = np.random.default_rng(4)
TRUTH = np.repeat([1.0, -0.5, 0.8], 4)
ROWS = RNG.standard_normal((60, D))
TARGETS = ROWS @ TRUTH + 0.1 * RNG.standard_normal(60)
DATA = {"a": ROWS, "b": TARGETS}


def inner(x, s):
    error = s["a"] @ x - s["b"]
    return jnp.stack([error, error**2])


def outer(y):
    return y[1] - 0.1 * y[0] ** 2  # mean square, less a tenth of the squared mean


def differences(x):
    return x[1:] - x[:-1]


def transposed(u):
    return jnp.concatenate([-u[:1], u[:-1] - u[1:], u[-1:]])


MATRIX = np.diff(np.eye(D), axis=0)
FORMS = {
    "matrix": (MATRIX,),
    "sparse": (scipy.sparse.csr_matrix(MATRIX),),
    "functions": ((differences, transposed), D),
}
METHOD = mvrc.SpiderADMM(0.1, rho=3.0, batch_size=15, period=8)


def solve(regularizer, method=METHOD, epochs=400):
    problem = mvrc.Composition(inner, outer, DATA, regularizer=regularizer)
    return mvrc.minimize(problem, np.zeros(D), method, epochs=epochs, record_every=epochs)


@pytest.fixture(scope="module")
def fused():
    """The fused lasso by the exact prox of total variation and FISTA."""
    return solve(mvrc.TotalVariation1D(WEIGHT), mvrc.FISTA(0.1, period=5), epochs=200)


@pytest.mark.parametrize("form", FORMS)
def test_fused_lasso(form, fused):
    result = solve(mvrc.Composed(mvrc.L1(WEIGHT), *FORMS[form]))
    np.testing.assert_allclose(result.x, fused.x, atol=1e-5)
    assert result.objective == pytest.approx(fused.objective, abs=1e-9)
    # The numeric prox of r(Ax), against the exact one of total variation.
    assert result.gradient_mapping < 1e-4


@pytest.mark.parametrize("steps", ["newton", "secant"])
def test_auto_takes_a_numeric_prox(steps, fused):
    """Nothing is tuned, every step is judged, and no sample is seen by the prox."""
    problem = mvrc.Composition(
        inner, outer, DATA, regularizer=mvrc.Composed(mvrc.L1(WEIGHT), MATRIX)
    )
    result = mvrc.minimize(problem, np.zeros(D), mvrc.Auto(steps))
    assert result.status in (mvrc.Status.CONVERGED, mvrc.Status.PRECISION)
    np.testing.assert_allclose(result.x, fused.x, atol=1e-4)
    assert result.objective == pytest.approx(fused.objective, abs=1e-8)


def test_graph_guided_lasso():
    """Edges of a cycle and a chord; optimality by the multiplier as a dual certificate."""
    edges = [(i, (i + 1) % D) for i in range(D)] + [(0, 6)]
    incidence = np.zeros((len(edges), D))
    for row, (i, j) in enumerate(edges):
        incidence[row, i], incidence[row, j] = 1, -1
    result = solve(mvrc.Composed(mvrc.L1(WEIGHT), scipy.sparse.coo_matrix(incidence)))
    x, u = result.x, -np.asarray(result.state.core.scheme.u)
    mean = (ROWS @ x - TARGETS).mean()
    gradient = 2 * ROWS.T @ (ROWS @ x - TARGETS) / 60 - 0.2 * mean * ROWS.mean(0)
    np.testing.assert_allclose(gradient + incidence.T @ u, 0, atol=1e-4)
    assert np.abs(u).max() <= WEIGHT + 1e-6
    gaps = incidence @ x
    np.testing.assert_allclose(u @ gaps, WEIGHT * np.abs(gaps).sum(), atol=1e-4)


def test_identity_is_the_plain_prox():
    plain = solve(mvrc.L1(WEIGHT), mvrc.FISTA(0.1, period=5), epochs=200)
    np.testing.assert_allclose(solve(mvrc.L1(WEIGHT)).x, plain.x, atol=1e-5)


def test_numeric_prox_is_the_exact_one():
    x = RNG.standard_normal(D)
    composed = mvrc.Composed(mvrc.L1(WEIGHT), MATRIX)
    with composed_precision():
        numeric = composed.prox(jnp.asarray(x), 0.7)
        exact = mvrc.TotalVariation1D(WEIGHT).prox(jnp.asarray(x), 0.7)
    np.testing.assert_allclose(numeric, exact, atol=1e-9)


def composed_precision():
    import jax

    return jax.enable_x64(True)


def test_refusals():
    composed = mvrc.Composed(mvrc.L1(WEIGHT), MATRIX)
    with pytest.raises(ValueError, match="'mvrc' needs the prox.*use 'auto' or 'spider-admm'"):
        solve(composed, mvrc.MVRC(0.1))
    problem = mvrc.Composition(inner, outer, DATA, regularizer=composed)
    with pytest.raises(ValueError, match="a vector of 12 coordinates"):
        mvrc.minimize(problem, np.zeros(5), METHOD)
    with pytest.raises(TypeError, match="operator must be a floating-point matrix"):
        mvrc.Composed(mvrc.L1(WEIGHT), "matrix")
    with pytest.raises(ValueError, match="size must be an integer"):
        mvrc.Composed(mvrc.L1(WEIGHT), (differences, transposed))


def test_float32_run_with_a_float64_matrix():
    data = {name: values.astype(np.float32) for name, values in DATA.items()}
    composed = mvrc.Composed(mvrc.L1(WEIGHT), MATRIX)
    problem = mvrc.Composition(inner, outer, data, regularizer=composed)
    result = mvrc.minimize(problem, np.zeros(D, np.float32), METHOD, epochs=5)
    assert result.x.dtype == np.float32


def test_checkpoint_with_functions(tmp_path):
    problem = mvrc.Composition(
        inner, outer, DATA, regularizer=mvrc.Composed(mvrc.L1(WEIGHT), *FORMS["functions"])
    )
    straight = mvrc.minimize(problem, np.zeros(D), METHOD, epochs=4)
    for epochs in (2, 4):
        resumed = mvrc.minimize(problem, np.zeros(D), METHOD, epochs=epochs, checkpoint=tmp_path)
    np.testing.assert_array_equal(straight.x, resumed.x)


def test_constraint_by_admm_is_feasible():
    result = solve(mvrc.Box(-0.1, 0.1))
    exact = solve(mvrc.Box(-0.1, 0.1), mvrc.FISTA(0.1, period=5), epochs=200)
    assert result.status is mvrc.Status.EPOCHS
    np.testing.assert_allclose(result.x, exact.x, atol=1e-5)


def test_a_point_outside_of_the_set_is_said():
    """ADMM's x meets the constraint in the limit only; until then the objective is infinite."""
    rng = np.random.default_rng(0)
    target = rng.standard_normal((50, 5))
    box = mvrc.Composed(mvrc.Box(-0.1, 0.1), rng.standard_normal((3, 5)))
    convex = mvrc.Composition(lambda x, s: (x - s) ** 2, jnp.sum, target, regularizer=box)
    few = mvrc.minimize(convex, np.full(5, 3.0), "spider-admm", epochs=3)
    assert few.objective == np.inf and "outside of the constraint set" in few.message
    many = mvrc.minimize(convex, np.full(5, 3.0), "spider-admm", epochs=300)
    assert np.isfinite(many.objective) and "outside" not in many.message
