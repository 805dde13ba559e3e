"""JAX's settings: whatever a user has set, mvrc computes the same, or refuses in a sentence."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc import MVRC, Composition, minimize
from mvrc.applications import MeanVariancePortfolio, StochasticNeighborEmbedding

RETURNS = np.random.default_rng(1).standard_normal((60, 4)) + 0.1
STEP = MVRC(0.05, batch_size=6, period=5)


def moments(x, r):
    return jnp.stack([r @ x, (r @ x) ** 2])


def utility(y):
    return -y[0] + 0.5 * (y[1] - y[0] ** 2)


def make(dtype):
    return Composition(moments, utility, RETURNS.astype(dtype), regularizer=mvrc.L1(0.01))


def online(dtype):
    """A draw that does not say its dtype would follow 64-bit mode, as in JAX itself."""
    stream = mvrc.Stream(lambda key, size: 0.1 + jax.random.uniform(key, (size, 4), dtype), 100)
    return Composition(moments, utility, stream)


def resumed(problem, x0, folder):
    minimize(problem, x0, STEP, epochs=1, checkpoint=folder)
    return minimize(problem, x0, STEP, epochs=3, checkpoint=folder).x


def numbers(constants):
    return [value for value in vars(constants).values() if isinstance(value, float)]


# What a user calls, as functions of dtype, x0 and an empty folder that give numbers.
CALLS = {
    "auto": lambda t, x0, _: minimize(make(t), x0, epochs=4).x,
    "mvrc": lambda t, x0, _: minimize(make(t), x0, STEP, epochs=3).x,
    "storm": lambda t, x0, _: minimize(make(t), x0, mvrc.STORM(), epochs=2).x,
    "table": lambda t, x0, _: minimize(make(t), x0, mvrc.CSAGA(0.05), epochs=2).x,
    "random": lambda t, x0, _: minimize(make(t), x0, STEP, epochs=2, output="random").x,
    "many": lambda t, x0, _: [
        r.x for r in mvrc.minimize_many(make(t), x0, STEP, seeds=2, epochs=2)
    ],
    "stream": lambda t, x0, _: (
        minimize(online(t), x0, MVRC(0.05, batch_size=6, period=5, refresh_size=20), epochs=2).x
    ),
    "objective": lambda t, x0, _: make(t).objective(x0),
    "gradient": lambda t, x0, _: make(t).gradient(x0),
    "check": lambda t, x0, _: bool(make(t).check(x0)),
    "constants": lambda t, x0, _: numbers(mvrc.estimate_constants(make(t), x0, 1.0)),
    "estimator": lambda t, x0, _: MeanVariancePortfolio().fit(RETURNS.astype(t)).weights_,
    "resume": lambda t, x0, folder: resumed(make(t), x0, folder),
}


def numbers_of(name, dtype, folder):
    return np.asarray(CALLS[name](dtype, np.zeros(4, dtype), folder))


@contextlib.contextmanager
def changed(name, value):
    """A setting for the whole process, as jax.config.update makes it."""
    old = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, old)


SETTINGS = {
    "disable_jit": jax.disable_jit,
    "strict dtypes": lambda: changed("jax_numpy_dtype_promotion", "strict"),
    "strict ranks": lambda: changed("jax_numpy_rank_promotion", "raise"),
    "rbg": lambda: changed("jax_default_prng_impl", "rbg"),
    "unsafe_rbg": lambda: jax.default_prng_impl("unsafe_rbg"),
    "transfer guard": lambda: changed("jax_transfer_guard", "disallow"),
    "explicit transfer guard": lambda: jax.transfer_guard("disallow_explicit"),
    "debug_nans": lambda: changed("jax_debug_nans", True),
    "debug_infs": lambda: changed("jax_debug_infs", True),
    "tracer leaks": lambda: changed("jax_check_tracer_leaks", True),
    "64 bits": lambda: changed("jax_enable_x64", True),
    "default device": lambda: changed("jax_default_device", "cpu"),
    "key reuse": lambda: changed("jax_debug_key_reuse", True),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The numbers without any setting, computed once."""
    known = {}

    def find(name, dtype):
        if (name, dtype) not in known:
            known[name, dtype] = numbers_of(name, dtype, tmp_path_factory.mktemp("run"))
        return known[name, dtype]

    return find


