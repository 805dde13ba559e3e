"""A child: the first call of the README's example, or of JAX on the same objective, or of fits.

Argument: `jit`, a method's name, or the name of a portfolio estimator (six expanding windows), or
`grid` (a search with two processes). Prints seconds of wall and CPU time beyond the imports.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mvrc

ROWS, ASSETS = 8_312, 20  # of the windows
WINDOWS = (8_312, 3_000, 4_000, 5_000, 6_500, 8_000)  # the longest first: it is the first fit


def inner(x: Any, r: Any) -> Any:
    return jnp.stack([r @ x, (r @ x) ** 2])


def outer(y: Any) -> Any:
    return -y[0] + 0.2 * (y[1] - y[0] ** 2)


def returns(rows: int = 5_000, columns: int = 10) -> np.ndarray:
    rng = np.random.default_rng(0)
    market = rng.standard_normal((rows, 1))
    return 0.05 + 0.8 * market + rng.standard_normal((rows, columns))


def timed(call: Callable[[], Any]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def jit() -> list[dict[str, float]]:
    """One value and gradient of the same objective over the same data."""
    rows = returns()

    def objective(x: Any) -> Any:
        y = jnp.mean(jax.vmap(inner, (None, 0))(x, rows), axis=0)
        return outer(y) + 0.01 * jnp.sum(jnp.abs(x))

    with jax.enable_x64(True):
        first = jax.jit(jax.value_and_grad(objective))
        return [timed(lambda: jax.block_until_ready(first(np.zeros(10))))]


def example(method: str) -> list[dict[str, float]]:
    """The first call, the second, and one with a row less."""
    rows, l1 = returns(), mvrc.L1(0.01)
    limits = {} if method == "auto" else {"epochs": 20}

    def call(data: np.ndarray) -> dict[str, float]:
        problem = mvrc.Composition(inner, outer, data, regularizer=l1)
        return timed(lambda: mvrc.minimize(problem, np.zeros(10), method, **limits))

    return [call(rows), call(rows), call(rows[:-1])]


def windows(name: str) -> list[dict[str, float]]:
    """Fits of an estimator to windows of another length each."""
    from mvrc import applications

    rows = returns(ROWS, ASSETS)
    estimator = getattr(applications, name)
    return [timed(lambda n=n: estimator().fit(rows[:n])) for n in WINDOWS]


def grid() -> list[dict[str, float]]:
    """A grid search with two processes."""
    from sklearn.model_selection import GridSearchCV

    from mvrc.applications import MeanVariancePortfolio

    choices = {"risk_aversion": [0.1, 0.5, 2.0, 5.0]}
    search = GridSearchCV(MeanVariancePortfolio(), choices, cv=3, n_jobs=2)
    return [timed(lambda: search.fit(returns(ROWS, ASSETS)))]


def main() -> None:
    what = sys.argv[1]
    if what in ("jit", "grid"):
        found = {"jit": jit, "grid": grid}[what]()
    elif what.endswith("Portfolio"):
        found = windows(what)
    else:
        found = example(what)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
