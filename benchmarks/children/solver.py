"""A child of `solvers.py`: one solver on one problem, twice; prints seconds and objective.

Arguments: problem, n, solver. The objective is the exact one, without smoothing of the CVaR.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ASSETS, RISK, L1, BETA = 30, 0.2, 0.01, 0.95
MEMORY = 22 * 2**30  # that cvxpy may ask for


def returns(n: int) -> np.ndarray:
    """Daily returns in percent: a market with fat tails and each asset's own noise."""
    rng = np.random.default_rng(0)
    rows = 0.6 * rng.standard_normal((n, ASSETS))
    rows += 0.8 * rng.standard_t(5, (n, 1)) + rng.uniform(0.02, 0.1, ASSETS)
    return rows


def main() -> None:
    """First call, with imports of the solver's own and compilation, then a second one."""
    problem, n, solver = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    rows = returns(n)
    solve = SOLVERS[problem, solver]
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        x = solve(rows)
        seconds.append(time.perf_counter() - start)
    exact = _variance if problem == "mean–variance" else _cvar
    print(json.dumps({"first": seconds[0], "second": seconds[1], "objective": exact(x, rows)}))


def _variance(x: np.ndarray, rows: np.ndarray) -> float:
    gains = rows @ x
    return float(-gains.mean() + RISK * gains.var() + L1 * np.abs(x).sum())


def _cvar(x: np.ndarray, rows: np.ndarray) -> float:
    x = np.maximum(x, 0)
    losses = -(rows @ (x / x.sum()))
    threshold = np.quantile(losses, BETA, method="inverted_cdf")
    tail = np.maximum(losses - threshold, 0).mean() / (1 - BETA)
    return float(losses.mean() + threshold + tail)


def _auto_variance(rows: np.ndarray) -> np.ndarray:
    import mvrc
    from mvrc.applications import mean_variance

    return mvrc.minimize(mean_variance(rows, RISK, L1), np.zeros(ASSETS)).x


def _auto_cvar(rows: np.ndarray) -> np.ndarray:
    import mvrc
    from mvrc.applications import mean_cvar

    x0 = {"weights": np.full(ASSETS, 1 / ASSETS), "threshold": np.zeros(())}
    return mvrc.minimize(mean_cvar(rows, 1.0, BETA), x0).x["weights"]


def _cvxpy(build: Callable[[Any, Any, np.ndarray], Any]) -> Callable[[np.ndarray], np.ndarray]:
    def solve(rows: np.ndarray) -> np.ndarray:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        import cvxpy as cp

        x = cp.Variable(ASSETS)
        objective, constraints = build(cp, x, rows)
        cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)
        return np.asarray(x.value)

    return solve


def _cvxpy_variance(cp: Any, x: Any, rows: np.ndarray) -> Any:
    centred = rows - rows.mean(axis=0)
    risk = RISK / len(rows) * cp.sum_squares(centred @ x)
    return -rows.mean(axis=0) @ x + risk + L1 * cp.norm1(x), []


def _cvxpy_covariance(cp: Any, x: Any, rows: np.ndarray) -> Any:
    covariance = np.cov(rows.T, bias=True)
    risk = RISK * cp.quad_form(x, cp.psd_wrap(covariance))
    return -rows.mean(axis=0) @ x + risk + L1 * cp.norm1(x), []


def _cvxpy_cvar(cp: Any, x: Any, rows: np.ndarray) -> Any:
    threshold = cp.Variable()
    tail = cp.sum(cp.pos(-rows @ x - threshold)) / (len(rows) * (1 - BETA))
    return -rows.mean(axis=0) @ x + threshold + tail, [x >= 0, cp.sum(x) == 1]


def _lbfgs_variance(rows: np.ndarray) -> np.ndarray:
    """x = u − v with u, v ≥ 0, so that the L1 norm is linear."""
    from scipy.optimize import minimize

    n = len(rows)

    def function(both: np.ndarray) -> tuple[float, np.ndarray]:
        gains = rows @ (both[:ASSETS] - both[ASSETS:])
        mean = gains.mean()
        value = -mean + RISK * (gains @ gains / n - mean**2) + L1 * both.sum()
        slope = ((-1 - 2 * RISK * mean) + 2 * RISK * gains) @ rows / n
        return value, np.concatenate([slope, -slope]) + L1

    found = minimize(
        function, np.zeros(2 * ASSETS), jac=True, method="L-BFGS-B",
        bounds=[(0, None)] * 2 * ASSETS, options={"maxiter": 5000, "ftol": 1e-14, "gtol": 1e-9},
    )  # fmt: skip
    return found.x[:ASSETS] - found.x[ASSETS:]


def _width(rows: np.ndarray) -> float:
    """The same smoothing as mvrc's default."""
    return 0.05 * float(np.median(rows.std(axis=0)))