@pytest.mark.one_in(3)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("call", CALLS)
def test_the_same_numbers_under_any_setting(setting, call, expected, tmp_path):
    dtype = np.float32 if setting == "64 bits" else np.float64  # which turns them on by itself
    want = expected(call, dtype)
    with SETTINGS[setting]():
        found = numbers_of(call, dtype, tmp_path)
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


def test_settings_are_as_they_were():
    with jax.numpy_dtype_promotion("strict"), jax.transfer_guard("disallow"), jax.disable_jit():
        minimize(make(np.float64), np.zeros(4), STEP, epochs=1)
        assert jax.config.jax_numpy_dtype_promotion == "strict"
        assert jax.config.jax_transfer_guard_host_to_device == "disallow"
        assert jax.config.jax_disable_jit and not jax.config.jax_enable_x64


@pytest.mark.parametrize(
    ("setting", "inner", "match"),
    [
        ("strict dtypes", lambda x, r: x * r.astype(jnp.float32), "TypePromotionError: Input dty"),
        ("strict ranks", lambda x, r: x + jnp.outer(r, r), "could not be broadcast together"),
        ("tracer leaks", lambda x, r: KEPT.append(x) or x * r, "Leaked trace"),
    ],
)
def test_checks_hold_for_the_users_functions(setting, inner, match):
    problem = Composition(inner, lambda y: jnp.sum(y**2), RETURNS)
    with SETTINGS[setting](), pytest.raises(ValueError, match=f"inner.x, sample. failed.*{match}"):
        minimize(problem, np.zeros(4), STEP, epochs=1)
    KEPT.clear()


KEPT = []


def test_checks_hold_for_the_users_draws():
    twice = mvrc.Stream(lambda key, n: jax.random.normal(key, (n, 4)) * jax.random.bits(key), 100)
    with SETTINGS["key reuse"](), pytest.raises(ValueError, match="draw.*failed.*KeyReuseError"):
        Composition(moments, utility, twice).objective(np.zeros(4))


def test_checks_do_not_hold_for_the_functions_of_applications():
    """Which a user cannot mend."""
    points = RETURNS[:20].astype(np.float32)
    plain = StochasticNeighborEmbedding(max_epochs=2, random_state=0).fit_transform(points)
    with SETTINGS["strict dtypes"](), SETTINGS["strict ranks"]():
        strict = StochasticNeighborEmbedding(max_epochs=2, random_state=0).fit_transform(points)
    np.testing.assert_array_equal(strict, plain)


def test_a_run_that_leaves_the_numbers_is_reported_under_debug_nans():
    problem = Composition(lambda x, r: x * r, lambda y: jnp.sum(y**4), RETURNS + 3)
    with jax.debug_nans(True), jax.debug_infs(True):
        result = minimize(problem, np.ones(4), MVRC(10.0), epochs=20)
        assert result.status is mvrc.Status.DIVERGED
        log = Composition(lambda x, r: jnp.log(x * r), lambda y: jnp.sum(y), RETURNS)
        with pytest.raises(ValueError, match="x0"):
            minimize(log, np.zeros(4), STEP)


def test_a_kept_program_is_not_that_of_another_setting():
    """Other random numbers: a program compiled before must not be run in the place of a new one."""
    stream = mvrc.Stream(lambda key, m: 0.1 + jax.random.normal(key, (m, 4)), 100)
    problem, x0 = Composition(moments, utility, stream), np.zeros(4)
    method = mvrc.SCGD(step_size=0.1, period=5)
    old = jax.config.jax_threefry_partitionable
    first = minimize(problem, x0, method, epochs=2).x
    with changed("jax_threefry_partitionable", not old):
        other = minimize(problem, x0, method, epochs=2).x
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(first, minimize(problem, x0, method, epochs=2).x)


