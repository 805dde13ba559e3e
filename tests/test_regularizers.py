"""Regularisers against certificates: prox inequality, quadratic programs, exact twins."""

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import linalg, optimize

import mvrc
from mvrc.regularizers import (
    L1,
    L2,
    Box,
    Constraint,
    Custom,
    ElasticNet,
    GroupL2,
    L1Ball,
    L2Ball,
    LinearConstraint,
    NonNegative,
    Nuclear,
    Regularizer,
    Simplex,
    Sum,
    TotalVariation1D,
    Zero,
)
from mvrc.regularizers.linear import Within

EPS = np.finfo(np.float64).eps
D = 6
ONES, EYE = np.ones(D), np.eye(D)
SPLIT = np.hstack([EYE, -EYE])  # u = a - b with a, b >= 0, so that |u| = a + b
DIFF = np.diff(EYE, axis=0)  # (DIFF u)_i = u_{i+1} - u_i
JUMPS = np.hstack([ONES[:, None], np.tri(D)[:, 1:], -np.tri(D)[:, 1:]])  # u from its differences
LABELS, GROUPS = [0, 0, 1, 1, 2, 0], [[0, 1, 5], [2, 3], [4]]
PAIR = [[5, 0, 3], [1, 2, 4]]
LOWER, UPPER = np.array([-1, -np.inf, 0, 0.5, -2, 0]), np.array([1, 0.2, np.inf, 0.5, 2, 1])


@pytest.fixture(autouse=True, scope="module")
def _float64():
    with jax.enable_x64(True):
        yield


@jax.jit
def prox(r, x, step):
    return r.prox(x, step)


@jax.jit
def value(r, x):
    return r.value(x)


def quadratic_program(matrix=EYE, linear=0.0, square=0.0, bounds=None, constraints=(), dual=False):
    """(x, step) -> argmin over u = matrix v of ||u - x||^2/2 + step (linear.v + square ||u||^2/2).

    The prox of a norm is x minus the projection of x onto step times the dual ball: with `dual`,
    that is returned, and bounds are multiplied by the step. `constraints(step)` may be a function.
    """
    size = matrix.shape[1]
    slopes = np.broadcast_to(linear, size)

    def reference(x, step):
        def objective(v):
            u = matrix @ v
            gradient = matrix.T @ (u - x + step * square * u) + step * slopes
            return np.sum((u - x) ** 2 + step * square * u**2) / 2 + step * slopes @ v, gradient

        result = optimize.minimize(
            objective,
            np.full(size, 0.1),
            jac=True,
            method="SLSQP",
            bounds=None
            if bounds is None
            else np.broadcast_to(bounds, (size, 2)) * (step if dual else 1),
            constraints=constraints(step) if callable(constraints) else constraints,
            options={"ftol": 1e-18, "maxiter": 500},
        )
        return x - matrix @ result.x if dual else matrix @ result.x

    return reference


def at_least_zero(function, jacobian):
    return {"type": "ineq", "fun": function, "jac": jacobian}


def ball(members, radius):
    """||v_members|| <= radius as a smooth constraint."""

    def mask(v):
        return v * np.isin(np.arange(v.size), members)

    return at_least_zero(lambda v: radius**2 - np.sum(mask(v) ** 2), lambda v: -2 * mask(v))


def balls(weights, groups):
    return lambda step: [ball(g, step * w) for w, g in zip(weights, groups, strict=True)]


def factored(x, step):
    """||X||_* = min (||A||^2 + ||B||^2)/2 over X = A B; no bad minima at full inner size."""
    rows, columns = x.shape
    inner = min(x.shape)

    def factors(v):
        return v[: rows * inner].reshape(rows, inner), v[rows * inner :].reshape(inner, columns)

    def objective(v):
        a, b = factors(v)
        gap = a @ b - x
        gradient = np.concatenate([(gap @ b.T).ravel(), (a.T @ gap).ravel()]) + step * 0.7 * v
        return (np.sum(gap**2) + step * 0.7 * np.sum(v**2)) / 2, gradient

    start = np.random.default_rng(0).normal(size=inner * (rows + columns))
    options = {"gtol": 1e-12, "maxiter": 5000}
    a, b = factors(optimize.minimize(objective, start, jac=True, options=options).x)
    return a @ b


class Case(NamedTuple):
    name: str
    r: Regularizer
    formula: Callable[[Any], float]  # r(u) in NumPy
    reference: Callable[[Any, float], Any]  # prox(x, step) by numeric minimisation
    feasible: Callable[[np.random.Generator], Any] = lambda rng: 2 * rng.normal(size=D)
    shape: tuple[int, ...] = (D,)


def norm1(u):
    return np.sum(np.abs(u))


def half_square(u):
    return np.sum(u**2) / 2


def variation(u):
    return norm1(np.diff(u))


def norms(u, groups=GROUPS, weights=(1, 1, 1)):
    return sum(w * np.linalg.norm(u[g]) for w, g in zip(weights, groups, strict=True))


def inside(holds):
    return 0.0 if np.all(holds) else np.inf


def is_mixture(u):
    return inside([*(u >= 0), np.isclose(np.sum(u), 1.5)])


def is_capped(u):
    return inside([*(u >= 0), *(u <= 0.4), np.isclose(np.sum(u), 1.5)])


def is_boxed(u):
    return inside((u >= -1) & (u <= 0.5))


def positive(rng):
    return 2 * np.abs(rng.normal(size=D))


def boxed(rng):
    return rng.uniform(-1, 0.5, size=D)


def mixture(rng):
    return 1.5 * rng.dirichlet(ONES / 2)


