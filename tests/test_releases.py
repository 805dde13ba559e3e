"""The installed JAX computes right: a scan against NumPy in float64. Wrong releases are refused.

Sums of small products, sums of broadcasts (several times: the fault is a race), gathers from
constants; sizes around 32,768, where the reductions of some releases went wrong.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mvrc.support import releases

ROWS = (1000, 32_767, 32_768, 32_769, 40_000, 70_000)
WIDTHS = (1, 2, 3, 4, 5, 8)
DTYPES = ("float32", "float64")

PRODUCTS = {
    "sum of a product": (
        lambda m, r: jnp.sum(m @ r),
        lambda m, r: (r @ m.T).sum(1),
    ),
    "sum of squares": (
        lambda m, r: jnp.sum((m @ r) ** 2),
        lambda m, r: ((r @ m.T) ** 2).sum(1),
    ),
    "entry of a product": (
        lambda m, r: (m @ r)[0] * r[-1],
        lambda m, r: (r @ m.T)[:, 0] * r[:, -1],
    ),
}
CASES = list(itertools.product(PRODUCTS, ROWS, WIDTHS, DTYPES))  # 216
SHORT = [case for case in CASES if case[1] in (32_769, 40_000) and case[2] == 3]


def check_products(name, n, d, dtype):
    ours, numpy = PRODUCTS[name]
    rng = np.random.default_rng(d)
    m, r = rng.standard_normal((d, d)).astype(dtype), rng.standard_normal((n, d)).astype(dtype)
    r[32_768:] += 3
    with jax.enable_x64(dtype == "float64"):
        each = np.asarray(jax.jit(jax.vmap(ours, (None, 0)))(m, r), float)
        total = float(jax.jit(lambda m, r: jnp.sum(jax.vmap(ours, (None, 0))(m, r)))(m, r))
    exact = numpy(m.astype(float), r.astype(float))
    size = float(np.abs(exact).max())
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(each, exact, rtol=0, atol=100 * d * eps * size)
    assert abs(total - exact.sum()) <= 100 * d * eps * np.abs(exact).sum()


@pytest.mark.parametrize("case", SHORT, ids=str)
def test_products(case):
    check_products(*case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case not in SHORT], ids=str)
def test_all_products(case):
    check_products(*case)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(40_000, 3), (100, 7), (70_000, 1)], ids=str)
def test_sums_of_broadcasts(shape, dtype):
    """Thirty times each."""
    row = np.arange(1, shape[1] + 1).astype(dtype)
    with jax.enable_x64(dtype == "float64"):
        program = jax.jit(lambda row: jnp.sum(jnp.broadcast_to(row, shape) * 2, axis=0))
        for _ in range(30):
            np.testing.assert_allclose(program(row), 2 * row * shape[0], rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [10, 1000, 40_000])
@pytest.mark.parametrize("width", [1, 3, 30])
def test_gathers_from_constants(rows, width, dtype):
    rng = np.random.default_rng(0)
    table, chosen = rng.standard_normal((rows, width)).astype(dtype), rng.integers(0, rows, 64)
    with jax.enable_x64(dtype == "float64"):
        found = jax.jit(lambda i: jnp.asarray(table)[i] * 2)(jnp.asarray(chosen, jnp.int32))
    np.testing.assert_allclose(found, table[chosen] * 2, rtol=1e-6)


@pytest.mark.parametrize("version", ["0.8.2", "0.8.3", "0.9.0", "0.9.0.1", "0.12.0", "0.13.1"])
def test_good_releases_are_taken(version):
    releases.refuse(version)


@pytest.mark.parametrize(
    ("version", "why"),
    [("0.7.2", "gathered"), ("0.8.1", "gathered"), ("0.9.1", "small products"),
     ("0.9.2", "small products"), ("0.10.0", "small products"), ("0.10.1", "small products"),
     ("0.10.2", "broadcast"), ("0.11.2", "broadcast")],
)  # fmt: skip
def test_wrong_releases_are_refused(version, why):
    with pytest.raises(ImportError, match=f"jaxlib {version} computes wrong.*{why}.*install 0.8.2"):
        releases.refuse(version)


def test_the_installed_release_is_a_good_one():
    import jaxlib

    assert releases.fault(jaxlib.__version__) is None
