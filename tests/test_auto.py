"""Auto: chosen without tuning, safe on random and badly scaled problems, honest about its end."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc.applications import (
    bellman,
    mean_semideviation,
    mean_variance,
    sparse_additive,
    sparse_additive_convex,
)
from mvrc.applications.portfolio import exact_mean_variance
from mvrc.datasets import random_mdp
from mvrc.solvers.result import DECISIONS

N, D = 300, 6
ENDS = (mvrc.Status.CONVERGED, mvrc.Status.PRECISION)
TRUE = (*ENDS, mvrc.Status.PLATEAU)  # the additive model at x = 0, where |t| hides its slope


def returns(rng: np.random.Generator, n: int = N, d: int = D) -> np.ndarray:
    """Correlated returns of a random scale and conditioning, sometimes with equal columns."""
    spread = np.logspace(0, -rng.uniform(0, 3), d)
    mix = np.linalg.qr(rng.standard_normal((d, d)))[0]
    rows = 0.05 + (rng.standard_normal((n, d)) * spread) @ mix.T
    if rng.random() < 0.2:
        rows[:, 1] = rows[:, 0]
    return rows * 10 ** rng.uniform(-3, 3)


def far(rng: np.random.Generator, d: int = D) -> np.ndarray:
    """A start that is near or up to 10³ away."""
    return rng.standard_normal(d) * 10 ** rng.uniform(-3, 3)


def margins(x, sample):
    return jnp.stack([jnp.tanh(sample["a"] @ x + sample["b"]), (sample["a"] @ x) ** 2])


def robust(y, sample):
    error = (sample["c"] @ y - sample["t"]) ** 2
    return error / (1 + error)


def residual(x, sample):
    error = (sample["a"] @ x - sample["b"]) ** 2
    return jnp.stack([error / (1 + error), error])


def exponential(x, sample):
    return jnp.exp(sample["a"] @ x + sample["b"])[None]


def quartic(x, sample):
    return jnp.stack([x[1] - sample["a"][0] * x[0] ** 2, x[0] - sample["b"], jnp.sum(x[2:] ** 2)])


def squares(y):
    return 10 * y[0] ** 2 + y[1] ** 2 + y[2] ** 2 / (1 + y[2])


def sum_of(y):
    return y[0] + 0.01 * y[1]


def log_of(y):
    return jnp.log(y[0])


def _linear(rng: np.random.Generator) -> dict[str, np.ndarray]:
    a = returns(rng) / 10 ** rng.uniform(-2, 2)
    return {"a": a, "b": rng.standard_normal(N)}


def _bounded(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Exponents up to 100 in the ball of radius 5; far from it they overflow."""
    data = _linear(rng)
    return data | {"a": data["a"] / np.abs(data["a"]).max() * 10 ** rng.uniform(-1, 1.3)}


def _two_level(rng: np.random.Generator) -> mvrc.Composition:
    outer = {"c": rng.standard_normal((40, 2)), "t": rng.standard_normal(40)}
    return mvrc.Composition(margins, robust, _linear(rng), outer, mvrc.L2(0.01))


def _chain(rng: np.random.Generator) -> mvrc.Composition:
    chain = random_mdp(40, D, gamma=rng.uniform(0.1, 0.99), seed=int(rng.integers(1000)))
    features = chain.features * 10 ** rng.uniform(-3, 3)
    return bellman(chain.transition, chain.rewards, features, chain.gamma)


def _groups(rng: np.random.Generator) -> mvrc.Composition:
    rows = returns(rng)
    y = rows @ rng.standard_normal(D) + rng.standard_normal(N)
    return sparse_additive_convex(rows, y, np.repeat([0, 1], 3), 10 ** rng.uniform(-4, 0))


