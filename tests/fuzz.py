"""`python -m tests.fuzz`: random problems against `Auto`; what it says must be true of each.

Seeds are drawn anew at every call and printed, so that a failure can be made again:
`python -m tests.fuzz --seed 123 --count 1`. Checked of every run: it ends without an error, its
answer is finite, feasible and not above the start; after CONVERGED neither a trust-region Newton
method nor L-BFGS (with r both on the face of r that x lies on, and proximal gradient steps that
leave it), all in float64, gain more than the stated tolerance; what falls without bound is never
called CONVERGED; and the same problem in other units of x ends in the same way.
"""

from __future__ import annotations

import argparse
import functools
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
WIDE = (400, 280)  # where curvature is learnt from secants
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


def negative(y: Any) -> Any:
    return -y[0]


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


def _more_penalties(rng: np.random.Generator, d: int) -> dict[str, mvrc.regularizers.Regularizer]:
    """Sums, bounds on one side, r(Ax), a user's own."""
    weight, bound = float(10 ** rng.uniform(-3, 0)), float(rng.uniform(0.1, 3))
    half = d // 2
    return {
        "one-sided": mvrc.Box(np.r_[np.full(half, -np.inf), np.full(d - half, -bound)], np.inf),
        "sparse groups": mvrc.L1(weight) + mvrc.GroupL2(weight, np.arange(d) % 2),
        "fused lasso": mvrc.TotalVariation1D(weight) + mvrc.L1(weight),
        "L1 non-negative": mvrc.L1(weight) + mvrc.NonNegative(),
        "capped simplex": mvrc.Simplex(upper=1.5 / d),
        "r(Ax)": mvrc.regularizers.Composed(mvrc.L1(weight), rng.standard_normal((2, d))),
        "own": mvrc.Custom(
            lambda x: weight * jnp.sum(jnp.abs(x)),
            lambda x, step: jnp.sign(x) * jnp.maximum(jnp.abs(x) - step * weight, 0),
        ),
    }


UNBOUNDED = ("least squares", "fourth powers", "log cosh", "mean variance")  # upside down
SCALABLE = ("none", "box", "non-negative", "one-sided")  # the same r in other units of x


class Case(NamedTuple):
    """A problem, its start, and what it is."""

    inner: Any
    outer: Any
    data: dict[str, np.ndarray]
    penalty: Any
    x0: np.ndarray
    words: str
    scalable: bool
    unbounded: bool = False  # below

    def problem(self, dtype: Any = None) -> mvrc.Composition:
        dtype = self.x0.dtype if dtype is None else dtype
        data = {name: a.astype(dtype) for name, a in self.data.items()}
        return mvrc.Composition(self.inner, self.outer, data, regularizer=self.penalty)

    def scaled(self, factors: np.ndarray) -> Case:
        """The same in unknowns x/factors."""
        data, penalty = self.data | {"c": self.data["c"] * factors}, self.penalty
        if isinstance(penalty, mvrc.Box):
            penalty = mvrc.Box(penalty.lower / factors, penalty.upper / factors)
        x0 = (self.x0 / factors).astype(self.x0.dtype)
        return self._replace(data=data, penalty=penalty, x0=x0)


def make(seed: int) -> Case:
    """The problem of a seed."""
    rng, rarer = np.random.default_rng(seed), np.random.default_rng([seed, 2])
    family = list(FAMILIES)[rng.integers(len(FAMILIES))]
    n, d = SHAPES[rng.integers(len(SHAPES))]
    if rarer.random() < 0.04 and family != "curved":
        n, d = WIDE
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
    if rarer.random() < 0.15:
        penalties = _more_penalties(rarer, d)
        kind = list(penalties)[rarer.integers(len(penalties))]
    inner, outer = FAMILIES[family]
    unbounded = family in UNBOUNDED and rarer.random() < 0.1
    if unbounded:
        kind, outer = "none", negative
        penalties = {kind: mvrc.Zero()}
    data = {"a": a + 0.1 * (family == "mean variance"), "b": b, "sign": sign, "c": c}
    words = f"{family}, {kind}, {n} × {d}, {np.dtype(dtype).name}, x0 {far:.1g} away"
    words += ", unbounded below" if unbounded else ""
    return Case(inner, outer, data, penalties[kind], x0, words, kind in SCALABLE, unbounded)


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
    if case.unbounded and result.status is not mvrc.Status.UNBOUNDED:
        found.append(f"Φ has no lower bound: {result.message}")
    elif result.status is mvrc.Status.CONVERGED:
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
    if not np.isfinite(wide.objective(x)):  # feasible in float32 only
        with jax.enable_x64(True):
            x = np.asarray(case.penalty.prox(x, 1.0))
    first = wide.objective(x)
    allowed = SLACK * _tolerance(result, case.x0.dtype)
    with jax.enable_x64(True):
        found = _On(case)
        reached = found.on_the_face(x)
        if not found.plain:
            reached["proximal gradient"] = found.proximal(x)
    return [
        f"{method} gains {first - best:.3g}, allowed {allowed:.3g} of {first:.6g}"
        for method, best in reached.items()
        if first - best > allowed
    ]


