"""What every method of METHODS must do, over the problem classes that it is for."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

import mvrc
from cases import METHOD_CASES, ONE, TWO, one_level, online, quadratic

LEVELS = [
    pytest.param(case, two, id=f"{case.name}-{'two' if two else 'one'}")
    for case in METHOD_CASES.values()
    for two in (False, True)
    if not (two and case.one_level_only)
]
NAMES = list(METHOD_CASES)
ONLINE = {two: online(two) for two in (False, True)}


@functools.cache
def solved(two: bool, smooth: bool):
    """One problem object for all methods, so that its functions are the same."""
    return quadratic(two, penalty=0.0 if smooth else 0.1)


def test_every_method_is_here():
    assert list(METHOD_CASES) == list(mvrc.METHODS)
    for name, case in METHOD_CASES.items():
        assert case.make is mvrc.METHODS[name]


@pytest.mark.parametrize(("case", "two"), LEVELS)
@pytest.mark.one_in(2)
def test_finds_the_known_optimum(case, two):
    problem, x0, solution = solved(two, case.smooth_only)
    options = {} if case.converges else {"batch_size": 12}
    result = mvrc.minimize(
        problem, x0, case.recipe(two, **options), epochs=case.epochs, record_every=case.epochs
    )
    start, end = np.linalg.norm(x0 - solution), np.linalg.norm(result.x - solution)
    # Variance-reduced and exact methods go to the solution; the others to the noise of their step.
    assert end < (1e-6 if case.converges else 0.05) * start
    assert result.counts.prox >= case.epochs * 6


@pytest.mark.parametrize(("case", "two"), LEVELS)
@pytest.mark.one_in(2)
def test_nonconvex_to_stationarity(case, two):
    case_problem = TWO if two else ONE
    problem, x0 = case_problem.problem, case_problem.x0
    if case.smooth_only:
        problem = smooth_problem(two)
    result = mvrc.minimize(
        problem, x0, case.recipe(two, step=case.nonconvex_step), epochs=150, record_every=150
    )
    first, last = result.history["gradient_mapping"][[0, -1]]
    factor = 1e-3 if case.converges else 0.5
    if case.name in ("spider-admm", "nested-spider", "c-svrg-1", "c-svrg-2"):
        # Linear, but at the slower rate of a multiplier, of short steps, of half an epoch.
        factor = 2e-2
    assert last < factor * first
    assert result.objective < result.history["objective"][0]


@functools.cache
def smooth_problem(two: bool):
    p = (TWO if two else ONE).problem
    return mvrc.Composition(p.inner, p.outer, p.inner_data, p.outer_data)


def epoch_counts(case, two, n=36, N=9, s=6, b=3, tau=6):
    """(values, Jacobians, outer gradients, prox) of the start and of an epoch."""
    spider = (n + 2 * s * (tau - 1),) * 2
    outer_spider = N + 2 * b * (tau - 1) if two else tau
    small_outer = b if two else 1
    if case.name in ("mvrc", "civr", "nested-spider", "spider-admm"):
        # ε of the normalised step is measured for a pass.
        normalised = case.name == "nested-spider" or (case.name == "mvrc" and two)
        start = (n, n, N if two else 1, 1) if normalised else (0, 0, 0, 0)
        return start, (*spider, outer_spider, tau)
    if case.name == "sarah-c":
        return (0, 0, 0, 0), (*spider, N + 2 * b * (tau - 1) if two else 2 * tau - 1, tau)
    if case.name in ("vrsc-pg", "c-svrg-1", "c-svrg-2"):
        return (0, 0, 0, 0), (*spider, outer_spider, tau)
    if case.name == "katyusha":
        values = n + 2 * s * tau
        return (0, 0, 0, 0), (values, values, (N + 2 * b * tau) if two else 1 + tau, 2 * tau)
    if case.name == "c-saga":
        return (n, n, N if two else 1, 0), (s * tau, s * tau, small_outer * tau, tau)
    first = (s, s, small_outer, 0)
    if case.name in ("scgd", "ascgd", "asc-pg", "nasa"):
        return first, (s * tau, s * tau, small_outer * tau, tau)
    if case.name == "scsc":
        return first, (2 * s * tau, s * tau, small_outer * tau, tau)
    if case.name in ("storm", "smvr"):
        return first, (2 * s * tau, 2 * s * tau, (2 * b if two else 1) * tau, tau)
    if case.name in ("proximal-gradient", "fista"):
        return (0, 0, 0, 0), (n * tau, n * tau, (N if two else 1) * tau, tau)
    pytest.skip("no formula is known here for a method that was added")


@pytest.mark.parametrize(("case", "two"), LEVELS)
def test_counts_are_those_of_the_formulas(case, two):
    problem, x0, _ = solved(two, case.smooth_only)
    result = mvrc.minimize(problem, x0, case.recipe(two), epochs=2, record_every=2)
    start, each = epoch_counts(case, two)
    assert tuple(result.counts) == tuple(a + 2 * b for a, b in zip(start, each, strict=True))


@pytest.mark.parametrize(("case", "two"), LEVELS)
@pytest.mark.one_in(2)
def test_resumes_bit_for_bit(case, two, tmp_path):
    problem, x0, _ = solved(two, case.smooth_only)
    recipe = case.recipe(two)
    straight = mvrc.minimize(problem, x0, recipe, epochs=4, seed=1, record_every=4)
    for epochs in (2, 4):
        resumed = mvrc.minimize(
            problem, x0, recipe, epochs=epochs, seed=1, record_every=4, checkpoint=tmp_path
        )
    for a, b in zip(
        jax.tree_util.tree_leaves(straight.state.core),
        jax.tree_util.tree_leaves(resumed.state.core),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_single_runs(name):
    case = METHOD_CASES[name]
    problem, x0, _ = solved(False, case.smooth_only)
    many = mvrc.minimize_many(problem, x0, case.recipe(False), seeds=[1, 5], epochs=3)
    single = mvrc.minimize(problem, x0, case.recipe(False), seed=5, epochs=3)
    np.testing.assert_allclose(many[1].x, single.x, rtol=0, atol=1e-12)
    assert many[0].counts == single.counts
    if case.draws:
        assert not np.array_equal(many[0].x, many[1].x)


@pytest.mark.parametrize("name", NAMES)
def test_float32_and_pytrees(name):
    """A dict in float32 gives the float64 run of the vector, to float32 rounding."""
    case = METHOD_CASES[name]
    problem = smooth_problem(False) if case.smooth_only else ONE.problem
    recipe = case.recipe(False, step=0.05)
    wide = mvrc.minimize(problem, ONE.x0, recipe, epochs=2)

    tree_problem = mvrc.Composition(
        lambda x, s: problem.inner(jax.numpy.concatenate([x["u"], x["v"]]), s),
        problem.outer,
        {k: np.asarray(v, np.float32) for k, v in problem.inner_data.items()},
        regularizer=problem.regularizer,
    )
    x0 = {"u": ONE.x0[:2].astype(np.float32), "v": ONE.x0[2:].astype(np.float32)}
    narrow = mvrc.minimize(tree_problem, x0, recipe, epochs=2)
    assert narrow.x["u"].dtype == np.float32
    joined = np.concatenate([narrow.x["u"], narrow.x["v"]])
    np.testing.assert_allclose(joined, wide.x, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "two"),
    [(n, False) for n in NAMES if METHOD_CASES[n].online]
    + [(n, True) for n in ("mvrc", "sarah-c", "asc-pg", "storm")],
)
def test_online(name, two):
    case = METHOD_CASES[name]
    problem = ONLINE[two]
    if case.smooth_only:
        problem = mvrc.Composition(
            problem.inner, problem.outer, problem.inner_data, problem.outer_data
        )
    options = {}
    if case.draws and case.converges:
        options["refresh_size"] = 100
        if two:
            options["outer_refresh_size"] = 100
    x0 = np.full(5, 0.1, np.float32)
    result = mvrc.minimize(
        problem, x0, case.recipe(two, step=0.05, **options), epochs=10, record_every=10
    )
    assert result.objective < result.history["objective"][0]


@pytest.mark.parametrize("name", [n for n in NAMES if METHOD_CASES[n].matrix_free])
def test_matrix_free_is_the_matrix_at_full_batch(name):
    case = METHOD_CASES[name]
    runs = [
        mvrc.minimize(
            ONE.problem, ONE.x0, case.recipe(False, 0.05, batch_size=40, jacobian=j), epochs=3
        ).x
        for j in ("matrix", "free")
    ]
    np.testing.assert_allclose(*runs, rtol=0, atol=1e-10)


def test_saga_tables_agree():
    """Recomputed old points are the stored ones; the reshuffled blocks have indices too."""
    for sampling in ("replacement", "reshuffled"):
        case = one_level(sampling=sampling)
        full, points = (
            mvrc.minimize(
                case.problem,
                case.x0,
                mvrc.CSAGA(0.05, batch_size=6, period=6, table=table),
                epochs=3,
            )
            for table in ("full", "points")
        )
        np.testing.assert_allclose(full.x, points.x, rtol=0, atol=1e-12)
        assert points.counts.inner_values == 40 + 3 * 6 * 12
        assert full.counts.inner_values == 40 + 3 * 6 * 6


def test_saga_says_what_it_needs(monkeypatch):
    from mvrc.methods import c_saga

    monkeypatch.setattr(c_saga, "available_memory", lambda: 10_000)
    with pytest.raises(MemoryError, match="table 'full' for n = 40.*GiB are free; use table='poi"):
        mvrc.minimize(ONE.problem, ONE.x0, mvrc.CSAGA(0.1, table="full"))
    result = mvrc.minimize(ONE.problem, ONE.x0, mvrc.CSAGA(0.1), epochs=1)  # auto: points
    assert result.state.core.estimator.jacobians is None
    with pytest.raises(MemoryError, match="batch_size = 30, .* use a smaller batch_size"):
        monkeypatch.setattr(c_saga, "available_memory", lambda: 3_000)
        mvrc.minimize(ONE.problem, ONE.x0, mvrc.CSAGA(0.1, batch_size=30, table="points"))


def test_saga_needs_a_row_for_every_sample():
    from mvrc.estimators import Saga
    from mvrc.schemes import ProximalScheme

    partial = mvrc.Method(Saga(), ProximalScheme(0.05), mvrc.Sizes(4), mvrc.Sizes(5))
    with pytest.raises(ValueError, match="Saga keeps a row for every sample"):
        mvrc.minimize(ONE.problem, ONE.x0, partial)
    streamed = mvrc.Method(Saga(), ProximalScheme(0.05), mvrc.Sizes(4), period=3)
    with pytest.raises(ValueError, match="is for finite sums and this problem is E¹"):
        mvrc.minimize(ONLINE[False], np.zeros(5, np.float32), streamed)


def test_refusals_name_the_methods_that_do():
    with pytest.raises(ValueError, match="CIVR is for a single outer function.*Σ².*'mvrc'"):
        mvrc.minimize(TWO.problem, TWO.x0, "civr")
    with pytest.raises(ValueError, match="ASCGD is for problems without a regularizer.*'asc-pg'"):
        mvrc.minimize(ONE.problem, ONE.x0, "ascgd")
    x0 = np.zeros(5, np.float32)
    for name in ("vrsc-pg", "c-saga", "katyusha"):
        with pytest.raises(ValueError, match="is for finite sums and this problem is E¹.*'mvrc'"):
            mvrc.minimize(ONLINE[False], x0, name)
    with pytest.raises(ValueError, match="unknown .did you mean 'katyusha'"):
        mvrc.minimize(ONE.problem, ONE.x0, "katjusha")
    with pytest.raises(TypeError, match="VRSCPG.. has no argument 'jacobian'"):
        mvrc.VRSCPG(0.1, jacobian="free")


def test_free_product():
    """MVRC momentum on SAGA: no library offers it, and it falls out of the design."""
    from mvrc.estimators import Saga
    from mvrc.schemes import MomentumScheme

    problem, x0, solution = solved(False, False)
    method = mvrc.Method(
        Saga("points"), MomentumScheme(0.2, mvrc.Constant(0.8)), batch=mvrc.Sizes(6), period=6
    )
    result = mvrc.minimize(problem, x0, method, epochs=60)
    np.testing.assert_allclose(result.x, solution, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_describes_itself(name):
    text = repr(mvrc.describe(name))
    for words in ("reference", "problems", "an epoch", "memory", "step_size"):
        assert words in text
    assert mvrc.METHODS[name].about.title in text


def test_step_sizes_of_the_papers():
    """CIVR: 4/(L + √(L² + 12G₀)); C-SAGA: 1/(L + √(L² + 48G)), G = 18 l_g⁴L_f² + 2 l_f²L_g²."""
    constants = mvrc.Constants(l_f=2.0, L_f=3.0, l_g=1.5, L_g=0.5)
    smooth = 1.5**2 * 3 + 2 * 0.5
    g_0 = 2 * (1.5**4 * 9 + 4 * 0.25)
    civr = mvrc.CIVR.from_theory(constants, batch_size=4)
    assert civr.step_size == pytest.approx(4 / (smooth + np.sqrt(smooth**2 + 12 * g_0)))
    assert civr.batch_size == 4
    growth = 18 * 1.5**4 * 9 + 2 * 4 * 0.25
    saga = mvrc.CSAGA.from_theory(constants, table="points")
    assert saga.step_size == pytest.approx(1 / (smooth + np.sqrt(smooth**2 + 48 * growth)))
    with pytest.raises(TypeError, match="constants must be of class Constants, not 3"):
        mvrc.CIVR.from_theory(3)
    with pytest.raises(TypeError, match="no argument 'tabel'.*mean 'table'"):
        mvrc.CSAGA.from_theory(constants, tabel="full")
