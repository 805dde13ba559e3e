"""Constants of the theory estimated from samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.compiler import quick
from mvrc.oracle import Geometry, Oracle, Vector
from mvrc.problem import Composition
from mvrc.sampling import key_bits
from mvrc.support import checks
from mvrc.support.numerics import divide
from mvrc.support.partition import combine, partition, signature
from mvrc.theory.constants import Constants

_POINTS = 8  # points tried in the ball
_ENTRIES = 2**24  # most entries of all per-sample Jacobians held at once


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

    Each is the largest value found at random points and pairs in the ball: an estimate from below,
    which grows with `samples`. Multiply by a margin before trusting a guarantee to it.

    l_g = max ‖gᵢ'‖ (spectral), L_g = max ‖gᵢ'(x) − gᵢ'(x')‖_F/‖x − x'‖ (Frobenius: the variance of
    a mean of Jacobians is the mean of the variances in that norm alone), l_f and L_f likewise for
    ∇fₖ at the inner values met; σ_g², σ_g'² (Frobenius), σ_f'² the largest variances.

    Args:
        problem: the composition.
        x: centre of the ball.
        radius: its radius.
        samples: inner and outer samples evaluated.
        seed: of the random points and samples.

    Examples:
        >>> constants = mvrc.estimate_constants(problem, x0, radius=1.0)
        >>> constants.L_F > 0
        True
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
        numbers, static = partition(problem, geometry.x.dtype)

        def all_bounds(numbers: Any, x: Any) -> Any:
            key = jax.random.wrap_key_data(bits)
            return _bounds(combine(numbers, static), geometry, x, radius, most, key)

        arguments = numbers, geometry.x.flatten(x)
        bounds = quick.Program(all_bounds, signature(arguments).specs())(*arguments)
    found = _Bounds(*(float(b) for b in bounds))
    if not all(np.isfinite(found)):
        raise ValueError(
            f"f or g is not finite somewhere within radius {radius} of x; use a smaller radius."
        )
    floor = float(np.finfo(geometry.x.dtype).tiny)  # l_f and l_g must not vanish
    slopes = {"l_f": max(found.l_f, floor), "l_g": max(found.l_g, floor)}
    return Constants(**{**found._asdict(), **slopes})


def _bounds(
    problem: Composition, geometry: Geometry, x: Vector, radius: float, samples: int, key: Any
) -> _Bounds:
    keys = jax.random.split(key, 4)
    batch = problem.inner_source.subsample(jax.random.key_data(keys[0]), samples, 0)
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
        L_f=jnp.max(divide(turned, apart)),
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
    batch = source.subsample(jax.random.key_data(key), samples, 0)
    outer = batch.samples()
    each = jax.jacrev(oracle.functions.outer_values)
    return lambda y: each(y, outer)


def _spectral(matrices: Any) -> Any:
    return jnp.linalg.norm(matrices, ord=2, axis=(-2, -1))


def _frobenius(matrices: Any) -> Any:
    return jnp.linalg.norm(matrices, axis=(-2, -1))


def _variance(rows: Any) -> Any:
    return jnp.mean(jnp.sum((rows - jnp.mean(rows, axis=0)) ** 2, axis=-1))
