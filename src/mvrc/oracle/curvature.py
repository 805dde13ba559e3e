"""The curvature of F = f∘g: ∇²F = Jᵀ∇²f J + Σₖ ∂ₖf·E∇²gₖ as a matrix or a product, and its
Gauss–Newton form."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mvrc.oracle.functions import Vector
from mvrc.oracle.oracle import Oracle
from mvrc.sampling import Batch, Samples
from mvrc.support.numerics import divide


def hessian(
    oracle: Oracle,
    point: Vector,
    inner: Vector,
    slope: Vector,
    batches: tuple[Batch, Batch | None],
    part: Batch,
) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
    """Jᵀ∇²f_B(y)J and the mean of ∇²⟨∇f_B(y), gᵢ⟩, with y = g(point) and ∇f_B(y) as given.

    J is that of the batch, as a valley of f ∘ g lies where J says; the mean is that of a part.
    """
    everything, outer = batches
    jacobian = oracle.geometry.jacobian.expand(oracle.jacobian(point, everything))

    def inside_of(samples: Samples) -> Float[Array, "d d"]:
        pull = jax.grad(lambda x: jnp.vdot(slope, oracle.functions.value_sum(x, samples)))
        along = lambda e: jax.jvp(pull, (point,), (e,))[1]  # noqa: E731
        return jax.vmap(along)(jnp.eye(point.size, dtype=point.dtype))

    rows = max(1, oracle.geometry.inner_rows(False) // point.size)
    return _outer_curvature(oracle, inner, outer, jacobian), part.mean(inside_of, rows)


def gauss_newton(
    oracle: Oracle, point: Vector, inner: Vector, slope: Vector, batches: tuple[Batch, Batch | None]
) -> Float[Array, "d d"]:
    """Jᵀ∇²f_B(y)J + Σₖ ∂ₖf_B(y)·E[∇gₖ∇gₖᵀ/2gₖ]; not a number where a gₖ or ∂ₖf is negative."""
    everything, outer = batches
    jacobian_of = jax.jacrev if oracle.geometry.y.size <= point.size else jax.jacfwd

    def part(samples: Samples) -> tuple[Any, Any, Any]:
        values = oracle.functions.values(point, samples.rows)
        each = jax.vmap(jacobian_of(oracle.functions.value), (None, 0))(point, samples.rows)
        weights = divide(slope, 2 * values)
        if samples.valid is not None:
            weights = jnp.where(samples.valid[:, None], weights, 0)
        square = jnp.einsum("npi,np,npj->ij", each, weights, each)
        return square, samples.sum(each), samples.sum((values < 0).astype(jnp.int32))

    rows = max(1, oracle.geometry.inner_rows(False) // (point.size * oracle.geometry.y.size))
    square, jacobian, negative = everything.sum(part, rows)
    oracle.count(inner_jacobians=2 * everything.amount())
    square, jacobian = everything.divided((square, jacobian))
    whole = _outer_curvature(oracle, inner, outer, jacobian) + square
    fits = jnp.all((negative == 0) | (slope == 0)) & jnp.all(slope >= 0)
    return jnp.where(fits, (whole + whole.T) / 2, jnp.nan)


def hessian_product(
    oracle: Oracle, point: Vector, inner: Vector, slope: Vector,
    batches: tuple[Batch, Batch | None], v: Vector,
) -> Vector:  # fmt: skip
    """∇²F(point)v = Jᵀ∇²f_B(y)Jv + the mean of ∇²⟨∇f_B(y), gᵢ⟩v, without a matrix."""
    everything, outer = batches
    along = jax.jvp(lambda x: oracle.values(x, everything), (point,), (v,))[1]
    turned = jax.jvp(lambda y: oracle.outer_gradient(y, outer), (inner,), (along,))[1]
    pull = lambda x, u: oracle.pullback(x, everything, u)  # noqa: E731
    return jax.jvp(pull, (point, slope), (v, turned))[1]


def _outer_curvature(
    oracle: Oracle, inner: Vector, outer: Batch | None, jacobian: Float[Array, "p d"]
) -> Float[Array, "d d"]:
    """Jᵀ∇²f_B(y)J."""

    def along(column: Vector) -> Vector:
        return jax.jvp(lambda y: oracle.outer_gradient(y, outer), (inner,), (column,))[1]

    return jax.lax.map(along, jacobian.T, batch_size=8) @ jacobian
