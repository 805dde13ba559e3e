"""The problems that are timed: the paper's portfolio, and a wide one with p = d."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

import mvrc

ROWS, ASSETS, BATCH = 24_452, 30, 256
PERIOD = math.ceil(ROWS / BATCH)
STEP, ALPHA = 1e-3, 0.8
RISK, SPARSITY = 0.2, 0.01


def returns(rows: int = ROWS, dtype: type = np.float64, seed: int = 0) -> np.ndarray:
    """Daily returns in percent: a market factor and each asset's own noise."""
    rng = np.random.default_rng(seed)
    market = rng.standard_normal((rows, 1))
    own = rng.standard_normal((rows, ASSETS))
    mean = rng.uniform(0.02, 0.1, ASSETS)
    return (mean + 0.8 * market + 0.6 * own).astype(dtype)


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


def method(period: int = PERIOD, batch_size: int = BATCH) -> mvrc.MVRC:
    """MVRC as in the paper's experiments."""
    return mvrc.MVRC(
        step_size=STEP, momentum=mvrc.Constant(ALPHA), batch_size=batch_size, period=period
    )  # fmt: skip


def coupled(x, sample):
    """A wide g: every output depends on every input, so each Jacobian is a full p × d matrix."""
    return jnp.tanh(sample["scale"] * x + jnp.dot(sample["mix"], x))


def spread(y):
    """A smooth outer function of a long vector."""
    return jnp.mean(y**2) - jnp.mean(y)
