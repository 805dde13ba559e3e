"""The problems that are timed: the paper's portfolio, and a wide one with any p and d."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import mvrc

ROWS, ASSETS, BATCH = 24_452, 30, 256
PERIOD = math.ceil(ROWS / BATCH)
STEP, ALPHA = 1e-3, 0.8
RISK, SPARSITY = 0.2, 0.01

BOUNDARY = 64  # bytes; XLA uses arrays that start on one without a copy
BLOCK = 2**22  # numbers that are drawn; a larger array repeats them


def returns(
    rows: int = ROWS, dtype: Any = np.float64, assets: int = ASSETS, seed: int = 0
) -> np.ndarray:
    """Daily returns in percent: a market factor and each asset's own noise.

    With other than 30 assets they are scaled so that the same step size suits.
    """
    rng = np.random.default_rng(seed)
    drawn = min(rows, max(1, BLOCK // assets))
    market = rng.standard_normal((drawn, 1))
    own = rng.standard_normal((drawn, assets))
    mean = rng.uniform(0.02, 0.1, assets)
    block = (mean + 0.8 * market + 0.6 * own) * math.sqrt(ASSETS / assets)
    return tiled(block.astype(dtype), rows)


def tiled(block: np.ndarray, rows: int, aligned: bool = True) -> np.ndarray:
    """`rows` rows that repeat a block, without a second array of that size on the way."""
    width, spare = block.shape[1], BOUNDARY // block.itemsize
    memory = np.empty(rows * width + 2 * spare, block.dtype)
    first = -memory.ctypes.data % BOUNDARY // block.itemsize
    first += 0 if aligned else spare // 4  # malloc's own 16 bytes
    data = memory[first : first + rows * width].reshape(rows, width)
    for i in range(0, rows, len(block)):
        data[i : i + len(block)] = block[: rows - i]
    return data


def moments(x, r):
    """g of the portfolio problem: one day's return and its square."""
    return jnp.stack([r @ x, (r @ x) ** 2])


def risk(y):
    """f of the portfolio problem: minus mean plus 0.2 · variance."""
    return -y[0] - RISK * (y[0] ** 2 - y[1])


def portfolio(data: np.ndarray, sampling: str = "replacement") -> mvrc.Composition:
    """min −mean + 0.2·variance + 0.01‖x‖₁ over portfolios x."""
    return mvrc.Composition(
        moments, risk, data, regularizer=mvrc.L1(SPARSITY), sampling=sampling
    )  # fmt: skip


def method(period: int = PERIOD, batch_size: int = BATCH, **more: Any) -> mvrc.MVRC:
    """MVRC as in the paper's experiments."""
    return mvrc.MVRC(
        step_size=STEP, momentum=mvrc.Constant(ALPHA), batch_size=batch_size, period=period, **more
    )  # fmt: skip


def additive_method(jacobian: str) -> mvrc.MVRC:
    """Steps alone on the sparse additive model, with the paper's batches."""
    small = {"batch_size": 70, "outer_batch_size": 10}
    large = {"refresh_size": 70, "outer_refresh_size": 10}
    return mvrc.MVRC(1e-6, period=PERIOD, epsilon=None, jacobian=jacobian, **small, **large)


class Mixed(eqx.Module):
    """g(x, a) = tanh(W(a∘x)): p outputs of d inputs, with samples of d numbers only."""

    mix: Any  # W, p × d

    def __call__(self, x, a):
        return jnp.tanh(self.mix @ (a * x))


def mixture(n: int, d: int, p: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Data and W of the wide problem."""
    rng = np.random.default_rng(0)
    drawn = min(n, max(1, BLOCK // d))
    data = tiled((rng.standard_normal((drawn, d)) / d**0.5).astype(dtype), n)
    return data, rng.standard_normal((p, d)).astype(dtype)


def wide(data: np.ndarray, mix: np.ndarray) -> mvrc.Composition:
    """The wide problem, with the same penalty as the portfolio's."""
    return mvrc.Composition(Mixed(mix), spread, data, regularizer=mvrc.L1(SPARSITY))


def coupled(x, sample):
    """A wide g: every output depends on every input, so each Jacobian is a full p × d matrix."""
    return jnp.tanh(sample["scale"] * x + jnp.dot(sample["mix"], x))


def spread(y):
    """A smooth outer function of a long vector."""
    return jnp.mean(y**2) - jnp.mean(y)
