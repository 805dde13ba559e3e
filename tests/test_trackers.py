"""Estimators in a loop of one's own: the same numbers as inside `minimize`, any tree, any split."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc import estimators
from mvrc.engine.batches import ROLES, Given, batches_of, drawn_refresh, drawn_steps
from mvrc.methods.method import Start
from mvrc.sampling.source import key_bits
from mvrc.schemes import ProximalScheme

NAMES = ("scgd", "scsc", "storm", "smvr", "nasa", "spider")
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((240, 5)).astype("f")
TARGETS = RNG.standard_normal((60, 2)).astype("f")


def inner(x, row):
    """p = 3, curved in x."""
    return jnp.stack([row @ x, (row @ x) ** 2, jnp.sin(row @ x)])


def outer(y):
    return jnp.log1p(jnp.exp(-y[0])) + y[1] ** 2 - y[0] * y[2]


def outer_two(y, s):
    return (y[0] - s[0]) ** 2 + y[1] ** 2 * (1 + s[1] ** 2) - y[0] * y[2]


def exact(x, rows=ROWS):
    return jax.grad(lambda x: outer(jax.vmap(inner, (None, 0))(x, rows).mean(0)))(x)


@pytest.mark.parametrize("name", NAMES)
def test_on_everything_the_estimate_is_the_gradient(name):
    tracker = mvrc.tracker(inner, outer, name, weight=1.0)
    x = jnp.full(5, 0.2, jnp.float32)
    state = tracker.init(x, ROWS)
    for _ in range(3):
        gradient, state = tracker.update(state, x, ROWS)
    assert np.allclose(gradient, exact(x), rtol=2e-5, atol=2e-6)


ESTIMATORS = {
    "scgd": estimators.Ema(mvrc.Power(0.3)),
    "scsc": estimators.Scsc(mvrc.Power(0.3, 0.5)),
    "storm": estimators.Storm(mvrc.Power(0.3)),
    "smvr": estimators.Storm(mvrc.Power(0.3), recursion="levels", bound=5.0),
    "nasa": estimators.Nasa(mvrc.Power(1.0), 0.3, 0.3),
    "storm, free": estimators.Storm(mvrc.Power(0.3), jacobian="free"),
}


@pytest.mark.parametrize("two_level", [False, True], ids=["one level", "two levels"])
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.one_in(2)
def test_the_numbers_are_those_inside_of_minimize(name, two_level):
    """The batches of an epoch, drawn again, through the tracker: the same points, bit for bit."""
    own, step, steps = ESTIMATORS[name], 0.05, 6
    last = outer_two if two_level else outer
    problem = mvrc.Composition(inner, last, ROWS, TARGETS if two_level else None)
    size = mvrc.Sizes(16, None, 8 if two_level else None)
    method = mvrc.Method(own, ProximalScheme(step), size, size, steps)
    x0 = np.full(5, 0.2, "f")
    result = mvrc.minimize(problem, x0, method, epochs=1, seed=3)

    geometry = problem.geometry(x0)
    resolved = method.resolve(problem, geometry, Start(problem, x0))
    tracker = mvrc.tracker(inner, last, own)

    refresh = drawn_refresh(problem, resolved, key_bits(3), 0)
    small = drawn_steps(problem, resolved, key_bits(3), 1, steps)

    @jax.jit
    def loop(x, refresh, small):
        large, _ = batches_of(problem, resolved, Given(refresh, {}))
        state = tracker.init(x, **_given(large, two_level))
        tickets, opened = batches_of(problem, resolved, Given({}, small))[1](None)

        def one(carry, ticket):
            x, state = carry
            gradient, state = tracker.update(state, x, **_given(opened(ticket), two_level))
            return (x - step * gradient, state), None

        return jax.lax.scan(one, (x, state), tickets)[0][0]

    assert np.array_equal(loop(jnp.asarray(x0), refresh, small), result.x)


def _given(batches, two_level):
    """The batches of a step as a user would hand them over."""
    rows = {name: b.samples() for name, b in batches.items() if b is not None and name in ROLES}
    batch = (rows["values"], rows["outer"]) if two_level else rows["values"]
    return {"batch": batch, "second": rows.get("jacobians")}


class Model(eqx.Module):
    """Two layers, with a function among its leaves."""

    first: jax.Array
    last: jax.Array
    name: str = "model"
    activation: object = jnp.tanh

    def __call__(self, row):
        return self.last @ self.activation(self.first @ row)


@pytest.mark.parametrize("name", NAMES)
def test_an_equinox_model_under_jit(name):
    model = Model(jnp.full((3, 5), 0.1), jnp.ones((1, 3)))
    tracker = mvrc.tracker(lambda m, row: jnp.concatenate([m(row), m(row) ** 2]), outer_pair, name)
    state = tracker.init(model, ROWS)
    gradient, state = eqx.filter_jit(tracker.update)(state, model, ROWS)

    def whole(m):
        return outer_pair(
            jax.vmap(lambda row: jnp.concatenate([m(row), m(row) ** 2]))(ROWS).mean(0)
        )

    want = eqx.filter_grad(whole)(model)
    assert np.allclose(gradient.first, want.first, atol=1e-5)
    assert np.allclose(gradient.last, want.last, atol=1e-5)
    assert eqx.apply_updates(model, gradient).activation is jnp.tanh


def outer_pair(y):
    return jnp.exp(y[1]) - y[0] ** 2


@pytest.mark.parametrize("name", NAMES)
def test_micro_batches_and_devices_give_the_estimate_of_the_whole_batch(name):
    x = jnp.full(5, 0.2, jnp.float32)
    plain = mvrc.tracker(inner, outer, name)
    pieces = mvrc.tracker(inner, outer, name, micro_batch=16)
    shared = mvrc.tracker(inner, outer, name, axis_name="devices")
    split = ROWS[:64].reshape(4, 16, 5)
    found = []
    for own, batch in ((plain, ROWS[:64]), (pieces, ROWS[:64]), (shared, split)):

        def two(batch, own=own):
            state = own.init(x, batch)
            _, state = own.update(state, x + 0.1, batch)
            return own.update(state, x - 0.1, batch[::-1])[0]

        wide = jax.vmap(two, axis_name="devices") if own is shared else two
        found.append(np.asarray(jax.jit(wide)(batch)).reshape(-1, 5))
    assert np.allclose(found[1], found[0], rtol=1e-5, atol=1e-6)
    assert np.allclose(found[2], np.broadcast_to(found[0], (4, 5)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_surrogate_is_a_loss_whose_gradient_is_the_estimate(name):
    tracker = mvrc.tracker(inner, outer, name)
    x = jnp.full(5, 0.2, jnp.float32)
    state = tracker.init(x, ROWS[:100])
    loss = lambda x: tracker.surrogate(state, x, ROWS[:32], has_aux=True)  # noqa: E731
    (value, after), gradient = jax.value_and_grad(loss, has_aux=True)(x)
    want, same = tracker.update(state, x, ROWS[:32])
    assert np.allclose(gradient, want, rtol=1e-6, atol=1e-7)
    assert np.allclose(value, outer(after.inner), rtol=1e-6)
    assert all(np.allclose(a, b) for a, b in zip(after, same, strict=True) if a is not None)
    alone = jax.grad(lambda x: tracker.surrogate(state, x, ROWS[:32]))(x)
    assert np.array_equal(alone, gradient)


def test_spider_is_refreshed():
    tracker = mvrc.tracker(inner, outer, "spider")
    x = jnp.full(5, 0.2, jnp.float32)
    state = tracker.init(x, ROWS[:20])
    gradient, state = tracker.refresh(state, x + 0.1, ROWS)
    assert np.allclose(gradient, exact(x + 0.1), rtol=1e-4, atol=1e-5)


def test_the_multilevel_gradient_has_the_mean_of_its_largest_batch():
    """Exhaustively over levels: Σ p_J v_J has the mean of ψ on base·2^levels samples."""
    own = mvrc.tracker(inner, outer, "multilevel", base=2, levels=4)
    x = jnp.full(5, 0.3, jnp.float32)
    rng = np.random.default_rng(1)
    chances, draws = own.estimator.chances(), 4000
    total = np.zeros(5)
    for level, chance in enumerate(chances, start=1):
        size = 2 * 2**level
        batches = ROWS[rng.integers(0, len(ROWS), (draws, size))]
        each = jax.jit(jax.vmap(lambda b: own.update(None, x, b)[0]))(batches)
        total += chance * np.asarray(each).mean(0)
    largest = ROWS[rng.integers(0, len(ROWS), (draws, 32))]
    plain = jax.jit(jax.vmap(lambda b: exact(x, b)))(largest)
    spread = 4 * np.asarray(plain).std(0) / np.sqrt(draws) + 0.05 * np.abs(plain).mean()
    assert np.all(np.abs(total - np.asarray(plain).mean(0)) < spread)
    assert own.estimator.size(rng) in (4, 8, 16, 32)


def test_small_batches_do_not_end_at_the_floor_of_the_naive_gradient():
    """log E exp of a loss, batch 8: the naive gradient stops well above the minimum."""
    rng = np.random.default_rng(2)
    rows = np.column_stack([rng.standard_normal((2000, 3)), 2 * rng.standard_normal(2000)])
    rows = rows.astype("f")
    own_inner = lambda x, r: jnp.exp((r[:3] @ x - r[3]) ** 2 / 8)[None]  # noqa: E731
    own_outer = lambda y: jnp.log(y[0])  # noqa: E731
    problem = mvrc.Composition(own_inner, own_outer, rows)
    best = mvrc.minimize(problem, np.zeros(3, "f")).objective
    tracker = mvrc.tracker(own_inner, own_outer, "scgd", weight=0.05)

    def run(kind):
        def step(carry, key):
            x, mean, state, k = carry
            batch = jnp.asarray(rows)[jax.random.randint(key, (8,), 0, 2000)]
            if kind == "naive":
                v = jax.grad(lambda x: own_outer(jax.vmap(own_inner, (None, 0))(x, batch).mean(0)))(
                    x
                )
            else:
                v, state = tracker.update(state, x, batch)
            x = x - 0.02 * v
            mean = mean + (x - mean) / (k + 1)
            return (x, mean, state, k + 1), None

        x = jnp.zeros(3)
        keys = jax.random.split(jax.random.key(5), 20_000)
        first = (x, x, tracker.init(x, rows[:64]), 0.0)
        return jax.jit(lambda first: jax.lax.scan(step, first, keys)[0][1])(first)

    naive, tracked = (problem.objective(run(kind)) - best for kind in ("naive", "tracked"))
    assert tracked < naive / 4


def test_mistakes_are_told():
    with pytest.raises(ValueError, match="did you mean 'storm'"):
        mvrc.tracker(inner, outer, "strom")
    with pytest.raises(ValueError, match="keeps a row for every sample"):
        mvrc.tracker(inner, outer, estimators.Saga())
    with pytest.raises(TypeError, match=r"pair \(inner, outer\)"):
        mvrc.tracker(inner, outer_two).init(jnp.zeros(5), ROWS)
    with pytest.raises(ValueError, match="one leading axis"):
        mvrc.tracker(inner, outer).init(jnp.zeros(5), {"a": ROWS, "b": ROWS[:3]})
    with pytest.raises(ValueError, match="it must have one of"):
        mvrc.tracker(inner, outer, "multilevel").update(None, jnp.zeros(5), ROWS[:17])
    with pytest.raises(TypeError, match="no argument 'wieght'"):
        mvrc.tracker(inner, outer, wieght=0.1)
