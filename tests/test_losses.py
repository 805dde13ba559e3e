"""Losses against exact references, in float32 and where exponentials overflow."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc import losses
from mvrc.losses.auc import auc_functions
from mvrc.losses.robust import WithEta, tilted_functions

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((500, 4))


def loss(x, row):
    return (row[:3] @ x - row[3]) ** 2 / 2


def each(x, rows=ROWS):
    return (rows[:, :3] @ x - rows[:, 3]) ** 2 / 2


@pytest.mark.parametrize("t", [1e-3, 1.0, 20.0])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_tilted(t, dtype):
    x = np.array([0.3, -0.5, 1.0], dtype)
    top = each(x).max()
    problem = losses.tilted(loss, ROWS.astype(dtype), t, shift=top)
    rtol = 1e-3 if dtype == "f" and t == 1e-3 else 2e-6  # log(y)/t loses digits for small t
    assert problem.objective(x) == pytest.approx(losses.tilted_value(each(x), t), rel=rtol)


def test_tilted_is_finite_where_exponentials_overflow():
    x = np.full(3, 30.0, "f")  # losses of thousands
    problem = losses.tilted(loss, ROWS.astype("f"), 5.0)
    assert np.isfinite(problem.objective(x)) and np.all(np.isfinite(problem.gradient(x)))
    result = mvrc.minimize(problem, x)
    best = mvrc.minimize(losses.tilted(loss, ROWS, 5.0, shift=10.0), np.zeros(3)).objective
    assert losses.tilted_value(each(result.x.astype(float)), 5.0) < best + 1e-3
    far = losses.tilted(loss, ROWS.astype("f"), 5.0, shift=1e4)  # all exponents below
    assert np.isfinite(far.objective(x)) and np.linalg.norm(far.gradient(x)) > 0


@pytest.mark.parametrize("radius", [0.01, 1.0, 10.0])
def test_chi2(radius):
    x = np.array([0.3, -0.5, 1.0])
    values = each(x)
    want = losses.chi2_value(values, radius)
    problem = losses.chi2_robust(
        lambda z, row: loss(jnp.asarray(x), row) + 0 * z[0], ROWS, radius, 1e-6
    )
    start = WithEta(np.zeros(1), np.asarray(values.mean()))
    assert mvrc.minimize(problem, start).objective == pytest.approx(want, rel=1e-5)
    simple = values.mean() + np.sqrt(2 * radius * values.var())
    least = 1 + np.sqrt(2 * radius / values.var()) * (values.min() - values.mean())
    assert (least >= 0) == (radius < 10)
    if least >= 0:  # no weight is negative
        assert want == pytest.approx(simple, rel=1e-9)
    else:
        assert want < simple - 0.01  # where the simple form is no longer exact


def test_the_chi2_reference_is_the_worst_case_over_weights():
    """Against a direct maximisation over weights on the boundary of the ball."""
    values, radius = RNG.exponential(size=40), 0.7
    best = losses.chi2_value(values, radius)
    rng = np.random.default_rng(1)
    for _ in range(2000):
        weights = rng.dirichlet(np.full(40, rng.uniform(0.2, 3)))
        excess = np.mean((40 * weights - 1) ** 2) / 2
        if excess > radius:
            weights = 1 / 40 + (weights - 1 / 40) * np.sqrt(radius / excess)
        assert weights @ values <= best + 1e-9


def test_auc_without_the_hinge_is_the_pairwise_square_loss():
    x, labels = np.array([0.3, -0.5, 1.0, 0.2]), (RNG.random(500) < 0.1).astype(int)
    score = lambda x, row: row @ x  # noqa: E731
    problem = losses.auc_margin(score, ROWS, labels, hinge=False)
    want = losses.pairwise_square(ROWS @ x, labels)
    assert problem.objective(x) == pytest.approx(want, rel=1e-12)
    assert losses.auc_margin(score, ROWS, labels).objective(5 * x) <= problem.objective(5 * x)
    with pytest.raises(ValueError, match="both must occur"):
        losses.auc_margin(score, ROWS, np.zeros(500))


def test_auc_batches_without_positives_give_numbers():
    tracker = mvrc.tracker(*auc_functions(lambda x, row: row @ x))
    x = jnp.full(4, 0.1)
    rows = ROWS.astype("f")
    state = tracker.init(x, (rows[:8], np.zeros(8, "f")))
    gradient, state = tracker.update(state, x, (rows[8:16], np.zeros(8, "f")))
    assert np.all(np.isfinite(gradient))
    gradient, state = tracker.update(state, x, (rows[16:24], np.ones(8, "f")))
    assert np.all(np.isfinite(gradient))


def test_maml_is_what_plain_jax_gives():
    rng = np.random.default_rng(3)
    support = (rng.uniform(-5, 5, (50, 4)), rng.standard_normal((50, 4)))
    query = (rng.uniform(-5, 5, (4, 7)), rng.standard_normal((4, 7)))

    def squared(x, sample):
        a, b = sample
        return (jnp.tanh(x["w"] * a + x["b"]) @ x["v"] - b) ** 2

    x = {name: rng.standard_normal(3) for name in "wbv"}
    problem = losses.maml(squared, support, query, 0.05)
    with jax.enable_x64(True):
        want = losses.maml_value(squared, support, query, 0.05, x)
        slope = jax.grad(lambda x: losses.maml_value(squared, support, query, 0.05, x))(x)
    assert problem.objective(x) == pytest.approx(float(want), rel=1e-10)
    got = problem.gradient(x)
    assert all(np.allclose(got[name], slope[name], rtol=1e-8) for name in "wbv")
    with pytest.raises(ValueError, match="one number M of tasks"):
        losses.maml(squared, support, jax.tree_util.tree_map(lambda a: a[:3], query), 0.05)


def test_functions_for_trackers():
    inner, outer = tilted_functions(loss, 2.0, 1.0)
    tracker = mvrc.tracker(inner, outer, "scgd")
    x = jnp.zeros(3)
    gradient, _ = tracker.update(tracker.init(x, ROWS.astype("f")), x, ROWS.astype("f"))
    problem = losses.tilted(loss, ROWS, 2.0, 1.0)
    assert np.allclose(gradient, problem.gradient(np.zeros(3)), rtol=1e-4)