def _lbfgs_cvar(rows: np.ndarray) -> np.ndarray:
    """Weights are the softmax of the unknowns, so that they stay on the simplex."""
    from scipy.optimize import minimize

    n, width = len(rows), _width(rows)

    def function(both: np.ndarray) -> tuple[float, np.ndarray]:
        x = _softmax(both[:-1])
        gains = rows @ x
        over = -gains - both[-1]
        share = np.clip(over / width + 0.5, 0, 1)  # derivative of the smoothed (·)₊
        tail = np.where(over > width / 2, over, share**2 * width / 2)
        weight = share / (1 - BETA)
        value = -gains.mean() + both[-1] + tail.mean() / (1 - BETA)
        slope = -(1 + weight) @ rows / n
        return value, np.append(x * (slope - x @ slope), 1 - weight.mean())

    found = minimize(
        function, np.zeros(ASSETS + 1), jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-14, "gtol": 1e-9},
    )  # fmt: skip
    return _softmax(found.x[:-1])


def _softmax(u: np.ndarray) -> np.ndarray:
    powers = np.exp(u - u.max())
    return powers / powers.sum()


def _fista(value: Callable[..., Any], prox: Callable[..., Any], start: np.ndarray, bend: float):
    """FISTA with restart as a user would write it: one jitted step, a step size from a bound."""
    import jax
    import jax.numpy as jnp

    slope = jax.grad(value)

    @jax.jit
    def step(x, y, t, rows):
        new = prox(y - slope(y, rows) / bend, 1 / bend)
        uphill = jnp.vdot(y - new, new - x) > 0
        after = jnp.where(uphill, 1.0, (1 + jnp.sqrt(1 + 4 * t**2)) / 2)
        weight = jnp.where(uphill, 0.0, (t - 1) / after)
        return new, new + weight * (new - x), after, jnp.linalg.norm(new - y)

    def solve(rows: Any) -> np.ndarray:
        x = y = jnp.asarray(start)
        t, first = jnp.asarray(1.0), None
        for _ in range(20_000):
            x, y, t, moved = step(x, y, t, rows)
            first = moved if first is None else first
            if moved <= 1e-7 * first:
                break
        return np.asarray(x)

    return solve


def _fista_variance(rows: np.ndarray) -> np.ndarray:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def value(x, rows):
        gains = rows @ x
        return -jnp.mean(gains) + RISK * (jnp.mean(gains**2) - jnp.mean(gains) ** 2)

    def prox(x, step):
        return jnp.sign(x) * jnp.maximum(jnp.abs(x) - step * L1, 0)

    bend = 2 * RISK * np.linalg.eigvalsh(np.cov(rows.T, bias=True))[-1]
    return _fista(value, prox, np.zeros(ASSETS), bend)(jnp.asarray(rows))


def _fista_cvar(rows: np.ndarray) -> np.ndarray:
    import jax
    import jax.numpy as jnp
    import optax

    jax.config.update("jax_enable_x64", True)
    width = _width(rows)

    def value(x, rows):
        gains = rows @ x[:-1]
        over = -gains - x[-1]
        share = jnp.clip(over / width + 0.5, 0, 1)
        tail = jnp.where(over > width / 2, over, share**2 * width / 2)
        return -jnp.mean(gains) + x[-1] + jnp.mean(tail) / (1 - BETA)

    def prox(x, step):
        return jnp.append(optax.projections.projection_simplex(x[:-1]), x[-1])

    extended = np.eye(ASSETS + 1)
    extended[:-1, :-1] = rows.T @ rows / len(rows)
    extended[:-1, -1] = extended[-1, :-1] = rows.mean(axis=0)
    bend = np.linalg.eigvalsh(extended)[-1] / (width * (1 - BETA))
    start = np.append(np.full(ASSETS, 1 / ASSETS), 0.0)
    return _fista(value, prox, start, bend)(jnp.asarray(rows))[:-1]


SOLVERS: dict[tuple[str, str], Callable[[np.ndarray], np.ndarray]] = {
    ("mean–variance", "auto"): _auto_variance,
    ("mean–variance", "cvxpy"): _cvxpy(_cvxpy_variance),
    ("mean–variance", "cvxpy on the covariance"): _cvxpy(_cvxpy_covariance),
    ("mean–variance", "L-BFGS-B"): _lbfgs_variance,
    ("mean–variance", "FISTA"): _fista_variance,
    ("mean–CVaR", "auto"): _auto_cvar,
    ("mean–CVaR", "cvxpy"): _cvxpy(_cvxpy_cvar),
    ("mean–CVaR", "L-BFGS-B"): _lbfgs_cvar,
    ("mean–CVaR", "FISTA"): _fista_cvar,
}

if __name__ == "__main__":
    main()
