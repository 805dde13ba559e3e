"""Constants of the theory estimated from samples, and the default step size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.oracle import Geometry, Oracle, Vector
from mvrc.problem import Composition
from mvrc.sampling import key_bits
from mvrc.support import cache, checks
from mvrc.support.numerics import divide, power_iteration
from mvrc.support.partition import Static, combine, partition
from mvrc.theory.constants import Constants

_ROWS = 2048  # samples used for the smoothness
_FEW = 512  # where a guess does
# Steps along which curvature is looked for. On a tilted risk that starts far out (t = 5, x0 = −1)
# the largest was met at the seventh, 55 times that at x0; later ones changed nothing.
_PATH = 16
_TURNS = 20  # of a power iteration; half as many where it goes on from the last point
_POINTS = 8  # points tried in the ball
_ENTRIES = 2**24  # most entries of all per-sample Jacobians held at once


def default_step_size(problem: Composition, x: Any) -> float:
    """1/(4L), with L the largest curvature of F found near x by power iteration.

    Curvature is looked for at x, at three random points within max(1, ‖x‖) of it, and along
    `_PATH` proximal gradient steps of length 1/L from x, L being the largest so far; every step
    sees other samples where they are many. A function that bends much more elsewhere can still
    defeat it; the run then starts again at a quarter of it.
    """
    with problem.precision(x):
        geometry = problem.geometry(x)
        rows = min(_ROWS, geometry.inner_rows(False))
        L = _smoothest(problem, geometry, geometry.x.flatten(x), rows, 3, _PATH)
    return 1 / (4 * L) if np.isfinite(L) and L > 0 else 1.0


def smoothness(problem: Composition, geometry: Geometry, x: Vector) -> tuple[float, int]:
    """The curvature of F at x by power iteration, and the samples looked at, each once."""
    rows = min(_FEW, geometry.inner_rows(False))
    if problem.n is not None:
        rows = min(rows, max(problem.n // 8, min(problem.n, 32)))
    L = _smoothest(problem, geometry, x, rows, 0, 0)
    if np.isfinite(L) and L > 0:
        return L, rows
    return 1 / (4 * default_step_size(problem, geometry.x.unflatten(x))), rows


@cache.program
def _smoothness(
    static: Static, geometry: Geometry, rows: int, nearby: int, path: int, exact: bool
) -> Callable[[Any, Vector], Any]:
    """The largest curvature at x, at some random points nearby, and along a path from x."""

    def largest(numbers: Any, x: Vector) -> Any:
        return _largest_curvature(combine(numbers, static), geometry, x, rows, nearby, path, exact)

    return largest


def _largest_curvature(
    problem: Composition, geometry: Geometry, x: Vector, rows: int, nearby: int, path: int,
    exact: bool,
) -> Any:  # fmt: skip
    keys = jax.random.split(jax.random.key(0), 4)
    oracle = Oracle(problem.functions(geometry))

    def linearized(point: Vector, i: Any) -> tuple[Vector, Callable[[Vector], Vector]]:
        """∇F and its derivative on the i-th subsample."""
        inner = problem.inner_source.subsample(keys[0], rows, i)
        outer = None
        if problem.outer_source is not None:
            most = min(_ROWS, geometry.outer_rows())
            outer = problem.outer_source.subsample(keys[1], most, i)

        def gradient(x: Vector) -> Vector:
            return jax.grad(lambda x: oracle.outer_value(oracle.values(x, inner), outer))(x)

        return _linearized(gradient, point, exact)

    def largest(
        product: Callable[[Vector], Vector], unit: Vector, turns: int
    ) -> tuple[Vector, Any]:
        return power_iteration(product, unit, turns)

    def curvature(point: Vector) -> Any:
        return largest(linearized(point, 0)[1], _direction(x), _TURNS)[1]

    if not nearby:
        return curvature(x)
    radius = jnp.maximum(1.0, jnp.linalg.norm(x))
    away = jax.random.normal(keys[3], (nearby, *x.shape), x.dtype)
    away = x + radius * away / jnp.linalg.norm(away, axis=1, keepdims=True)
    found = jax.lax.map(curvature, jnp.concatenate([x[None], away]))
    found = jnp.max(jnp.where(jnp.isfinite(found), found, 0))
    if not path:
        return found

    def step(carry: Any, i: Any) -> tuple[Any, None]:
        point, unit, most = carry
        slope, product = linearized(point, i)
        unit, length = largest(product, unit, _TURNS // 2)
        most = jnp.maximum(most, jnp.where(jnp.isfinite(length), length, 0))
        eta = divide(jnp.ones_like(most), most, 1.0)
        moved = geometry.x.unflatten(point - eta * slope)
        moved = geometry.x.flatten(problem.regularizer.prox(moved, eta))
        fine = jnp.all(jnp.isfinite(moved)) & jnp.all(jnp.isfinite(unit))
        point, unit = (jnp.where(fine, a, b) for a, b in ((moved, point), (unit, _direction(x))))
        return (point, unit, most), None

    return jax.lax.scan(step, (x, _direction(x), found), jnp.arange(path))[0][2]


def _direction(like: Vector) -> Vector:
    """A fixed unit vector with no preference; a constant, as random bits are slow to compile."""
    normal = np.random.default_rng(0).standard_normal(like.shape)
    return jnp.asarray(normal / np.linalg.norm(normal), like.dtype)


def _smoothest(
    problem: Composition, geometry: Geometry, x: Vector, rows: int, nearby: int, path: int
) -> float:
    """`_smoothness`, by differences of gradients where a derivative rule is the user's own."""
    numbers, static = partition(problem, geometry.x.dtype)
    try:
        return float(_smoothness(static, geometry, rows, nearby, path, True)(numbers, x))
    except TypeError:  # a custom_vjp that cannot be differentiated again, found when lowered
        return float(_smoothness(static, geometry, rows, nearby, path, False)(numbers, x))