FAMILIES: dict[str, Any] = {
    "variance": lambda rng: mean_variance(returns(rng), rng.uniform(0, 2), rng.uniform(0.001, 0.1)),
    "variance on a simplex": lambda rng: mean_variance(returns(rng), 1, constraint=mvrc.Simplex()),
    "semideviation": lambda rng: mean_semideviation(returns(rng), rng.uniform(0, 3)),
    "bellman": _chain,
    "groups": _groups,
    "additive": lambda rng: sparse_additive(returns(rng), np.abs(rng.standard_normal(N))),
    "two levels": _two_level,
    "robust, box": lambda rng: mvrc.Composition(
        residual, sum_of, _linear(rng), regularizer=mvrc.Box(-2, 3)
    ),
    "robust, no penalty": lambda rng: mvrc.Composition(residual, sum_of, _linear(rng)),
    "log of exponentials": lambda rng: mvrc.Composition(
        exponential, log_of, _bounded(rng), regularizer=mvrc.L1Ball(5.0)
    ),
    "quartic": lambda rng: mvrc.Composition(quartic, squares, _linear(rng)),
}
STEPS = {"auto": 14, "secant": 3, "averaged": 3}  # and on how many problems of each family
EPOCHS = {"auto": 300, "secant": 300, "averaged": 40}
TRIED = {"bellman": 3}  # as many at most, each has a program of its own


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.one_in(2)
def test_random_problems_end_with_a_finite_answer_below_the_start(family: str, steps: str) -> None:
    """More than 200 of them: no divergence, no endless run, never above the start."""
    for seed in range(min(STEPS[steps], TRIED.get(family, 99))):
        rng = np.random.default_rng(seed)
        problem = FAMILIES[family](rng)
        x0 = far(rng)
        result = mvrc.minimize(problem, x0, mvrc.Auto(steps), seed=seed, epochs=EPOCHS[steps])
        history = result.history["objective"]
        assert np.all(np.isfinite(result.x)), (seed, result.message)
        assert np.isfinite(result.objective), (seed, result.message)
        assert result.objective <= history[0], (seed, result.message)
        assert result.status is not mvrc.Status.DIVERGED
        if steps == "auto":
            assert result.status in TRUE, (seed, result.message)


def test_more_than_two_hundred_problems_are_tried() -> None:
    tried = sum(min(count, TRIED.get(name, 99)) for name in FAMILIES for count in STEPS.values())
    assert tried >= 200


def conditioned(condition: float, n: int = N, d: int = D) -> np.ndarray:
    """Returns whose covariance has exactly this condition number, and some mean."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((n, d))
    rows = np.linalg.qr(rows - rows.mean(axis=0))[0] * np.sqrt(n)
    mix = np.linalg.qr(rng.standard_normal((d, d)))[0]
    spread = np.logspace(0, -np.log10(condition) / 2, d)
    return (rows * spread) @ mix.T + 0.1 * (spread * rng.standard_normal(d)) @ mix.T


def gap(rows: np.ndarray, result: mvrc.Result, risk: float, l1: float) -> float:
    """How far Φ is above its minimum, as a share of what there was to gain."""
    _, best = exact_mean_variance(rows, risk, l1)
    return (result.objective - best) / (result.history["objective"][0] - best)


@pytest.mark.parametrize("scale", [1e-3, 1e-2, 1.0, 1e2, 1e3])
def test_rescaled_data_have_the_same_answer(scale: float) -> None:
    """Returns of another unit: with l1 in that unit, too, the weights are those of unit 1."""
    rows = conditioned(10) * scale
    result = mvrc.minimize(mean_variance(rows, 0.2 / scale, 0.01 * scale), np.zeros(D))
    exact, _ = exact_mean_variance(rows / scale, 0.2, 0.01)
    assert result.status in ENDS
    np.testing.assert_allclose(result.x, exact, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("away", [1e1, 1e3])
def test_a_start_far_away_ends_at_the_minimum(away: float) -> None:
    rows = conditioned(100)
    exact, best = exact_mean_variance(rows)
    x0 = away * np.linalg.norm(exact) * np.random.default_rng(0).standard_normal(D)
    result = mvrc.minimize(mean_variance(rows), x0)
    assert result.status in ENDS
    assert result.objective - best <= 1e-6 * abs(best)


def test_a_badly_conditioned_covariance_is_no_obstacle() -> None:
    rows = conditioned(1e6)
    result = mvrc.minimize(mean_variance(rows, 1.0, 1e-9), np.zeros(D))
    assert result.status in ENDS
    quadratic = np.linalg.solve(2 * np.cov(rows.T, bias=True), rows.mean(axis=0))
    np.testing.assert_allclose(result.x, quadratic, rtol=1e-3)


def test_duplicated_columns_share_one_weight() -> None:
    rows = conditioned(10)
    twice = np.hstack([rows, rows[:, :2]])
    result = mvrc.minimize(mean_variance(twice), np.zeros(D + 2))
    assert result.status in ENDS
    assert gap(rows, result, 0.2, 0.01) <= 1e-8


def test_a_problem_without_a_minimum_ends_with_a_finite_answer() -> None:
    """Without risk there is none: −mean falls for ever."""
    rows = conditioned(10)
    result = mvrc.minimize(mean_variance(rows, 0.0, 0.0), np.zeros(D), epochs=50)
    assert np.all(np.isfinite(result.x)) and np.isfinite(result.objective)
    assert result.objective <= result.history["objective"][0]


@pytest.mark.parametrize("steps", ["newton", "secant", "averaged"])
def test_every_kind_of_step_finds_the_minimum(steps: str) -> None:
    rows = conditioned(30)
    result = mvrc.minimize(mean_variance(rows), np.zeros(D), mvrc.Auto(steps))
    assert result.status in ENDS
    assert gap(rows, result, 0.2, 0.01) <= 1e-7
    assert set(result.history["decision"][1:]) <= set(DECISIONS)
    assert len(result.explain().splitlines()) >= 3


def test_stops_where_rounding_stops_it() -> None:
    """A tolerance that no float32 can reach ends as a lack of precision, not as 1000 epochs."""
    rows = conditioned(10).astype(np.float32)
    result = mvrc.minimize(mean_variance(rows), np.zeros(D, np.float32), tol=1e-30)
    assert result.status is mvrc.Status.PRECISION
    assert result.epochs < 100


def test_a_rise_is_taken_back_and_explained() -> None:
    """A bounded loss from far away: Newton's first steps are too long."""
    rng = np.random.default_rng(1)
    result = mvrc.minimize(FAMILIES["robust, box"](rng), far(rng))
    decisions, objective = result.history["decision"], result.history["objective"]
    assert "rejected, shorter steps" in decisions
    assert np.all(np.diff(objective) <= 1e-12 * np.abs(objective[:-1]))
    assert "the point was rejected" in result.explain()