TWO_DEVICES = """
    import contextlib, sys
    sys.path.insert(0, {tests!r})
    import conftest
    import jax, jax.numpy as jnp, numpy as np, pytest, tempfile, warnings
    import mvrc
    from test_settings import *

    first, second = jax.devices()

    def on(device, dtype):
        with jax.enable_x64(True):
            data = jax.device_put(RETURNS.astype(dtype), device)
        return Composition(moments, utility, data, regularizer=mvrc.L1(0.01))

    def same(name, x0, make=None, context=contextlib.nullcontext):
        import test_settings
        want = numbers_of(name, np.float64, tempfile.mkdtemp())
        old = test_settings.make
        test_settings.make = make or old
        try:
            with context():
                found = np.asarray(CALLS[name](np.float64, x0, tempfile.mkdtemp()))
        finally:
            test_settings.make = old
        np.testing.assert_allclose(found, want, rtol=1e-9)  # sums in another order

    x0 = np.zeros(4)
    with jax.enable_x64(True):
        elsewhere = jax.device_put(x0, first)
    for name in CALLS:
        same(name, elsewhere, lambda t: on(second, t))  # data on one device, x0 on the other
    for name in ("mvrc", "objective"):
        same(name, elsewhere, None, lambda: jax.default_device(second))
        same(name, x0, lambda t: on(first, t), lambda: jax.default_device(second))

    # Computed where the data are.
    result = minimize(on(second, np.float64), x0, STEP, epochs=1)
    assert result.state.core.epoch.devices() == {{second}}, result.state.core.epoch.devices()
    with jax.default_device(second):
        result = minimize(make(np.float64), x0, STEP, epochs=1)
    assert result.state.core.epoch.devices() == {{second}}

    # Arrays that are bound to no device come along.
    with jax.enable_x64(True):
        bounds, scale = jnp.ones(4), jnp.full(4, 2.0)
        assert not bounds.committed
    data = on(second, np.float64).inner_data
    bounded = Composition(
        lambda x, r: moments(scale * x, r), utility, data, regularizer=mvrc.Box(-bounds, bounds)
    )
    minimize(bounded, x0, STEP, epochs=1)
    minimize(bounded, x0, epochs=2)

    # Arrays on two devices, or one spread over both, are refused.
    with pytest.raises(ValueError, match="arrays are on 2 devices .*and a run computes on one"):
        two = Composition(
            moments, lambda y, s: utility(y) + jnp.sum(s), data, on(first, np.float64).inner_data
        )
        two.objective(x0)
    from jax.sharding import NamedSharding, PartitionSpec
    mesh = jax.make_mesh((2,), ("rows",))
    spread = jax.device_put(RETURNS.astype(np.float32), NamedSharding(mesh, PartitionSpec("rows")))
    with pytest.raises(ValueError, match="arrays are on 2 devices .*jax.device_put"):
        Composition(moments, utility, spread)
    print("done")
"""


@pytest.mark.slow
def test_data_on_another_device():
    code = textwrap.dedent(TWO_DEVICES).format(tests=str(Path(__file__).parent))
    flags = f"--xla_force_host_platform_device_count=2 {os.environ.get('XLA_FLAGS', '')}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip().endswith("done"), done.stderr[-3000:]


ENVIRONMENT = {
    "JAX_DISABLE_JIT": "1",
    "JAX_NUMPY_DTYPE_PROMOTION": "strict",
    "JAX_NUMPY_RANK_PROMOTION": "raise",
    "JAX_DEFAULT_PRNG_IMPL": "rbg",
    "JAX_TRANSFER_GUARD": "disallow",
    "JAX_DEBUG_NANS": "1",
    "JAX_ENABLE_X64": "1",
}


def test_settings_made_at_start_up():
    """All at once, before anything is imported."""
    code = "import sys; sys.path.insert(0, {!r}); import conftest; from test_settings import *; "
    code = code.format(str(Path(__file__).parent))
    code += "print(*numbers_of('mvrc', np.float64, None).tolist())"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **ENVIRONMENT},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = [float(word) for word in done.stdout.split()]
    assert found == numbers_of("mvrc", np.float64, None).tolist()
