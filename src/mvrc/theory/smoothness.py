"""The default step size, from the largest curvature that is met near x0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.compiler import quick
from mvrc.oracle import Geometry, Oracle, Vector
from mvrc.problem import Composition
from mvrc.sampling import key_bits
from mvrc.support import cache
from mvrc.support.numerics import divide, power_iteration
from mvrc.support.partition import Signature, Static, combine, partition, signature

_ROWS = 2048  # samples used for the smoothness
_FEW = 512  # where a guess does
_NEARBY = 3  # random points around x0
# Steps along which curvature is looked for. On a tilted risk that starts far out (t = 5, x0 = −1)
# the largest was met at the seventh, 55 times that at x0; later ones changed nothing.
_PATH = 16
_TURNS = 20  # of a power iteration; half as many where it goes on from the last point


def default_step_size(problem: Composition, x: Any) -> float:
    """1/(4L), with L the largest curvature of F found near x by power iteration.

    Curvature is looked for at x, at three random points within max(1, ‖x‖) of it, and along
    `_PATH` proximal gradient steps of length 1/L from x, L being the largest so far; every step
    sees other samples where there are many. A function with much more curvature elsewhere can
    defeat it; the run then starts again at a quarter of it.
    """
    with problem.precision(x):
        geometry = problem.geometry(x)
        rows = min(_ROWS, geometry.inner_rows(False))
        if problem.n is not None:
            rows = min(rows, 2 ** (problem.n - 1).bit_length())
        probe = _Probe(problem, geometry, rows)
        x = np.asarray(geometry.x.flatten(x))
        radius = max(1.0, float(np.linalg.norm(x)))
        away = np.random.default_rng(0).standard_normal((_NEARBY, x.size))
        away *= radius / np.linalg.norm(away, axis=1, keepdims=True)
        L = 0.0
        for near in (x, *(x + away).astype(x.dtype)):
            L = probe(near, _direction(x), L, 0, _TURNS)[2]
        point, unit = x, _direction(x)
        for i in range(_PATH):
            point, unit, L = probe(point, unit, L, i, _TURNS // 2)
    return 1 / (4 * L) if np.isfinite(L) and L > 0 else 1.0


def smoothness(problem: Composition, geometry: Geometry, x: Vector) -> tuple[float, int]:
    """The curvature of F at x by power iteration, and the samples looked at, each once."""
    rows = min(_FEW, geometry.inner_rows(False))
    if problem.n is not None:
        rows = min(rows, max(problem.n // 8, min(problem.n, 32)))
    L = _Probe(problem, geometry, rows)(np.asarray(x), _direction(x), 0.0, 0, _TURNS)[2]
    if np.isfinite(L) and L > 0:
        return L, rows
    return 1 / (4 * default_step_size(problem, geometry.x.unflatten(x))), rows


class _Probe:
    """The largest curvature at a point, on one of many subsamples, and a step from there.

    Args:
        problem, geometry: of the points.
        rows: samples of a subsample.
    """

    def __init__(self, problem: Composition, geometry: Geometry, rows: int) -> None:
        self._problem = problem.packed(geometry)
        rare = rows * _TURNS * geometry.inner_numbers() <= quick.SMALL
        self._numbers, self._static = partition(self._problem, geometry.x.dtype)
        self._fixed = geometry, rows, rare
        self._exact = True
        self._dtype = geometry.x.dtype

    def __call__(
        self, point: np.ndarray, unit: np.ndarray, most: float, i: int, turns: int
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """The point after a step of 1/L, the direction of the largest curvature, and L ≥ most."""
        given = np.asarray(most, self._dtype), np.int32(i), np.int32(turns)
        try:
            arguments = (self._numbers, point, unit, *given)
            program = _probe(self._static, *self._fixed, self._exact, signature(arguments))
            found = program(*arguments)
        except TypeError:  # a custom_vjp that cannot be differentiated again, found when lowered
            if not self._exact:
                raise
            self._exact = False
            return self(point, unit, most, i, turns)
        point, unit, length = jax.device_get(found)
        return point, unit, float(length)


@cache.remember
def _probe(
    static: Static, geometry: Geometry, rows: int, rare: bool, exact: bool, given: Signature
) -> Any:
    def probe(numbers: Any, point: Vector, unit: Vector, most: Any, i: Any, turns: Any) -> Any:
        problem = combine(numbers, static)
        oracle = Oracle(problem.functions(geometry))
        inner = problem.inner_source.subsample(key_bits(0), rows, i)
        outer = None
        if problem.outer_source is not None:
            outside = min(_ROWS, geometry.outer_rows())
            outer = problem.outer_source.subsample(key_bits(1), outside, i)

        whole = inner.in_one_piece(geometry.inner_rows(False)) and (
            outer is None or outer.in_one_piece(geometry.outer_rows())
        )

        def gradient(x: Vector) -> Vector:
            if whole:
                return jax.grad(lambda x: oracle.outer_value(oracle.values(x, inner), outer))(x)
            # Of a loop over pieces JAX has no reverse mode where their number is traced.
            u = oracle.outer_gradient(oracle.values(x, inner), outer)
            return oracle.pullback(x, inner, u)

        slope, product = _linearized(gradient, point, exact)
        unit, length = power_iteration(product, unit, turns)
        most = jnp.maximum(most, jnp.where(jnp.isfinite(length), length, 0))
        eta = divide(jnp.ones_like(most), most, 1.0)
        moved = oracle.functions.prox(point - eta * slope, eta)
        fine = jnp.all(jnp.isfinite(moved)) & jnp.all(jnp.isfinite(unit))
        return jnp.where(fine, moved, point), jnp.where(fine, unit, _direction(point)), most

    return quick.Program(probe, given.specs(), rare=rare)


def _direction(like: Any) -> np.ndarray:
    """A fixed unit vector with no preference."""
    normal = np.random.default_rng(0).standard_normal(like.shape)
    return (normal / np.linalg.norm(normal)).astype(like.dtype)


def _linearized(
    gradient: Callable[[Vector], Vector], point: Vector, exact: bool
) -> tuple[Vector, Callable[[Vector], Vector]]:
    """The gradient at a point, and Hessian-vector products."""
    if exact:
        return jax.linearize(gradient, point)  # evaluates f and g once
    here = gradient(point)
    scale = jnp.maximum(1, jnp.linalg.norm(point)) * jnp.finfo(point.dtype).eps ** (1 / 3)
    return here, lambda direction: (gradient(point + scale * direction) - here) / scale