def capped(rng):
    """Half full, and random shares of the rest that no cap cuts: 1.5 = Σ min(u, 0.4)."""
    u = np.array([0.4, 0.4, 0.4, 0.0, 0.0, 0.0]) + 0.3 * np.array(
        [0, 0, 0, *rng.dirichlet(ONES[:3])]
    )
    return rng.permutation(u)


ROWS = np.array([[1.0] * D, [1.0, 1, 1, 0, 0, 0], [0.5, -0.2, 1.0, 0.3, 0.7, 0.1]])
BELOW, ABOVE = np.array([1.5, 0.2, 0.5]), np.array([1.5, 0.9, np.inf])
COSTS, HELD = np.array([0.3, 0.1, 0.0, 0.7, 0.2, 0.3]), np.array([0.5, 0, 0, 0.2, 0.6, 0.2])
BOOK = Box(-0.1, 0.6) + L1(COSTS, center=HELD) + LinearConstraint(ROWS, BELOW, ABOVE)


def in_book(rng):
    while True:
        u = capped(rng) + (v := 0.05 * rng.normal(size=D)) - v.mean()
        if value(BOOK, u) < np.inf:
            return u


def is_book(u):
    held = inside(
        [*(u >= -0.1), *(u <= 0.6), *(ROWS @ u >= BELOW - 1e-12), *(ROWS @ u <= ABOVE + 1e-12)]
    )
    return held + COSTS @ np.abs(u - HELD)


def in_ball(rng):
    return 1.5 * rng.uniform() * (u := rng.normal(size=D)) / np.linalg.norm(u)


def in_l1_ball(rng):
    return rng.uniform() * mixture(rng) * rng.choice([-1, 1], size=D)


def two_kinks(x, step):
    """Of COSTS |u − HELD| + 0.2 |u| + (u − x)²/2s the least of 0, HELD and all smooth pieces."""
    slopes = [a * COSTS + b * 0.2 for a in (-1, 1) for b in (-1, 1)]
    points = np.stack([0 * x, HELD, *(x - step * slope for slope in slopes)])
    sizes = COSTS * abs(points - HELD) + 0.2 * abs(points) + (points - x) ** 2 / (2 * step)
    return points[sizes.argmin(axis=0), np.arange(D)]


def custom(x, step):
    return jnp.sign(x) * jnp.maximum(jnp.abs(x) - 0.7 * step, 0)


