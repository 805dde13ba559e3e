"""Simulated daily returns that look like those of the industry portfolios."""

from __future__ import annotations

import itertools

import numpy as np

from mvrc.datasets.returns import Returns
from mvrc.support import checks

# Close to the 30 industries: of the market, of the assets, and of the volatility of both.
_MEAN, _MEAN_SPREAD = 0.046, 0.006
_MARKET, _BETA_SPREAD = 0.96, 0.17
_OWN, _OWN_SPREAD = 0.73, 0.29
_DEGREES = 7
_VOLATILITY, _PERSISTENCE = 0.56, 0.985
_FIRST_DAY = "1926-07-01"


@checks.explain_keywords
def simulate_industry(n: int = 24452, d: int = 30, seed: int = 0) -> Returns:
    """One market factor, heavy tails, and calm and rough times.

    r_tj = 100 (exp(l_tj / 100) − 1) with l_tj = c_j + s_t (β_j m_t + σ_j e_tj), where m_t and e_tj
    are Student t with 7 degrees of freedom, log s_t is a stationary autoregression, β_j is normal
    about 1, σ_j is log-normal, and c_j makes the expected return about 0.046 percent a day. The
    exponential keeps every return above −100 percent. Numbers are chosen after the 30 industry
    portfolios; the defaults have the size of the paper's window.

    Args:
        n: days; the dates are the business days from 1926-07-01 on.
        d: assets.
        seed: of all random numbers.

    Examples:
        >>> mvrc.datasets.simulate_industry(n=100, d=4).values.shape
        (100, 4)
    """
    checks.integer("n", n)
    checks.integer("d", d)
    rng = np.random.default_rng(checks.seed("seed", seed))
    beta = 1 + _BETA_SPREAD * rng.standard_normal(d)
    own = _OWN * np.exp(_OWN_SPREAD * rng.standard_normal(d))
    market = _MARKET * _student(rng, (n, 1))
    noise = beta * market + own * _student(rng, (n, d))
    variance = (beta * _MARKET) ** 2 + own**2
    mean = _MEAN + _MEAN_SPREAD * rng.standard_normal(d) - variance / 200  # log to simple return
    values = 100 * np.expm1((mean + _volatility(rng, n)[:, None] * noise) / 100)
    days = np.busday_offset(_FIRST_DAY, np.arange(n), roll="forward")
    dates = np.array([int(str(day).replace("-", "")) for day in days])
    return Returns(values, tuple(f"asset {j}" for j in range(1, d + 1)), dates, ())


def _student(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Student t, scaled to variance 1."""
    return np.sqrt((_DEGREES - 2) / _DEGREES) * rng.standard_t(_DEGREES, shape)


def _volatility(rng: np.random.Generator, n: int) -> np.ndarray:
    """s_t with E s_t² = 1 and log s_t normal, of autocorrelation 0.985^lag."""
    shocks = rng.standard_normal(n)
    shocks[1:] *= np.sqrt(1 - _PERSISTENCE**2)
    path = itertools.accumulate(shocks, lambda level, shock: _PERSISTENCE * level + shock)
    log = _VOLATILITY * np.fromiter(path, dtype=float, count=n)
    return np.exp(log - _VOLATILITY**2)