def test_a_step_into_nowhere_is_taken_back() -> None:
    """√ of a mean that a long step makes negative: not a number, and not the end."""

    def inner(x, sample):
        return jnp.stack([1 + x[0] + sample * x[1], (x[0] + 0.95) ** 2 + x[1] ** 2])

    problem = mvrc.Composition(inner, lambda y: y[1] - 0.1 * jnp.sqrt(y[0]), np.linspace(-1, 1, 64))
    for steps in ("secant", "averaged", "newton"):
        result = mvrc.minimize(problem, np.array([30.0, 5.0]), mvrc.Auto(steps))
        assert result.status in ENDS, result.message
        assert result.gradient_mapping < 1e-4


def test_an_infeasible_start_is_projected() -> None:
    rows = conditioned(10)
    problem = mean_variance(rows, 1.0, 0.0, mvrc.Simplex())
    result = mvrc.minimize(problem, np.full(D, 40.0))
    assert result.status in ENDS
    assert np.isfinite(result.history["objective"]).all()
    np.testing.assert_allclose(result.x.sum(), 1)
    assert "projection" in result.explain()


def stream_of(mean: np.ndarray) -> mvrc.Stream:
    return mvrc.Stream(lambda key, size: mean + jax.random.normal(key, (size, mean.size)))


def moments(x, sample):
    return jnp.stack([sample @ x, (sample @ x) ** 2])


def utility(y):
    return -y[0] + 0.5 * (y[1] - y[0] ** 2)


def weighted(y, sample):
    return -sample * y[0] + 0.5 * (y[1] - y[0] ** 2)


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_stream_is_followed_down_to_its_noise(levels: int, dtype: Any) -> None:
    """Samples N(m, I) and −mean + ½ variance: the minimum is x = m."""
    mean = np.array([0.0, 0.25, 0.5, -0.75], dtype)
    outer = None
    if levels == 2:
        outer = mvrc.Stream(lambda key, size: 1 + 0.3 * jax.random.normal(key, (size,)))
    problem = mvrc.Composition(
        moments, utility if levels == 1 else weighted, stream_of(mean), outer
    )
    result = mvrc.minimize(problem, np.zeros(4, dtype), samples=100_000)
    assert result.status is mvrc.Status.SAMPLES, result.message
    np.testing.assert_allclose(result.x, mean, atol=0.02)
    assert "stream" in result.explain()
    with pytest.raises(ValueError, match="needs full passes"):
        mvrc.minimize(problem, np.zeros(4, dtype), mvrc.Auto("secant"))