def _linearized(
    gradient: Callable[[Vector], Vector], point: Vector, exact: bool
) -> tuple[Vector, Callable[[Vector], Vector]]:
    """The gradient at a point, and Hessian-vector products."""
    if exact:
        return jax.linearize(gradient, point)  # evaluates f and g once
    here = gradient(point)
    scale = jnp.maximum(1, jnp.linalg.norm(point)) * jnp.finfo(point.dtype).eps ** (1 / 3)
    return here, lambda direction: (gradient(point + scale * direction) - here) / scale


class _Bounds(NamedTuple):
    l_f: Any
    L_f: Any
    l_g: Any
    L_g: Any
    sigma_g: Any
    sigma_dg: Any
    sigma_df: Any


@checks.explain_keywords
def estimate_constants(
    problem: Composition, x: Any, radius: float, *, samples: int = 256, seed: int = 0
) -> Constants:
    """Lipschitz and variance constants over the ball of `radius` around x, from samples.

    Each is the largest value seen at random points and pairs in the ball: an estimate from below,
    which grows with `samples`. Multiply by a margin before trusting a guarantee to it.

    l_g = max ‖gᵢ'‖ (spectral), L_g = max ‖gᵢ'(x) − gᵢ'(x')‖_F/‖x − x'‖ (Frobenius: the variance of
    a mean of Jacobians is the mean of the variances in that norm alone), l_f and L_f likewise for
    ∇fₖ at the inner values met; σ_g², σ_g'² (Frobenius), σ_f'² the largest variances.

    Args:
        problem: the composition.
        x: centre of the ball.
        radius: its radius.
        samples: inner and outer samples looked at.
        seed: of the random points and samples.
    """
    if not isinstance(problem, Composition):
        raise TypeError(f"problem must be a Composition, not {checks.shown(problem)}.")
    radius = checks.positive("radius", radius)
    samples = checks.integer("samples", samples, least=2)
    seed = checks.seed("seed", seed)
    problem, x, _ = problem.in_numbers(x, "x")
    x = problem.start(x, "x")
    with problem.precision(x):
        geometry = problem.geometry(x)
        entries = geometry.x.size * geometry.y.size
        if 2 * entries > _ENTRIES:
            raise ValueError(
                f"x has {geometry.x.size} and y {geometry.y.size} coordinates, so one Jacobian has "
                f"{entries:,} entries; estimate_constants needs at most {_ENTRIES // 2:,}."
            )
        most = max(2, min(samples, _ENTRIES // entries))
        bits = key_bits(seed)
        bounds = jax.jit(
            lambda x: _bounds(problem, geometry, x, radius, most, jax.random.wrap_key_data(bits))
        )(geometry.x.flatten(x))
    numbers = _Bounds(*(float(b) for b in bounds))
    if not all(np.isfinite(numbers)):
        raise ValueError(
            f"f or g is not finite somewhere within radius {radius} of x; use a smaller radius."
        )
    floor = float(np.finfo(geometry.x.dtype).tiny)  # l_f and l_g must not vanish
    slopes = {"l_f": max(numbers.l_f, floor), "l_g": max(numbers.l_g, floor)}
    return Constants(**{**numbers._asdict(), **slopes})


def _bounds(
    problem: Composition, geometry: Geometry, x: Vector, radius: float, samples: int, key: Any
) -> _Bounds:
    keys = jax.random.split(key, 4)
    batch = problem.inner_source.subsample(keys[0], samples, 0)
    inner = batch.samples()
    oracle = Oracle(problem.functions(geometry))
    away = jax.random.normal(keys[1], (_POINTS, *x.shape), x.dtype)
    lengths = radius * jax.random.uniform(keys[2], (_POINTS, 1), x.dtype)
    points = x + lengths * away / jnp.linalg.norm(away, axis=1, keepdims=True)

    def at(point: Vector) -> tuple[Any, Any]:
        values = oracle.functions.values(point, inner)
        return values, jax.vmap(jax.jacfwd(oracle.functions.value), (None, 0))(point, inner)

    def observe(i: Any) -> tuple[Any, ...]:
        here, there = points[i], points[(i + 1) % _POINTS]
        (value, jacobian), (other_value, other) = at(here), at(there)
        slope = jnp.max(_spectral(jacobian))
        change = jnp.max(_frobenius(jacobian - other)) / jnp.linalg.norm(here - there)
        spread = _variance(value), _variance(jacobian.reshape(batch.size, -1))
        return slope, change, *spread, jnp.mean(value, 0), jnp.mean(other_value, 0)

    slope, change, noise, noise_jacobian, y, y_other = jax.lax.map(observe, jnp.arange(_POINTS))
    outer_gradients = _outer_gradients(problem, oracle, samples, keys[3])
    gradients, others = jax.vmap(outer_gradients)(y), jax.vmap(outer_gradients)(y_other)
    apart = jnp.linalg.norm(y - y_other, axis=-1)
    turned = jnp.max(jnp.linalg.norm(gradients - others, axis=-1), axis=-1)
    return _Bounds(
        l_f=jnp.max(jnp.linalg.norm(gradients, axis=-1)),
        L_f=jnp.max(turned / jnp.where(apart > 0, apart, jnp.inf)),
        l_g=jnp.max(slope),
        L_g=jnp.max(change),
        sigma_g=jnp.sqrt(jnp.max(noise)),
        sigma_dg=jnp.sqrt(jnp.max(noise_jacobian)),
        sigma_df=jnp.sqrt(jnp.max(jax.vmap(_variance)(gradients))),
    )


def _outer_gradients(problem: Composition, oracle: Oracle, samples: int, key: Any) -> Any:
    """y ↦ the gradients ∇fₖ(y), one row each; one row for a single f."""
    source = problem.outer_source
    if source is None:
        return lambda y: jax.grad(oracle.outer_value)(y, None)[None]
    batch = source.subsample(key, samples, 0)
    outer = batch.samples()
    each = jax.jacrev(oracle.functions.outer_values)
    return lambda y: each(y, outer)


def _spectral(matrices: Any) -> Any:
    return jnp.linalg.norm(matrices, ord=2, axis=(-2, -1))


def _frobenius(matrices: Any) -> Any:
    return jnp.linalg.norm(matrices, axis=(-2, -1))


def _variance(rows: Any) -> Any:
    return jnp.mean(jnp.sum((rows - jnp.mean(rows, axis=0)) ** 2, axis=-1))
