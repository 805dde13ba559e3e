"""Models of the curvature of F: a matrix, or a few secants; learning, and minimising the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mvrc.oracle import Vector

_STEPS = 500  # most steps on a model problem
_SHARE = 1e-2  # of its first step, at which a model problem is solved


class Matrix(NamedTuple):
    """B, positive definite."""

    matrix: Float[Array, "d d"]


class Secants(NamedTuple):
    """B of limited-memory BFGS: σI and pairs (s, y) with Bs ≈ y, the newest last; zeros: none."""

    sigma: Any
    s: Float[Array, "m d"]
    y: Float[Array, "m d"]


Model = Matrix | Secants


def positive(matrix: Float[Array, "d d"]) -> Matrix:
    """The matrix with |λ|/4 for a negative eigenvalue λ, and none below 1e-8 of the largest.

    Along a bend downwards a step must end somewhere, but r may bend upwards more.
    """
    values, vectors = jnp.linalg.eigh(matrix)
    sizes = jnp.where(values > 0, values, -values / 4)
    most = jnp.max(sizes)
    least = jnp.where(most > 0, 1e-8 * most, 1)
    return Matrix((vectors * jnp.maximum(sizes, least)) @ vectors.T)


def operator(model: Model, damping: Any) -> Callable[[Vector], Vector]:
    """v ↦ (B + damping·I)v."""
    if isinstance(model, Matrix):
        return lambda v: model.matrix @ v + damping * v
    wide, middle = _compact(model)
    return lambda v: (model.sigma + damping) * v - (middle @ (wide @ v)) @ wide


def learn(model: Model, s: Vector, y: Vector) -> Model:
    """The model after a secant: the gradient changed by y along s. A bend downwards is left out."""
    dtype = s.dtype
    bend = jnp.vdot(s, y)
    lengths = jnp.linalg.norm(s) * jnp.linalg.norm(y)
    good = jnp.isfinite(lengths) & (bend > 10 * jnp.finfo(dtype).eps * lengths)
    s, y = jnp.where(good, s, 1), jnp.where(good, y, 1)
    bend = jnp.where(good, bend, 1)
    new: Model
    if isinstance(model, Matrix):
        image = model.matrix @ s
        old = jnp.outer(image, image) / jnp.vdot(s, image)
        new = Matrix(model.matrix - old + jnp.outer(y, y) / bend)
    else:
        keep = lambda rows, row: jnp.concatenate([rows[1:], row[None]])  # noqa: E731
        new = Secants(jnp.linalg.norm(y) / jnp.linalg.norm(s), keep(model.s, s), keep(model.y, y))
    return jax.tree_util.tree_map(lambda a, b: jnp.where(good, a, b), new, model)


def surprise(model: Model, s: Vector, y: Vector) -> Any:
    """‖y − Bs‖/‖y‖: the share of the gradient's change that the model did not foresee."""
    length = jnp.linalg.norm(y)
    missed = jnp.linalg.norm(y - operator(model, 0)(s))
    return jnp.where(length > 0, missed / jnp.where(length > 0, length, 1), 0)


def direction(like: Vector) -> Vector:
    """A fixed unit vector with no preference; a constant, as random bits are slow to compile."""
    normal = np.random.default_rng(0).standard_normal(like.shape)
    return jnp.asarray(normal / np.linalg.norm(normal), like.dtype)


def largest(apply: Callable[[Vector], Vector], like: Vector) -> Any:
    """The largest eigenvalue, or a little more."""

    def turn(unit: Vector, _: Any) -> tuple[Vector, Any]:
        image = apply(unit)
        length = jnp.linalg.norm(image)
        return image / jnp.where(length > 0, length, 1), length

    found = 1.3 * jax.lax.scan(turn, direction(like), None, length=16)[1][-1]
    return jnp.maximum(found, jnp.finfo(like.dtype).tiny)


def step_without_penalty(model: Model, damping: Any, v: Vector) -> Vector:
    """−(B + damping·I)⁻¹v."""
    if isinstance(model, Matrix):
        return -jnp.linalg.solve(model.matrix + damping * jnp.eye(v.size, dtype=v.dtype), v)
    sigma = model.sigma + damping
    wide, middle = _compact(model)
    # Woodbury: (σI − WᵀMW)⁻¹ = I/σ + Wᵀ(M⁻¹ − WWᵀ/σ)⁻¹W/σ².
    small = jnp.linalg.inv(middle) - wide @ wide.T / sigma
    return -(v / sigma + jnp.linalg.solve(small, wide @ v) @ wide / sigma**2)


def minimise_model(
    model: Model,
    damping: Any,
    x: Vector,
    v: Vector,
    prox: Callable[[Vector, Any], Vector],
    top: Any,
) -> tuple[Vector, Vector, Any]:
    """argmin over u of ⟨v, u − x⟩ + ½⟨u − x, (B + damping·I)(u − x)⟩ + r(u).

    By FISTA with restart, which sees no sample; to 1 % of its first step, a proximal gradient step.
    Returns the minimiser, that first step and the number of prox; `top` is the largest eigenvalue.
    """
    apply = operator(model, damping)

    def step(carry: Any) -> Any:
        u, y, t, made, first, _ = carry
        new = prox(y - (v + apply(y - x)) / top, 1 / top)
        uphill = jnp.vdot(y - new, new - u) > 0
        after = jnp.where(uphill, 1, (1 + jnp.sqrt(1 + 4 * t**2)) / 2).astype(t.dtype)
        weight = jnp.where(uphill, 0, (t - 1) / after)
        first = jnp.where(made == 0, new, first)
        return new, new + weight * (new - u), after, made + 1, first, jnp.linalg.norm(new - y)

    def unsolved(carry: Any) -> Any:
        _, _, _, made, first, moved = carry
        return (made < 2) | ((moved > _SHARE * jnp.linalg.norm(first - x)) & (made < _STEPS))

    one = jnp.ones((), x.dtype)
    start = (x, x, one, jnp.int32(0), x, one)
    u, _, _, made, first, _ = jax.lax.while_loop(unsolved, step, start)
    return u, first, made


def _compact(model: Secants) -> tuple[Array, Array]:
    """W (2m × d) and M (2m × 2m) of B = σI − WᵀMW (Byrd, Nocedal & Schnabel, 1994)."""
    s, y, sigma = model.s, model.y, model.sigma
    count = len(s)
    products = s @ y.T
    empty = jnp.diag((jnp.diagonal(products) == 0).astype(s.dtype))
    lower = jnp.tril(products, -1)
    corner = jnp.diag(jnp.diagonal(products))
    whole = jnp.block([[sigma * s @ s.T + empty, lower], [lower.T, -corner - empty]])
    wide = jnp.concatenate([sigma * s, y])
    return wide, jnp.linalg.inv(whole).reshape(2 * count, 2 * count)