POSITIVE, FREE = (0, np.inf), (-np.inf, np.inf)
SUM = {"type": "eq", "fun": lambda v: np.sum(v) - 1.5, "jac": np.ones_like}
SMALL = at_least_zero(lambda v: 1.5 - np.sum(v), lambda v: -np.ones_like(v))
IN_BOX = [
    at_least_zero(lambda v: SPLIT @ v + 1, lambda v: SPLIT),
    at_least_zero(lambda v: 0.5 - SPLIT @ v, lambda v: -SPLIT),
]
OVER = at_least_zero(  # of v = (u, t): t ≥ |u − HELD|, and the rows of BOOK
    lambda v: np.concatenate(
        [
            v[D:] - v[:D] + HELD,
            v[D:] + v[:D] - HELD,
            ROWS[1:] @ v[:D] - BELOW[1:],
            ABOVE[1:2] - ROWS[1:2] @ v[:D],
        ]
    ),
    lambda v: np.block(
        [[-EYE, EYE], [EYE, EYE], [ROWS[1:], 0 * ROWS[1:]], [-ROWS[1:2], 0 * ROWS[:1]]]
    ),
)
BUDGET = {
    "type": "eq",
    "fun": lambda v: np.sum(v[:D]) - 1.5,
    "jac": lambda v: (np.arange(2 * D) < D) * 1.0,
}
qp = quadratic_program
# fmt: off
CASES = [
    Case("zero", Zero(), lambda u: 0.0, qp()),
    Case("l1", L1(0.7), lambda u: 0.7 * norm1(u), qp(SPLIT, 0.7, bounds=POSITIVE)),
    Case("l1 of arrays", L1(COSTS, center=HELD), lambda u: COSTS @ np.abs(u - HELD),
         lambda x, s: HELD + np.sign(x - HELD) * np.maximum(np.abs(x - HELD) - s * COSTS, 0)),
    Case("l2", L2(0.7), lambda u: 0.7 * half_square(u), qp(square=0.7)),
    Case("elastic net", ElasticNet(0.7, 0.4), lambda u: 0.7 * norm1(u) + 0.4 * half_square(u),
         qp(SPLIT, 0.7, 0.4, POSITIVE)),
    Case("group", GroupL2(0.7, LABELS), lambda u: 0.7 * norms(u),
         qp(constraints=balls([0.7] * 3, GROUPS), dual=True)),
    Case("weighted group", GroupL2([0.7, 1.5], PAIR), lambda u: norms(u, PAIR, (0.7, 1.5)),
         qp(constraints=balls([0.7, 1.5], PAIR), dual=True)),
    Case("nuclear", Nuclear(0.7), lambda u: 0.7 * np.linalg.norm(u, "nuc"), factored,
         lambda rng: rng.normal(size=(3, 2)), (3, 2)),
    Case("total variation", TotalVariation1D(0.7), lambda u: 0.7 * variation(u),
         qp(DIFF.T, bounds=(-0.7, 0.7), dual=True)),
    Case("box", Box(-1, 0.5), is_boxed, qp(bounds=(-1, 0.5)), boxed),
    Case("box of arrays", Box(LOWER, UPPER), lambda u: inside((u >= LOWER) & (u <= UPPER)),
         qp(bounds=np.stack([LOWER, UPPER], 1)), lambda rng: np.clip(boxed(rng), LOWER, UPPER)),
    Case("non-negative", NonNegative(), lambda u: inside(u >= 0), qp(bounds=POSITIVE), positive),
    Case("simplex", Simplex(1.5), is_mixture, qp(bounds=POSITIVE, constraints=SUM), mixture),
    Case("capped simplex", Simplex(1.5, upper=0.4), is_capped,
         qp(bounds=(0, 0.4), constraints=SUM), capped),
    Case("l1 ball", L1Ball(1.5), lambda u: inside(norm1(u) <= 1.5),
         qp(SPLIT, bounds=POSITIVE, constraints=SMALL), in_l1_ball),
    Case("l2 ball", L2Ball(1.5), lambda u: inside(np.linalg.norm(u) <= 1.5),
         qp(constraints=ball(range(D), 1.5)), in_ball),
    Case("custom", Custom(lambda x: 0.7 * jnp.sum(jnp.abs(x)), custom), lambda u: 0.7 * norm1(u),
         qp(SPLIT, 0.7, bounds=POSITIVE)),
    Case("total variation + l1", TotalVariation1D(0.7) + L1(0.4),
         lambda u: 0.7 * variation(u) + 0.4 * norm1(u),
         qp(np.hstack([DIFF.T, EYE]), bounds=[(-0.7, 0.7)] * (D - 1) + [(-0.4, 0.4)] * D,
            dual=True)),
    Case("l2 + total variation", L2(0.4) + TotalVariation1D(0.7),
         lambda u: 0.7 * variation(u) + 0.4 * half_square(u),
         qp(JUMPS, [0, *[0.7] * (2 * D - 2)], 0.4, [FREE, *[POSITIVE] * (2 * D - 2)])),
    Case("group + l1", GroupL2(0.7, LABELS) + L1(0.4), lambda u: 0.7 * norms(u) + 0.4 * norm1(u),
         qp(np.hstack([EYE, EYE]), bounds=[FREE] * D + [(-0.4, 0.4)] * D,
            constraints=balls([0.7] * 3, GROUPS), dual=True)),
    Case("non-negative + l1", NonNegative() + L1(0.7), lambda u: inside(u >= 0) + 0.7 * norm1(u),
         qp(linear=0.7, bounds=POSITIVE), positive),
    Case("non-negative + l2", NonNegative() + L2(0.7),
         lambda u: inside(u >= 0) + 0.7 * half_square(u),
         qp(square=0.7, bounds=POSITIVE), positive),
    Case("box + l1 + l2", Box(-1, 0.5) + L1(0.7) + L2(0.4),
         lambda u: is_boxed(u) + 0.7 * norm1(u) + 0.4 * half_square(u),
         qp(SPLIT, 0.7, 0.4, POSITIVE, IN_BOX), boxed),
    Case("box + simplex", Box(-1, 0.4) + Simplex(1.5), is_capped,
         qp(bounds=(0, 0.4), constraints=SUM), capped),
    Case("two l1", L1(COSTS, center=HELD) + L1(0.2),
         lambda u: COSTS @ np.abs(u - HELD) + 0.2 * norm1(u), two_kinks),
    Case("book", BOOK, is_book,
         qp(np.hstack([EYE, 0 * EYE]), np.concatenate([0 * COSTS, COSTS]),
            bounds=[(-0.1, 0.6)] * D + [POSITIVE] * D, constraints=[BUDGET, OVER]), in_book),
    Case("simplex + l2", Simplex(1.5) + L2(0.7), lambda u: is_mixture(u) + 0.7 * half_square(u),
         qp(square=0.7, bounds=POSITIVE, constraints=SUM), mixture),
]
# fmt: on
SINGLE = [case for case in CASES if not isinstance(case.r, Sum)] + CASES[-1:]  # and one sum
SETS = [case for case in CASES if isinstance(case.r, Constraint)]


