"""The problems that conformance tests run over: each in JAX for one sample and in plain NumPy.

The NumPy side gives batch means of values, Jacobians and outer gradients with derivatives written
by hand, so that the twins share nothing with the library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mvrc
from mvrc.engine.batches import Given, batches_of, drawn_refresh, drawn_steps
from mvrc.methods.method import Start
from mvrc.oracle import Oracle
from mvrc.sampling import key_bits

L1_WEIGHT = 0.02


@dataclasses.dataclass(frozen=True)
class Case:
    """A small composition with its NumPy side."""

    name: str
    problem: mvrc.Composition
    x0: np.ndarray
    values: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (x, indices) -> mean of g
    jacobian: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (x, indices) -> mean of g'
    outer_gradient: Callable[[np.ndarray, np.ndarray | None], np.ndarray]
    outer_value: Callable[[np.ndarray], float]
    step_size: float

    def objective(self, x: np.ndarray) -> float:
        everything = np.arange(self.problem.n)
        return self.outer_value(self.values(x, everything)) + L1_WEIGHT * np.abs(x).sum()

    def gradient(self, x: np.ndarray) -> np.ndarray:
        everything = np.arange(self.problem.n)
        outside = None if not self.problem.two_level else np.arange(self.problem.N)
        y = self.values(x, everything)
        return self.jacobian(x, everything).T @ self.outer_gradient(y, outside)


def resolve(case: Case, method: Any) -> Any:
    """The method with its defaults filled in for the case."""
    with case.problem.precision(case.x0):
        geometry = case.problem.geometry(case.x0)
        return method.resolve(case.problem, geometry, Start(case.problem, case.x0))


def first_steps(problem: Any, method: Any, seeds: int) -> tuple[Any, Any]:
    """Tickets of the refresh and of the first small step of so many runs, with an axis of them."""
    runs = []
    for seed in range(seeds):
        bits = key_bits(seed)
        small = drawn_steps(problem, method, bits, 1, 1)
        first = {role: tickets[0] for role, tickets in small.items()}
        runs.append((drawn_refresh(problem, method, bits, 1), first))
    return jax.tree_util.tree_map(lambda *leaves: jnp.asarray(np.stack(leaves)), *runs)


def refresh_batches(problem: Any, method: Any, tickets: Any) -> Any:
    """The batches of a refresh by role."""
    return batches_of(problem, method, Given(tickets, {}))[0]


def small_batches(problem: Any, method: Any, ticket: Any) -> Any:
    """The batches of a small step by role."""
    one = {role: jnp.asarray(t)[None] for role, t in ticket.items()}
    return batches_of(problem, method, Given({}, one))[1](None)[1](ticket)


def estimate_at(problem: Any, x: Any, method: Any, *others: Any) -> Any:
    """The state of a method's estimator, refreshed at x, and moved to other points on all rows."""
    with problem.precision(x):
        geometry = problem.geometry(x)
        method = method.resolve(problem, geometry, Start(problem, x))
        functions = problem.functions(geometry)
        tickets = drawn_refresh(problem, method, key_bits(0), 0)
        point, *others = (np.asarray(geometry.x.flatten(at)) for at in (x, *others))

        def run(tickets: Any, point: Any, others: Any) -> Any:
            oracle = Oracle(functions, refresh_batches(problem, method, tickets))
            state = method.estimator.refresh(oracle, point)
            for other in others:
                state = method.estimator.update(oracle, state, other)
            return state

        return jax.jit(run)(tickets, point, others)


def soft(x: np.ndarray, step: float) -> np.ndarray:
    """prox of step·L1_WEIGHT·‖·‖₁."""
    return np.sign(x) * np.maximum(np.abs(x) - step * L1_WEIGHT, 0)


def _inner(x: Any, sample: Any) -> Any:
    """Nonconvex in x; p = 3."""
    h = sample["a"] @ x
    return jnp.stack([h, h**2, jnp.sin(h + sample["b"])])


