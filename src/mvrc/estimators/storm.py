"""STORM: SPIDER's differences with a little forgetting, and no refresh (Cutkosky & Orabona)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mvrc import checks
from mvrc.estimators.base import JACOBIANS, Estimator, keeps_matrix, three_batches
from mvrc.oracle import Oracle, Vector
from mvrc.schedules import Power


class StormState(NamedTuple):
    """The estimate at one query point."""

    point: Vector  # x
    inner: Vector  # g̃ ≈ g(x)
    outer: Vector  # f̃' ≈ ∇f(g̃)
    jacobian: Float[Array, "p d"] | None  # G̃ ≈ g'(x); None when matrix-free
    gradient: Vector | None  # v ≈ ∇F(x); None when G̃ is kept
    k: Int[Array, ""]  # steps made


class Storm(Estimator):
    """g̃, G̃ and f̃' each follow

        uₜ = h(xₜ; batch) + (1−aₜ)(uₜ₋₁ − h(xₜ₋₁; batch)),

    for h = g on A, g' on A', ∇f_B(g̃) on B; the estimate is G̃ᵀf̃'. With one outer function A' = A
    and f̃' = ∇f(g̃). Matrix-free, v itself follows the rule for h = g'_A'(x)ᵀ∇f_B(g̃). The start is
    one batch; a = 1 forgets everything and is plain minibatch, a = 0 is SPIDER without refresh.

    Args:
        forget: aₜ for t = 1, 2, …, cut at 1.
        jacobian: "matrix", "free" or "auto".
    """

    refreshes: ClassVar[bool] = False

    forget: Power
    jacobian: str = eqx.field(static=True, default="auto")

    def __check_init__(self) -> None:
        checks.choice("jacobian", self.jacobian, JACOBIANS)

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values", "jacobians", "outer") if two_level else ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> StormState:
        a, a_prime, b = three_batches(oracle)
        start = jnp.int32(0)
        if keeps_matrix(self.jacobian, oracle.geometry):
            inner, jacobian = oracle.values_and_jacobian(point, a, a_prime)
            outer = oracle.outer_gradient(inner, b)
            return StormState(point, inner, outer, jacobian, None, start)
        inner, pull = oracle.values_and_pullback(point, a, a_prime)
        outer = oracle.outer_gradient(inner, b)
        return StormState(point, inner, outer, None, pull(outer), start)

    def update(self, oracle: Oracle, state: StormState, point: Vector) -> StormState:
        a, a_prime, b = three_batches(oracle)
        keep = 1 - self.forget.weight(state.k + 1, point.dtype)
        if state.jacobian is not None:
            moved, change = oracle.changes(point, state.point, a, a_prime, keep)
            inner = keep * state.inner + moved
            outer = oracle.outer_gradient(inner, b)
            if b is not None:
                outer = outer + keep * (state.outer - oracle.outer_gradient(state.inner, b))
            jacobian = keep * state.jacobian + change
            return StormState(point, inner, outer, jacobian, None, state.k + 1)
        moved, pull = oracle.change_and_pullbacks(point, state.point, a, a_prime, keep)
        inner = keep * state.inner + moved
        outer = oracle.outer_gradient(inner, b)
        before = state.outer if b is None else oracle.outer_gradient(state.inner, b)
        gradient = keep * state.gradient + pull(outer, keep * before)
        return StormState(point, inner, outer, None, gradient, state.k + 1)

    def gradient(self, state: StormState) -> Vector:
        if state.jacobian is None:
            assert state.gradient is not None
            return state.gradient
        return state.outer @ state.jacobian