@functools.cache
def _programs(inner: Any, outer: Any, plain: bool, bounded: bool) -> dict[str, Any]:
    """Φ in float64 along x + Bz, its derivatives, and F, r and the prox by themselves; compiled
    once for all problems of a family. x + Bz is projected onto a constraint set."""

    def smooth(x: Any, data: Any) -> Any:
        return outer(jnp.mean(jax.vmap(inner, (None, 0))(x, data), axis=0))

    def whole(z: Any, x: Any, basis: Any, data: Any, penalty: Any) -> Any:
        u = x + basis @ z
        if plain:
            return smooth(u, data)
        u = penalty.prox(u, 1e-200) if bounded else u
        return smooth(u, data) + penalty.value(u)

    def prox(x: Any, step: Any, penalty: Any) -> Any:
        return penalty.prox(x, step)

    found = {
        "whole": whole, "slope": jax.grad(whole), "hessian": jax.hessian(whole), "smooth": smooth,
        "gradient": jax.grad(smooth), "prox": prox, "derivative": jax.jacfwd(prox),
        "r": lambda x, penalty: penalty.value(x),
    }  # fmt: skip
    return {name: jax.jit(function) for name, function in found.items()}


class _On:
    """What other methods reach from a point of a problem."""

    def __init__(self, case: Case) -> None:
        self.penalty, self.d = case.penalty, len(case.x0)
        self.plain = isinstance(case.penalty, mvrc.Zero)
        self.data = {name: jnp.asarray(a) for name, a in case.data.items()}
        bounded = np.isinf(float(case.penalty.value(-1e9 * np.ones(self.d))))
        self.programs = _programs(case.inner, case.outer, self.plain, bool(bounded))

    def __call__(self, name: str, *given: Any) -> Any:
        return np.asarray(self.programs[name](*given))

    def on_the_face(self, x: np.ndarray) -> dict[str, float]:
        """L-BFGS and Newton's method where r is smooth: on its face at x, the range of the
        derivative of the prox at x − ∇F."""
        basis = np.eye(self.d)
        if not self.plain:
            slope = self("gradient", x, self.data)
            along = self("derivative", x - slope, 1.0, self.penalty)
            if not np.all(np.isfinite(along)):
                return {}
            u, sizes, _ = np.linalg.svd((along + along.T) / 2)
            basis = u * (sizes > 1e-9)
        given, zero, reached = (x, basis, self.data, self.penalty), np.zeros(self.d), {}
        if not np.all(np.isfinite(self("slope", zero, *given))):
            return {}  # r has no derivative here, as a norm at 0
        for method, more in (
            ("L-BFGS-B", {}),
            ("trust-exact", {"hess": lambda z: self("hessian", z, *given)}),
        ):
            ended = scipy.optimize.minimize(
                lambda z: float(self("whole", z, *given)), zero, method=method,
                jac=lambda z: self("slope", z, *given), **more,
            )  # fmt: skip
            reached[method] = float(self("whole", ended.x, *given))
        return reached

    def proximal(self, x: np.ndarray, steps: int = 300) -> float:
        """Proximal gradient steps with backtracking; the lowest Φ."""
        value = lambda x: float(self("smooth", x, self.data))  # noqa: E731
        extra = lambda x: float(self("r", x, self.penalty))  # noqa: E731
        step, best = 1.0, value(x) + extra(x)
        for _ in range(steps):
            f, g = value(x), self("gradient", x, self.data)
            while step > 1e-30:
                u = self("prox", x - step * g, step, self.penalty)
                s = u - x
                if value(u) <= f + g @ s + s @ s / (2 * step):
                    break
                step /= 2
            x, step = u, 1.5 * step
            best = min(best, value(x) + extra(x))
        return best


def _other_units(case: Case, result: mvrc.Result, rng: np.random.Generator) -> list[str]:
    """The same problem with every unknown in a unit of its own."""
    if case.x0.dtype == np.float32:
        return []  # the factors change the rounding of the data
    factors = 10 ** rng.uniform(-6, 6, len(case.x0))
    again = mvrc.minimize(case.scaled(factors).problem(), case.scaled(factors).x0, epochs=2000)
    found: list[str] = []
    if case.unbounded:
        return found if again.status is result.status else [f"in other units {again.status.name}"]
    if again.status is not result.status and {again.status, result.status} & {
        mvrc.Status.CONVERGED
    }:
        found.append(f"in other units {again.status.name}")
    if abs(again.objective - result.objective) > 1e-6 * abs(result.objective) + 1e-12:
        found.append(f"in other units {again.objective:.10g} instead of {result.objective:.10g}")
    few, many = sorted((again.epochs, result.epochs))
    if many > 2 * few + 4:  # or does rounding do as much, far away, where paths part?
        nearly = [1 + 1e-12 * rng.standard_normal(len(case.x0)) for _ in range(4)]
        own = [mvrc.minimize(case.problem(), case.x0 * k, epochs=2000).epochs for k in nearly]
        few, many = sorted((again.epochs, int(np.clip(again.epochs, min(own), max(own)))))
    if many > 2 * few + 4:
        found.append(f"in other units {again.epochs} epochs instead of {result.epochs}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None, help="of the first problem")
    parser.add_argument("--verbose", action="store_true", help="a line for every problem")
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
        if given.verbose:
            print(f"{seed}: {make(seed).words}, {time.monotonic() - start:.0f} s", flush=True)
        for fault in found:
            print(fault, flush=True)
    print(f"{given.count - wrong} passed, {wrong} failed")
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