def one_level(n: int = 40, d: int = 5, dtype: Any = np.float64, **more: Any) -> Case:
    """Σ¹ with p = 3: mean, second moment and a sine inside; a nonconvex f outside."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((n, d)) + 0.3, rng.standard_normal(n)

    def outer(y: Any) -> Any:
        return -y[0] + 0.3 * (y[1] - y[0] ** 2) + 0.5 * jnp.log1p(y[2] ** 2)

    def outer_value(y: np.ndarray) -> float:
        return float(-y[0] + 0.3 * (y[1] - y[0] ** 2) + 0.5 * np.log1p(y[2] ** 2))

    def outer_gradient(y: np.ndarray, _: Any) -> np.ndarray:
        return np.array([-1 - 0.6 * y[0], 0.3, y[2] / (1 + y[2] ** 2)])

    data = {"a": a.astype(dtype), "b": b.astype(dtype)}
    problem = mvrc.Composition(_inner, outer, data, regularizer=mvrc.L1(L1_WEIGHT), **more)
    x0 = (0.1 * rng.standard_normal(d)).astype(dtype)
    return Case(
        "one-level", problem, x0, *_numpy_inner(a, b), outer_gradient, outer_value, step_size=0.05
    )


def two_level(n: int = 40, N: int = 7, d: int = 5, dtype: Any = np.float64, **more: Any) -> Case:
    """Σ² with p = 3 and N nonconvex outer functions."""
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((n, d)) + 0.3, rng.standard_normal(n)
    w, c = rng.standard_normal((N, 3)), rng.standard_normal(N)

    def outer(y: Any, sample: Any) -> Any:
        u = sample["w"] @ y - sample["c"]
        return jnp.log(jnp.cosh(u)) + 0.1 * y[1]

    def outer_value(y: np.ndarray) -> float:
        return float(np.mean(np.log(np.cosh(w @ y - c)) + 0.1 * y[1]))

    def outer_gradient(y: np.ndarray, indices: np.ndarray | None) -> np.ndarray:
        assert indices is not None
        u = np.tanh(w[indices] @ y - c[indices])
        return u @ w[indices] / len(indices) + np.array([0, 0.1, 0])

    problem = mvrc.Composition(
        _inner,
        outer,
        {"a": a.astype(dtype), "b": b.astype(dtype)},
        {"w": w.astype(dtype), "c": c.astype(dtype)},
        mvrc.L1(L1_WEIGHT),
        **more,
    )
    x0 = (0.1 * rng.standard_normal(d)).astype(dtype)
    return Case(
        "two-level", problem, x0, *_numpy_inner(a, b), outer_gradient, outer_value, step_size=0.05
    )


def online(two: bool = False) -> mvrc.Composition:
    """E¹ or E²: the same functions on Gaussian streams."""

    def draw(key: Any, size: int) -> Any:
        u = jax.random.uniform(key, (size, 6), minval=-1.5, maxval=1.5)  # compiles fast
        return {"a": u[:, :5] + 0.3, "b": u[:, 5]}

    def draw_outer(key: Any, size: int) -> Any:
        u = jax.random.uniform(key, (size, 4), minval=-1.5, maxval=1.5)
        return {"w": u[:, :3], "c": u[:, 3]}

    inner = mvrc.Stream(draw, evaluation_size=2000)
    if two:
        outside = mvrc.Stream(draw_outer, evaluation_size=2000)
        return mvrc.Composition(
            _inner, two_level().problem.outer, inner, outside, mvrc.L1(L1_WEIGHT)
        )
    return mvrc.Composition(_inner, one_level().problem.outer, inner, None, mvrc.L1(L1_WEIGHT))


def _numpy_inner(a: np.ndarray, b: np.ndarray) -> tuple[Any, Any]:
    def values(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        h = a[indices] @ x
        return np.array([h.mean(), (h**2).mean(), np.sin(h + b[indices]).mean()])

    def jacobian(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        rows = a[indices]
        h = rows @ x
        slopes = np.stack([np.ones_like(h), 2 * h, np.cos(h + b[indices])])
        return slopes @ rows / len(indices)

    return values, jacobian


# Shared by the tests of one process, so that equal programs are compiled once.
ONE = one_level()
TWO = two_level()


def quadratic(two: bool = False, penalty: float = 0.1, **more: Any) -> tuple[Any, Any, Any]:
    """A strongly convex composition with its minimiser in closed form: (problem, x0, x*).

    gᵢ(x) = Mᵢx + eᵢ, f(y) = ½‖y − b‖² or the mean of such over bₖ, r = (penalty/2)‖x‖²;
    with M, e, b the means, x* = (MᵀM + penalty·I)⁻¹Mᵀ(b − e).
    """
    rng = np.random.default_rng(3)
    n, N, p, d = 36, 9, 4, 4
    m = np.eye(p, d) + 0.2 * rng.standard_normal((n, p, d))
    e, b = 0.3 * rng.standard_normal((n, p)), 1 + 0.5 * rng.standard_normal((N, p))
    mean, target = m.mean(0), (b.mean(0) if two else b[0]) - e.mean(0)
    solution = np.linalg.solve(mean.T @ mean + penalty * np.eye(d), mean.T @ target)

    def inner(x: Any, s: Any) -> Any:
        return s["m"] @ x + s["e"]

    regularizer = mvrc.L2(penalty) if penalty else None
    data = {"m": m, "e": e}
    if two:
        problem = mvrc.Composition(
            inner, lambda y, s: 0.5 * jnp.sum((y - s) ** 2), data, b, regularizer, **more
        )
    else:
        problem = mvrc.Composition(
            inner, lambda y: 0.5 * jnp.sum((y - b[0]) ** 2), data, None, regularizer, **more
        )
    return problem, np.zeros(d), solution


@dataclasses.dataclass(frozen=True)
class MethodCase:
    """How the conformance tests run a method of METHODS."""

    name: str
    make: Callable[..., Any]  # (step, two_level, **sizes) -> recipe
    converges: bool = True  # to the solution itself at a fixed step; else only towards it
    one_level_only: bool = False
    smooth_only: bool = False
    online: bool = True
    matrix_free: bool = False  # offers jacobian="free"
    draws: bool = True  # takes batch sizes
    epochs: int = 60  # to solve the quadratic
    step: float = 0.2
    nonconvex_step: float = 0.05

    def recipe(self, two: bool, step: float | None = None, **options: Any) -> Any:
        options.setdefault("period", 6)
        if self.draws:
            options.setdefault("batch_size", 6)
            if two:
                options.setdefault("outer_batch_size", 3)
        return self.make(step_size=self.step if step is None else step, **options)


_KNOWN = {
    case.name: case
    for case in (
        MethodCase("mvrc", mvrc.MVRC, matrix_free=True),
        MethodCase("civr", mvrc.CIVR, one_level_only=True, matrix_free=True),
        MethodCase("vrsc-pg", mvrc.VRSCPG, online=False),
        MethodCase("c-svrg-1", mvrc.CSVRG1, online=False),
        MethodCase("c-svrg-2", mvrc.CSVRG2, online=False),
        MethodCase("c-saga", mvrc.CSAGA, online=False),
        MethodCase("sarah-c", mvrc.SARAHC),
        MethodCase("nested-spider", mvrc.NestedSpider, matrix_free=True),
        MethodCase("spider-admm", mvrc.SpiderADMM, matrix_free=True, epochs=150),
        MethodCase("katyusha", mvrc.Katyusha, online=False),
        MethodCase("scgd", mvrc.SCGD, converges=False, epochs=300, nonconvex_step=0.5),
        MethodCase(
            "ascgd", mvrc.ASCGD, converges=False, epochs=300, smooth_only=True, nonconvex_step=0.5
        ),
        MethodCase("asc-pg", mvrc.ASCPG, converges=False, epochs=300),
        MethodCase("scsc", mvrc.SCSC, converges=False, epochs=300),
        MethodCase("storm", mvrc.STORM, converges=False, epochs=300, matrix_free=True),
        MethodCase("smvr", mvrc.SMVR, converges=False, epochs=300),
        MethodCase("nasa", mvrc.NASA, converges=False, epochs=300),
        MethodCase("proximal-gradient", mvrc.ProximalGradient, draws=False, step=0.5),
        MethodCase("fista", mvrc.FISTA, draws=False, step=0.5),
    )
}

# A method that was added to METHODS is tested as one that need not reach the solution itself.
METHOD_CASES = {
    name: _KNOWN.get(name, MethodCase(name, recipe, converges=False, epochs=300, step=0.01))
    for name, recipe in mvrc.METHODS.items()
}
