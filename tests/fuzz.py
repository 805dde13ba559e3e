"""`python -m tests.fuzz`: random problems against `Auto`; what it says must be true of each.

Seeds are drawn anew at every call and printed, so that a failure can be made again:
`python -m tests.fuzz --seed 123 --count 1`. Checked of every run: it ends without an error, its
answer is finite, feasible and not above the start; after CONVERGED neither a trust-region Newton
method nor L-BFGS (r = 0), nor proximal gradient steps (with r), all in float64, gain more than
the stated tolerance; and the same problem in other units of x ends in the same way.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

import mvrc

SHAPES = ((40, 3), (300, 6))  # few, so that programs are shared
SLACK = 4.0  # of a gain against the predicted one, as no model is exact
ENDS = (mvrc.Status.CONVERGED, mvrc.Status.PRECISION, mvrc.Status.PLATEAU, mvrc.Status.STALLED)


def _residual(x: Any, s: Any) -> Any:
    return s["a"] @ (x * s["c"]) - s["b"]


def squared(x: Any, s: Any) -> Any:
    return (_residual(x, s) ** 2)[None]


def fourth(x: Any, s: Any) -> Any:
    return (_residual(x, s) ** 4)[None]


def log_cosh(x: Any, s: Any) -> Any:
    size = jnp.abs(_residual(x, s))
    return (size + jnp.log1p(jnp.exp(-2 * size)))[None]


def logistic(x: Any, s: Any) -> Any:
    return jnp.logaddexp(0.0, -s["sign"] * (s["a"] @ (x * s["c"])))[None]


def moments(x: Any, s: Any) -> Any:
    gain = s["a"] @ (x * s["c"])
    return jnp.stack([gain, gain**2])


def bounded(x: Any, s: Any) -> Any:
    square = _residual(x, s) ** 2
    return jnp.stack([square / (1 + square), square])


def curved(x: Any, s: Any) -> Any:
    z = x * s["c"]
    return jnp.stack([jnp.tanh(s["a"] @ z), jnp.sum(z**2), jnp.sin(s["a"] @ z) + s["b"]])


def identity(y: Any) -> Any:
    return y[0]


def tilted(y: Any) -> Any:
    return jnp.log1p(y[0])


def variance(y: Any) -> Any:
    return -y[0] + 0.5 * (y[1] - y[0] ** 2)


def mixed(y: Any) -> Any:
    return y[0] + 0.01 * y[1]


def curved_outer(y: Any) -> Any:
    return (y[0] - 0.3) ** 2 + 0.1 * y[1] + 0.2 * y[2] ** 2


FAMILIES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "least squares": (squared, identity),
    "fourth powers": (fourth, identity),
    "log cosh": (log_cosh, identity),
    "logistic": (logistic, identity),
    "mean variance": (moments, variance),
    "robust": (bounded, mixed),
    "log of squares": (squared, tilted),
    "curved": (curved, curved_outer),
}


def _penalties(rng: np.random.Generator, d: int) -> dict[str, mvrc.regularizers.Regularizer]:
    weight = float(10 ** rng.uniform(-3, 0))
    return {
        "none": mvrc.Zero(),
        "L1": mvrc.L1(weight),
        "L2": mvrc.L2(weight),
        "elastic net": mvrc.ElasticNet(weight, weight),
        "box": mvrc.Box(-float(rng.uniform(0.1, 3)), float(rng.uniform(0.1, 3))),
        "non-negative": mvrc.NonNegative(),
        "simplex": mvrc.Simplex(),
        "L1 ball": mvrc.L1Ball(float(rng.uniform(0.1, 5))),
        "L2 ball": mvrc.L2Ball(float(rng.uniform(0.1, 5))),
        "groups": mvrc.GroupL2(weight, np.arange(d) % 2),
        "total variation": mvrc.TotalVariation1D(weight),
    }


SEPARABLE = ("none",)  # in other units of x the same problem only without r


class Case(NamedTuple):
    """A problem, its start, and what it is."""

    inner: Any
    outer: Any
    data: dict[str, np.ndarray]
    penalty: Any
    x0: np.ndarray
    words: str
    scalable: bool

    def problem(self, dtype: Any = None) -> mvrc.Composition:
        dtype = self.x0.dtype if dtype is None else dtype
        data = {name: a.astype(dtype) for name, a in self.data.items()}
        return mvrc.Composition(self.inner, self.outer, data, regularizer=self.penalty)

    def scaled(self, factors: np.ndarray) -> Case:
        """The same in unknowns x/factors."""
        data = self.data | {"c": self.data["c"] * factors}
        return self._replace(data=data, x0=(self.x0 / factors).astype(self.x0.dtype))


def make(seed: int) -> Case:
    """The problem of a seed."""
    rng = np.random.default_rng(seed)
    family = list(FAMILIES)[rng.integers(len(FAMILIES))]
    n, d = SHAPES[rng.integers(len(SHAPES))]
    dtype = np.float32 if rng.random() < 0.3 else np.float64
    spread = np.logspace(0, -rng.uniform(0, 2), d)
    a = (rng.standard_normal((n, d)) * spread) @ np.linalg.qr(rng.standard_normal((d, d)))[0].T
    if rng.random() < 0.1:
        a[:, 1] = a[:, 0]
    b = a @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)
    sign = np.where(b + rng.standard_normal(n) > 0, 1.0, -1.0)
    c = np.broadcast_to(np.ones(d), (n, d)).copy()
    penalties = _penalties(rng, d)
    kind = "none" if rng.random() < 0.35 else list(penalties)[rng.integers(len(penalties))]
    far = 10 ** rng.uniform(-2, 6 if family != "fourth powers" or dtype == np.float64 else 2)
    x0 = (far * rng.standard_normal(d)).astype(dtype)
    data = {"a": a + 0.1 * (family == "mean variance"), "b": b, "sign": sign, "c": c}
    words = f"{family}, {kind}, {n} × {d}, {np.dtype(dtype).name}, x0 {far:.1g} away"
    return Case(*FAMILIES[family], data, penalties[kind], x0, words, kind in SEPARABLE)


def faults(seed: int) -> list[str]:
    """What is wrong with the run of a seed; an empty list if nothing is."""
    case = make(seed)
    problem = case.problem()
    result = mvrc.minimize(problem, case.x0, epochs=2000)
    found = []
    start = result.history["objective"][0]
    if not (np.all(np.isfinite(result.x)) and np.isfinite(result.objective)):
        found.append(f"the answer is not finite: {result.message}")
    if np.isfinite(start) and result.objective > start:
        found.append(f"above the start: {start} → {result.objective}")
    if result.status is mvrc.Status.CONVERGED:
        found += _gains(case, result)
    if case.scalable:
        found += _other_units(case, result, np.random.default_rng(seed + 1))
    return [f"seed {seed} ({case.words}), {result.status.name}: {fault}" for fault in found]


def _tolerance(result: mvrc.Result, dtype: Any) -> float:
    """As docs/auto.md states it."""
    eps = float(np.finfo(dtype).eps)
    scale = float(result.state.core.scale)
    return max(eps**0.75 * abs(result.objective), 4 * eps * scale)


def _gains(case: Case, result: mvrc.Result) -> list[str]:
    """What other methods gain from the answer, in float64, beyond the tolerance."""
    wide = case.problem(np.float64)
    x = np.asarray(result.x, np.float64)
    first = wide.objective(x)
    allowed = SLACK * _tolerance(result, case.x0.dtype)
    with jax.enable_x64(True):
        data = {name: jnp.asarray(a) for name, a in case.data.items()}

        def smooth(x: Any) -> Any:
            return case.outer(jnp.mean(jax.vmap(case.inner, (None, 0))(x, data), axis=0))

        value, gradient = jax.jit(smooth), jax.jit(jax.grad(smooth))
        hessian = jax.jit(jax.hessian(smooth))
        reached = {}
        if isinstance(case.penalty, mvrc.Zero):
            for method, more in (
                ("L-BFGS-B", {}),
                ("trust-exact", {"hess": lambda x: np.asarray(hessian(x))}),
            ):
                ended = scipy.optimize.minimize(
                    lambda x: float(value(x)),
                    x,
                    jac=lambda x: np.asarray(gradient(x)),
                    method=method,
                    **more,
                )
                reached[method] = float(ended.fun)
        else:
            reached["proximal gradient"] = _proximal(case.penalty, value, gradient, x)
    return [
        f"{method} gains {first - best:.3g}, allowed {allowed:.3g} of {first:.6g}"
        for method, best in reached.items()
        if first - best > allowed
    ]


def _proximal(penalty: Any, value: Any, gradient: Any, x: np.ndarray, steps: int = 300) -> float:
    """Proximal gradient steps with backtracking; the lowest Φ."""
    step, best = 1.0, float(value(x)) + float(penalty.value(x))
    if not np.isfinite(best):
        x = np.asarray(penalty.prox(x, 1.0))
        best = float(value(x)) + float(penalty.value(x))
    for _ in range(steps):
        f, g = float(value(x)), np.asarray(gradient(x))
        while step > 1e-30:
            u = np.asarray(penalty.prox(x - step * g, step))
            s = u - x
            if float(value(u)) <= f + g @ s + s @ s / (2 * step):
                break
            step /= 2
        x, step = u, 1.5 * step
        best = min(best, float(value(x)) + float(penalty.value(x)))
    return best


def _other_units(case: Case, result: mvrc.Result, rng: np.random.Generator) -> list[str]:
    """The same problem with every unknown in a unit of its own."""
    if case.x0.dtype == np.float32:
        return []  # the factors change the rounding of the data
    factors = 10 ** rng.uniform(-6, 6, len(case.x0))
    again = mvrc.minimize(case.scaled(factors).problem(), case.scaled(factors).x0, epochs=2000)
    found = []
    if again.status is not result.status and {again.status, result.status} & {
        mvrc.Status.CONVERGED
    }:
        found.append(f"in other units {again.status.name}")
    if abs(again.objective - result.objective) > 1e-6 * abs(result.objective) + 1e-12:
        found.append(f"in other units {again.objective:.10g} instead of {result.objective:.10g}")
    few, many = sorted((again.epochs, result.epochs))
    if many > 2 * few + 4:
        found.append(f"in other units {again.epochs} epochs instead of {result.epochs}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None, help="of the first problem")
    given = parser.parse_args()
    first = secrets.randbelow(2**31) if given.seed is None else given.seed
    print(f"{given.count} problems from seed {first} on")
    start, wrong = time.monotonic(), 0
    for seed in range(first, first + given.count):
        try:
            found = faults(seed)
        except Exception as error:
            found = [f"seed {seed} ({make(seed).words}): {type(error).__name__}: {error}"]
        wrong += bool(found)
        for fault in found:
            print(fault, flush=True)
    print(f"{given.count - wrong} passed, {wrong} failed")
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