def test_many_unknowns_are_matrix_free() -> None:
    """d = p = 300: secants, and nothing of size p·d or d² is kept."""
    rng = np.random.default_rng(0)
    data = {"scale": rng.uniform(0.5, 1.5, (64, 300)), "b": rng.standard_normal((64, 300))}
    problem = mvrc.Composition(
        lambda x, s: s["scale"] * x + s["b"], lambda y: jnp.sum(jnp.log1p(y**2)), data, None,
        mvrc.L1(0.05),
    )  # fmt: skip
    result = mvrc.minimize(problem, np.ones(300))
    assert result.status in ENDS
    assert result.gradient_mapping <= 1e-5 * result.history["gradient_mapping"][0]
    assert "learnt from how the gradient changes" in result.explain()
    assert max(np.size(leaf) for leaf in jax.tree_util.tree_leaves(result.state.core)) < 300 * 20


def test_pytrees_seeds_and_checkpoints(tmp_path: Any) -> None:
    rows = conditioned(10)

    def inner(x, sample):
        gain = sample[:3] @ x["a"] + sample[3:] @ x["b"]
        return {"mean": gain, "square": gain**2}

    def outer(y):
        return -y["mean"] + 0.2 * (y["square"] - y["mean"] ** 2)

    problem = mvrc.Composition(inner, outer, rows, regularizer=mvrc.L1(0.01))
    x0 = {"a": np.zeros(3), "b": np.zeros(3)}
    exact, _ = exact_mean_variance(rows)
    for result in mvrc.minimize_many(problem, x0, mvrc.Auto("averaged"), seeds=2):
        assert result.status is mvrc.Status.CONVERGED
        np.testing.assert_allclose(np.concatenate([result.x["a"], result.x["b"]]), exact, atol=1e-5)
    whole = mvrc.minimize(problem, x0)
    np.testing.assert_allclose(np.concatenate([whole.x["a"], whole.x["b"]]), exact, atol=1e-5)
    mvrc.minimize(problem, x0, epochs=2, checkpoint=tmp_path / "run")
    resumed = mvrc.minimize(problem, x0, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(resumed.x["a"], whole.x["a"])
    assert resumed.counts == whole.counts


def test_measured_curvature_is_counted() -> None:
    """A Jacobian of every sample, and d columns of some; no value, as g is known there."""
    problem = mean_variance(conditioned(10), 0.2, 0.0)
    result = mvrc.minimize(problem, np.zeros(D), mvrc.Auto("newton"), epochs=0)
    assert result.counts.inner_values == N
    columns = result.counts.inner_jacobians - N - N  # the gradient, and J of all samples
    assert columns > 0 and columns % D == 0 and columns // D <= N


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(ValueError, match="steps must be 'auto' or 'newton' or 'secant'"):
        mvrc.Auto("best")
    wide = mvrc.Composition(lambda x, s: x * s, lambda y: jnp.sum(y**2), np.ones((9, 300)))
    with pytest.raises(ValueError, match="too expensive to measure"):
        mvrc.minimize(wide, np.ones(300), mvrc.Auto("newton"))


def test_without_second_derivatives_secants_are_learnt() -> None:
    @jax.custom_vjp
    def twice(t):
        return 2 * t

    twice.defvjp(lambda t: (2 * t, None), lambda _, c: (2 * c,))

    @jax.custom_vjp
    def square(t):
        return t**2

    square.defvjp(lambda t: (t**2, t), lambda t, c: (twice(t) * c,))
    rows = conditioned(10)
    problem = mvrc.Composition(
        lambda x, r: jnp.stack([r @ x, square(r @ x)]),
        lambda y: -y[0] + 0.2 * (y[1] - y[0] ** 2),
        rows,
        regularizer=mvrc.L1(0.01),
    )
    result = mvrc.minimize(problem, np.zeros(D))
    assert result.status in ENDS
    assert gap(rows, result, 0.2, 0.01) <= 1e-7
    assert "cannot be differentiated twice" in result.explain()


def test_random_output_is_refused() -> None:
    with pytest.raises(ValueError, match="output is 'random'"):
        mvrc.minimize(mean_variance(conditioned(10)), np.zeros(D), output="random")


@pytest.mark.parametrize("name", ["auto", None])
def test_it_is_the_default_everywhere(name: Any) -> None:
    rows = conditioned(10)
    assert mvrc.minimize(mean_variance(rows), np.zeros(D), name).notes
    assert mvrc.applications.MeanVariancePortfolio(method=name).fit(rows).result_.notes
    assert "Auto" in repr(mvrc.describe("auto"))