def every_case(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


points = st.integers(0, 2**32 - 1).map(np.random.default_rng)
steps = st.floats(-2, 2).map(lambda exponent: 10.0**exponent)
few = hypothesis.settings(max_examples=12, deadline=None, derandomize=True, database=None)


def draw(case, rng, count=1):
    """Points on a grid half of the time: ties and zeros are where a prox goes wrong."""
    x = 2 * rng.normal(size=(count, *case.shape))
    return np.round(x) if rng.uniform() < 0.5 else x


@every_case(CASES)
@few
@hypothesis.given(rng=points)
def test_value_is_the_formula(case, rng):
    for u in (case.feasible(rng), *draw(case, rng)):
        # A few dozen roundings of numbers of order 10.
        np.testing.assert_allclose(value(case.r, u), case.formula(u), rtol=1e-13, atol=1e-13)


@every_case(CASES)
@few
@hypothesis.given(rng=points, step=steps)
def test_prox_inequality(case, rng, step):
    """p = prox(x, step) if and only if r(u) >= r(p) + <x - p, u - p>/step for every u."""
    x = draw(case, rng)[0]
    p = np.asarray(prox(case.r, x, step))
    at_p = float(value(case.r, p))
    assert np.isfinite(at_p)
    far = [case.feasible(rng) for _ in range(4)]
    near = [p + t * (u - p) for u in far for t in (1e-2, -1e-2, 1e-5, -1e-5)]
    along = [p + h * e.reshape(case.shape) for e in EYE for h in (1e-3, -1e-3)]
    for u in (*far, *near, *along):  # at +inf where near and along leave a set
        slope = np.sum((x - p) * (u - p)) / step
        # Rounding: p carries EPS |x|, which the slope multiplies by |u - p|/step.
        size = np.linalg.norm(u - p) * (np.linalg.norm(x) / step + 1) + abs(at_p)
        assert float(value(case.r, u)) >= at_p + slope - 50 * EPS * size


@every_case(CASES)
def test_prox_is_the_numeric_minimiser(case):
    rng = np.random.default_rng(7)
    for step in (0.05, 0.4, 3.0):
        x = 2 * rng.normal(size=case.shape)
        # SLSQP and BFGS stop at objective differences of about 1e-16, so at distances of 1e-8
        # times the conditioning of the reformulation; 1e-6 leaves two digits for that.
        np.testing.assert_allclose(prox(case.r, x, step), case.reference(x, step), atol=1e-6)


@every_case(CASES)
@few
@hypothesis.given(rng=points, step=steps)
def test_firmly_non_expansive(case, rng, step):
    """||p - q||^2 <= <p - q, x - y>."""
    x, y = draw(case, rng, 2)
    gap = np.asarray(prox(case.r, x, step)) - np.asarray(prox(case.r, y, step))
    rounding = 20 * EPS * (np.sum(x**2) + np.sum(y**2))
    assert np.sum(gap**2) <= np.sum(gap * (x - y)) + rounding


@every_case(CASES)
def test_step_scales_the_regularizer(case):
    """prox_{s r}(x, 1) = prox_r(x, s): weights scale, sets stay."""

    def scale(node):
        if isinstance(node, L1):
            return L1(scale_leaf(node.weight), node.center)
        sets = Constraint | LinearConstraint
        return node if isinstance(node, sets) else jax.tree.map(scale_leaf, node)

    def scale_leaf(leaf):
        return leaf if np.asarray(leaf).dtype.kind == "i" else 0.3 * leaf

    if case.name == "custom":
        scaled = Custom(case.r.value, lambda x, step: case.r.prox(x, 0.3 * step))
    else:
        is_part = lambda node: isinstance(node, Regularizer) and not isinstance(node, Sum | Within)  # noqa: E731
        scaled = jax.tree.map(scale, case.r, is_leaf=is_part)
    x = 2 * np.random.default_rng(3).normal(size=case.shape)
    np.testing.assert_allclose(prox(scaled, x, 1.0), prox(case.r, x, 0.3), atol=1e-14)


@every_case(SINGLE)
def test_float32_under_jit_and_vmap(case):
    """Batches of points and steps; neither a float64 weight nor a float64 step widens them."""
    x = 2 * np.random.default_rng(5).normal(size=(3, *case.shape)).astype(np.float32)
    step = np.array([0.05, 0.3, 2.0])
    p = jax.jit(jax.vmap(case.r.prox))(x, step)
    values = jax.eval_shape(jax.vmap(case.r.value), p)
    assert p.dtype == values.dtype == np.float32 and values.shape == (3,)
    # Some roundings of numbers of order 10, each 6e-7.
    alone = [prox(case.r, *pair) for pair in zip(x.astype(float), step, strict=True)]
    np.testing.assert_allclose(p, alone, atol=3e-6)


@every_case(CASES)
def test_zero_point_gives_numbers(case):
    p = prox(case.r, np.zeros(case.shape), 0.3)
    assert np.all(np.isfinite(p)) and np.isfinite(value(case.r, p))


def test_zero_weights_change_nothing():
    x = np.array([3.0, -1.0, 0.0, 0.0, 2.0, 0.5])
    for r in (L1(0), L2(0), ElasticNet(0, 0), GroupL2(0, LABELS), TotalVariation1D(0)):
        np.testing.assert_array_equal(prox(r, x, 0.3), x)
        assert value(r, x) == 0
    np.testing.assert_allclose(prox(Nuclear(0), np.ones((3, 2)), 0.3), np.ones((3, 2)), atol=1e-14)


def as_tree(vector):
    return {"a": vector[:4].reshape(2, 2), "b": [vector[4:]]}


@every_case([case for case in SINGLE if case.name not in ("nuclear", "total variation")])
def test_pytrees_are_vectors(case):
    r, x = case.r, 2 * np.random.default_rng(6).normal(size=D)
    if case.name == "box of arrays":
        r = Box(as_tree(LOWER), as_tree(UPPER))
    if case.name in ("l1 of arrays", "two l1", "book"):
        ours = L1(as_tree(COSTS), center=as_tree(HELD))
        more = {"two l1": L1(0.2), "book": Box(-0.1, 0.6) + LinearConstraint(ROWS, BELOW, ABOVE)}
        r = ours + more.get(case.name, Zero())
    if case.name == "custom":
        leaf_by_leaf = lambda x, step: jax.tree.map(lambda leaf: case.r.prox(leaf, step), x)  # noqa: E731
        r = Custom(lambda x: case.r.value(ravel_pytree(x)[0]), leaf_by_leaf)
    r.check(as_tree(x))
    p = prox(r, as_tree(x), 0.3)
    assert jax.tree.structure(p) == jax.tree.structure(as_tree(x))
    np.testing.assert_allclose(ravel_pytree(p)[0], prox(case.r, x, 0.3), atol=1e-15)
    np.testing.assert_allclose(value(r, p), value(case.r, ravel_pytree(p)[0]), rtol=1e-14)


@pytest.mark.parametrize("r", [L1(0.1), Simplex(), GroupL2(0.1, LABELS), Box(-1, 1)], ids=str)
def test_leaves_keep_their_own_dtype(r):
    x = {"narrow": np.ones(2, np.float32), "wide": np.full(4, 2.0)}
    p = jax.eval_shape(r.prox, x, 0.3)
    assert p["narrow"].dtype == np.float32 and p["wide"].dtype == np.float64


@every_case(SETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_projected_points_are_inside_and_others_are_not(case, dtype):
    rng = np.random.default_rng(1)
    x = (1e4 * rng.normal(size=D)).astype(dtype)
    p = np.asarray(prox(case.r, x, 1.0))
    assert value(case.r, p) == 0
    average = p
    for _ in range(300):  # a momentum method's running average rounds at every step
        average = average + dtype(0.1) * (p - average) * dtype(rng.uniform())
    assert value(case.r, average) == 0
    assert value(case.r, p + dtype(0.01) * (x - p)) == np.inf  # whose projection is p as well
    assert value(case.r, np.full(D, np.inf, dtype)) == value(case.r, np.full(D, np.nan)) == np.inf


def test_large_projections_keep_their_accuracy():
    """Many coordinates of size 1e6 in float32, where plain sums lose all digits."""
    x = (1e6 * np.random.default_rng(0).normal(size=10_000)).astype(np.float32)
    for r in (Simplex(2.0), L1Ball(2.0)):
        for scale in (1e-6, 1.0):
            p = prox(r, x * np.float32(scale), 1.0)
            # Summation of the float32 numbers in float64: the error is that of the numbers.
            np.testing.assert_allclose(np.sum(np.abs(p), dtype=float), 2.0, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_capped_simplex_keeps_its_sum_and_caps(dtype):
    """Large, equal and far apart numbers, and caps that only just suffice."""
    rng = np.random.default_rng(3)
    for size, upper in ((1000, 0.0137), (49, 1 / 49), (49, 0.5), (7, 1.0), (7, 30.0), (1, 1.0)):
        r = Simplex(1.0, upper)
        r.check(np.zeros(size))
        for x in (rng.normal(size=size), 1e6 * rng.normal(size=size), np.full(size, -3e5)):
            p = np.asarray(prox(r, x.astype(dtype), 1.0), float)
            assert p.min() >= 0 and p.max() <= dtype(upper)
            # A sum of up to 1000 numbers below 1, each rounded.
            assert p.sum() == pytest.approx(1, abs=100 * float(np.finfo(dtype).eps))
            if upper >= 1:
                plain = prox(Simplex(), x.astype(dtype), 1.0)
                np.testing.assert_allclose(p, plain, atol=100 * np.finfo(dtype).eps)


@few
@hypothesis.given(rng=points, step=steps)
def test_moreau(rng, step):
    """x = prox_r(x, s) + s prox_{r*}(x/s, 1/s): the conjugate of a norm is its dual unit ball."""
    x = 2 * rng.normal(size=D)
    for norm, dual_ball in (
        (L1(0.7), Box(-0.7, 0.7)),
        (GroupL2(0.7, [0] * D), L2Ball(0.7)),
        (ElasticNet(0.7, 0.0), Box(-0.7, 0.7)),
        (NonNegative(), Box(-np.inf, 0)),
        (L2(2.0), L2(0.5)),
    ):
        both = prox(norm, x, step) + step * prox(dual_ball, x / step, 1 / step)
        np.testing.assert_allclose(both, x, atol=1e-14)
    matrix = x.reshape(3, 2)
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    clipped = (left * np.minimum(singular, 0.7 * step)) @ right
    np.testing.assert_allclose(prox(Nuclear(0.7), matrix, step) + clipped, matrix, atol=1e-13)


def exact_total_variation(x, threshold):
    """The dynamic program of Johnson (2013) in rational numbers: slow and free of rounding.

    The derivative of the best cost of the coordinates up to i, as a function of u_i, increases
    and is piecewise linear: knots are (position, change of slope, change of offset), from the
    line (1, left) at the left end to (1, right) at the right end.
    """
    x, t = [Fraction(float(v)) for v in x], Fraction(float(threshold))
    knots, ranges, left, right = [], [], -x[0], -x[0]

    def from_left(level):
        i, slope, offset = 0, 1, left
        while i < len(knots) and slope * knots[i][0] + offset <= level:
            i, slope, offset = i + 1, slope + knots[i][1], offset + knots[i][2]
        return i, slope, offset

    for following in x[1:]:
        i, slope, offset = from_left(-t)
        j, last, end = len(knots), 1, right
        while j > i and last * knots[j - 1][0] + end >= t:
            j, last, end = j - 1, last - knots[j - 1][1], end - knots[j - 1][2]
        low, high = (-t - offset) / slope, (t - end) / last
        knots = [(low, slope, offset + t), *knots[i:j], (high, -last, t - end)]
        ranges.append((low, high))
        left, right = -t - following, t - following
    _, slope, offset = from_left(0)
    u = [Fraction(-offset) / slope]
    for low, high in reversed(ranges):
        u.append(min(max(u[-1], low), high))
    return np.array([float(v) for v in reversed(u)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_total_variation_is_exact(dtype):
    rng = np.random.default_rng(2)
    noise = rng.normal(size=40)
    for x in (
        noise,
        np.cumsum(noise),
        np.round(noise),  # ties
        1e5 + noise,
        noise * 10 ** rng.uniform(-6, 6, size=40),
        2.0 ** np.arange(-20, 20),
        np.ones(40),
        np.array([3.0]),
    ):
        x = x.astype(dtype)
        for threshold in (0.0, 1e-2, 0.5, 30.0, 1e30):
            p = prox(TotalVariation1D(threshold), x, 1.0)
            # One rounding each for the residuals, their mean and the level.
            rounding = 4 * np.finfo(dtype).eps * np.max(np.abs(x))
            twin = exact_total_variation(x, dtype(threshold))
            np.testing.assert_allclose(p, twin, rtol=0, atol=rounding)


def test_total_variation_against_its_dual_program():
    """p = x - D'v with v = argmin ||D'v - x|| over |v| <= threshold, by an active-set method."""
    x = np.cumsum(np.random.default_rng(4).normal(size=40))
    for threshold in (0.3, 3.0):
        matrix = np.diff(np.eye(40), axis=0).T
        v = optimize.lsq_linear(matrix, x, (-threshold, threshold), method="bvls", tol=1e-15).x
        # The active set is found exactly; D has condition number of about 50.
        np.testing.assert_allclose(
            prox(TotalVariation1D(threshold), x, 1.0), x - matrix @ v, atol=1e-11
        )


def test_total_variation_of_a_long_float32_vector():
    """Certificate: v_i = sum_{j<=i} (x_j - p_j) is within the threshold, at it where p jumps."""
    x = np.random.default_rng(8).normal(size=20_000)
    x = (x + np.floor(np.arange(20_000) / 500) % 3).astype(np.float32)
    p = np.asarray(prox(TotalVariation1D(5.0), x, 1.0))
    v = np.cumsum(x.astype(float) - p)
    # A level is off by half a unit in the last place at most (1.2e-7), over at most 500 numbers.
    rounding = 1e-4
    assert np.max(np.abs(v)) <= 5 + rounding and abs(v[-1]) <= rounding
    jumps = np.diff(p.astype(float))
    assert 20 < np.count_nonzero(jumps) < 5000
    np.testing.assert_allclose(v[:-1][jumps != 0], -5 * np.sign(jumps[jumps != 0]), atol=rounding)
    # One segment: a plain float32 sum of 20 000 numbers would have lost two digits.
    x = x + np.float32(100)
    flat = prox(TotalVariation1D(1e9), x, 1.0)
    np.testing.assert_allclose(flat, np.full(x.size, np.mean(x, dtype=float)), rtol=1.2e-7)


def test_total_variation_derivative_is_the_mean_over_segments():
    x, mean = np.array([0.0, 0.1, 9.0, 5.0, 5.3]), np.full((2, 2), 0.5)
    derivative = jax.jit(jax.jacrev(lambda x: TotalVariation1D(0.5).prox(x, 1.0)))(x)
    np.testing.assert_allclose(derivative, linalg.block_diag(mean, 1, mean), atol=1e-15)


@pytest.mark.parametrize(
    "r",
    [Zero(), Simplex(), Simplex(radius=2.0, upper=0.6), mvrc.Parts(a=Simplex(radius=3.0))],
    ids=str,
)
def test_prox_derivative_is_that_of_the_prox(r):
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = 0.7 * rng.standard_normal(6)
        tree = {"b": x[4:], "a": x[:4]} if isinstance(r, mvrc.Parts) else x
        flat, unravel = ravel_pytree(tree)
        prox = jax.jacfwd(lambda v, unravel=unravel: ravel_pytree(r.prox(unravel(v), 1.0))[0])
        np.testing.assert_allclose(r.prox_derivative(r.prox(tree, 1.0)), prox(flat), atol=1e-12)
    assert mvrc.Parts(a=Simplex(), b=L1(1.0)).prox_derivative({"a": x, "b": x}) is None


def test_sums_that_are_one_class():
    for r, expected in (
        (L1(0.3) + L2(0.5), ElasticNet(0.3, 0.5)),
        (L2(0.5) + L1(0.3), ElasticNet(0.3, 0.5)),
        (ElasticNet(0.3, 0.5) + L1(0.25), ElasticNet(0.55, 0.5)),
        (L1(0.25) + L1(0.5), L1(0.75)),
        (L2(0.25) + L2(0.5), L2(0.75)),
        (TotalVariation1D(0.25) + TotalVariation1D(0.5), TotalVariation1D(0.75)),
        (Zero() + Zero(), Zero()),
        (Zero() + Simplex(2.0), Simplex(2.0)),
        (Simplex(2.0) + Zero(), Simplex(2.0)),
    ):
        assert eqx.tree_equal(r, expected), r


def test_sums_do_not_depend_on_the_order():
    a, b, c = TotalVariation1D(0.7), L1(0.4), L2(0.2)
    for r in (a + b + c, a + (b + c), c + b + a, b + (c + a), Zero() + (c + a) + b):
        assert eqx.tree_equal(r, Sum((c, a, b))), r
    for pair in ((L1(0.4), GroupL2(0.7, LABELS)), (L1(0.4), NonNegative()), (L1(0.4), Box(0, 1))):
        assert eqx.tree_equal(pair[0] + pair[1], pair[1] + pair[0])
    with pytest.raises(ValueError, match="x of TotalVariation1D must be one vector"):
        (a + b).check(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        (L1Ball(1.0), Simplex(), "L1Ball \\+ Simplex"),
        (L1(1.0), Nuclear(1.0), "L1 \\+ Nuclear"),
        (LinearConstraint(1.0, 0, 1), L2Ball(1.0), "LinearConstraint \\+ L2Ball"),
        (L1(1.0, center=ONES), GroupL2(1.0, LABELS), "L1 \\+ GroupL2"),
        (ElasticNet(1.0, 1.0), L2Ball(1.0), "ElasticNet \\+ L2Ball"),
        (TotalVariation1D(1.0) + L1(1.0), NonNegative(), "TotalVariation1D \\+ L1 \\+ NonNegative"),
    ],
    ids=lambda r: type(r).__name__,
)
def test_unknown_sums_are_refused(a, b, names):
    sentence = f"The prox of {names} is not known in closed form; give .* with Custom"
    with pytest.raises(TypeError, match=sentence):
        a + b
    with pytest.raises(TypeError, match="unsupported operand"):
        a + 1.0
    with pytest.raises(TypeError, match="unsupported operand"):
        1 + a


def test_sum_of_a_list():
    assert sum([L1(0.1), L2(0.2)]) == ElasticNet(0.1, 0.2)
    assert sum([L1(0.25), L1(0.5), Zero()]) == L1(0.75)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: L1(-1),
            "weight of L1 must be a finite number of at least 0, or .* such, not -1.0.",
        ),
        (lambda: L1(np.nan), "weight of L1 must be a finite number of at least 0, or .* not nan."),
        (lambda: L1(1.0, center="a"), "center of L1 must be a finite number, .* or None, not 'a'."),
        (
            lambda: L1(1.0, np.ones(2)).check(np.ones(3)),
            "center of L1 must be .* not of shape .2,..",
        ),
        (lambda: LinearConstraint("a"), "matrix of LinearConstraint must be .* not 'a'."),
        (lambda: LinearConstraint(ROWS, [0, 1]), "one for each of the 3 rows, .* not array"),
        (lambda: LinearConstraint(1.0, 1, 0), "with lower <= upper and no NaN, not 1.0 and 0.0."),
        (
            lambda: LinearConstraint(ROWS).check(np.ones(4)),
            "has 6 columns and x has 4 coordinates.",
        ),
        (
            lambda: (Simplex() + Box(0, 0.1)).check(np.ones(6)),
            "No x meets Simplex . Box together: row 0 .* must lie in .1, 1., .* in .0, 0.6..",
        ),
        (
            lambda: (Box(0, 0.2) + Box(0.3, 1)).check(np.ones(6)),
            "coordinate 0 would have to be at least 0.3 and at most 0.2.",
        ),
        (
            lambda: LinearConstraint([[1, 1.0], [1, 2], [2, 1]], 1, 1).check(np.ones(2)),
            "No x meets all 3 rows of LinearConstraint together, though it meets each alone;",
        ),
        (lambda: L2(np.inf), "weight of L2 must be .* not inf."),
        (lambda: L2(np.ones(2)), "weight of L2 must be a finite number .* not array"),
        (lambda: L1(jnp.asarray(-2.0)), "weight of L1 must be .* not Array\\(-2"),
        (lambda: ElasticNet(-1, 0), "l1 of ElasticNet must be .* not -1.0."),
        (lambda: ElasticNet(0, -1), "l2 of ElasticNet must be .* not -1.0."),
        (lambda: Nuclear(-1), "weight of Nuclear must be .* not -1.0."),
        (lambda: TotalVariation1D(-1), "weight of TotalVariation1D must be .* not -1.0."),
        (lambda: GroupL2(-1, [0, 1]), "weight of GroupL2 must be .* array of 2 such .* not -1.0."),
        (lambda: GroupL2(np.ones(3), [0, 1]), "weight of GroupL2 must be .* array of 2 such"),
        (lambda: GroupL2(1, [[0, 1], [1, 2]]), "groups of GroupL2 must be .* each of 0, .* once"),
        (
            lambda: GroupL2(1, [[0, 1], [3]]),
            "groups of GroupL2 must be .* not \\[\\[0, 1\\], \\[3\\]\\].",
        ),
        (lambda: GroupL2(1, [0.5, 1.5]), "groups of GroupL2 must be an integer label"),
        (lambda: GroupL2(1, 3), "groups of GroupL2 must be .* not 3."),
        (lambda: Simplex(0), "radius of Simplex must be a finite number above 0, not 0.0."),
        (lambda: Simplex(upper=-1), "upper of Simplex must be a finite number .* not -1.0."),
        (lambda: Simplex(upper=np.ones(2)), "upper of Simplex must be .* or None, not array"),
        (
            lambda: Simplex(upper=0.1).check({"a": np.ones(3), "b": np.ones(2)}),
            "upper of Simplex must be at least 0.2, as the 5 coordinates .* sum 1, not 0.1.",
        ),
        (lambda: L1Ball(-1), "radius of L1Ball must be .* above 0, not -1.0."),
        (lambda: L2Ball(np.nan), "radius of L2Ball must be .* above 0, not nan."),
        (lambda: Box(1, 0), "lower <= upper everywhere and no NaN, not 1.0 and 0.0."),
        (lambda: Box(np.nan, 1), "lower and upper of Box must be .* not nan and 1.0."),
        (lambda: Box([0, 2], [1, 1]), "lower and upper of Box must be .* not array"),
        (lambda: Box(np.inf, np.inf), "lower and upper of Box must be .* not inf and inf."),
        (lambda: Box({"a": 0.0}, {"b": 1.0}), "pytrees of one structure"),
        (lambda: Box(np.zeros(2), np.ones(3)), "lower and upper of Box must be .* one structure"),
        (lambda: Box(None, 1.0), "lower and upper of Box must be .* not None and 1.0."),
        (lambda: Custom(1.0, abs), "value of Custom must be a function .* not 1.0."),
        (lambda: Custom(abs, None), "prox of Custom must be a function .* not None."),
        (
            lambda: Nuclear(1).check(np.ones(3)),
            "x of Nuclear must be one matrix .* shape \\(3,\\).",
        ),
        (lambda: Nuclear(1).check({"a": np.ones((2, 2))}), "x of Nuclear must be one matrix"),
        (lambda: TotalVariation1D(1).check(np.ones((3, 2))), "must be one vector .* \\(3, 2\\)."),
        (lambda: GroupL2(1, [0, 1]).check(np.ones(3)), "cover 2 coordinates; .* the 3 of x."),
        (
            lambda: Box(0, np.ones(2)).check(np.ones(3)),
            "upper of Box must be .* not of shape \\(2,\\).",
        ),
        (lambda: Box({"a": 0.0}, 1).check({"b": np.ones(3)}), "lower of Box must be a number or"),
        (
            lambda: Custom(jnp.abs, lambda x, s: x).check(np.ones(3)),
            "value\\(x\\) of Custom must be a scalar, not of shape \\(3,\\).",
        ),
        (
            lambda: Custom(jnp.sum, lambda x, s: x[:2]).check(np.ones(3)),
            "prox\\(x, step\\) of Custom must be like x, of shape \\(3,\\), not of shape \\(2,\\).",
        ),
    ],
)
def test_refusals(make, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()


@every_case(CASES)
def test_what_fits_is_not_refused(case):
    case.r.check(np.zeros(case.shape))
    case.r.check(np.zeros(case.shape, np.float32))


def test_new_weights_do_not_recompile():
    traces = []

    @jax.jit
    def traced(r, x):
        traces.append(r)
        return r.prox(x, 0.1)

    for make in (L1, L2, L1Ball, lambda w: ElasticNet(w, w), lambda w: Box(-w, w)):
        traces.clear()
        results = [traced(make(weight), np.array([3.0, -1.0])) for weight in (1.0, 2)]
        assert len(traces) == 1 and not np.array_equal(*results)


def test_modules_are_made_and_rebuilt_inside_jit():
    x = np.ones(D)
    for make in (L1, Simplex, lambda w: Box(-w, w), lambda w: GroupL2(w, LABELS)):
        r = make(0.5)
        made = jax.jit(lambda w, make=make: make(w).prox(x, 1.0))(0.5)
        np.testing.assert_allclose(made, prox(r, x, 1.0), rtol=1e-15)
        leaves, structure = jax.tree.flatten(r)
        jax.tree.unflatten(structure, [object() for _ in leaves])  # placeholders pass


def test_custom_carries_the_numbers_of_its_modules():
    l1 = L1(0.25)
    r = Custom(l1.value, jax.tree_util.Partial(lambda w, x, step: L1(w).prox(x, step), 0.25))
    assert len(jax.tree.leaves(r)) == 2
    x = np.array([3.0, -1.0], np.float32)
    np.testing.assert_array_equal(prox(r, x, 0.5), prox(l1, x, 0.5))
    assert prox(r, x, np.float64(0.5)).dtype == np.float32
    assert value(r + L2(2.0), x) == value(l1, x) + 10


def test_import_leaves_optax_alone():
    code = "import sys, mvrc.regularizers; sys.exit('optax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_parts_are_apart():
    """Each part has its own prox; what is not named is free."""
    r = mvrc.Parts(a=L1(0.5), b=mvrc.Simplex())
    x = {"a": np.array([2.0, -0.1]), "b": np.array([3.0, 1.0]), "c": np.array(7.0)}
    moved = r.prox(x, 0.4)
    np.testing.assert_allclose(moved["a"], prox(L1(0.5), x["a"], 0.4))
    np.testing.assert_allclose(moved["b"], [1, 0], atol=1e-7)
    assert moved["c"] == 7
    assert r.value(moved) == pytest.approx(0.5 * 1.8, rel=1e-6)
    assert np.isinf(r.value(x))
    with pytest.raises(ValueError, match="x of Parts must be a dictionary"):
        r.check({"a": np.ones(2)})
    with pytest.raises(TypeError, match="a of Parts must be a Regularizer"):
        mvrc.Parts(a=3)


def test_blocks_of_composed_terms_are_one():
    """Against the fused lasso, whose prox is exact, and its value; a plain term has A = I."""
    difference = np.diff(np.eye(D), axis=0)
    blocks = mvrc.Composed(L1(0.7), difference) + L1(0.4)
    exact = TotalVariation1D(0.7) + L1(0.4)
    x = 2 * np.random.default_rng(0).normal(size=D)
    blocks.check(x)
    assert blocks.value(x) == pytest.approx(float(exact.value(x)), rel=1e-14)
    np.testing.assert_allclose(blocks.prox(jnp.asarray(x), 0.5), exact.prox(x, 0.5), atol=1e-7)
    three = mvrc.Composed(Box(-1, 1), np.eye(D)[:2]) + blocks
    assert three.operator.apply(jnp.asarray(x)).shape == (2 + D - 1 + D,)
    with pytest.raises(ValueError, match="act on the same x, and have 6 and 3 columns"):
        blocks + mvrc.Composed(L1(0.1), np.eye(3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_rows_hold_to_rounding(dtype):
    """Budget, groups that overlap, a least return and costs; the prox is checked by duality:
    x = prox_h(w − Aᵀλ) for λ found by least squares, with the signs that active rows ask for."""
    rng = np.random.default_rng(0)
    d, held = 40, np.full(40, 1 / 40)
    rows = np.stack(
        [np.ones(d), np.arange(d) % 2, np.arange(d) < 15, 0.05 + 0.1 * rng.normal(size=d)]
    )
    r = (
        Box(0, 0.2)
        + L1(0.01, center=held)
        + LinearConstraint(rows, [1, 0.3, 0, 0.08], [1, 0.4, 0.3, 9])
    )
    for scale in (0.01, 1.0, 100.0):
        w = (scale * rng.normal(size=d)).astype(dtype)
        x = np.asarray(prox(r, w, 1.0))
        assert x.dtype == dtype and value(r, x) < np.inf
        free = (x > 0) & (x < 0.2) & (x != held.astype(dtype))
        slope = (w - x - 0.01 * np.sign(x - held))[free]
        y = rows @ x
        active = np.array(
            [
                True,
                abs(y[1] - 0.3) < 1e-5 or y[1] > 0.4 - 1e-5,
                y[2] > 0.3 - 1e-5,
                y[3] < 0.08 + 1e-5,
            ]
        )
        if free.sum() > active.sum():
            found = np.linalg.lstsq(rows[active][:, free].T, slope, rcond=None)[0]
            wrong = slope - rows[active][:, free].T @ found
            assert np.abs(wrong).max() <= 200 * np.finfo(dtype).eps * max(1, np.abs(w).max())
