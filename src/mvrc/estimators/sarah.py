"""SARAH on the composed gradient (Yuan et al., 2019)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from jaxtyping import Array, Float

from mvrc.estimators.base import Estimator, three_batches
from mvrc.oracle import Oracle, Vector


class SarahState(NamedTuple):
    """The estimate at one query point."""

    point: Vector  # z
    inner: Vector  # g̃ ≈ g(z)
    jacobian: Float[Array, "rows d"]  # G̃ ≈ g'(z)
    gradient: Vector  # F ≈ ∇F(z)


class Sarah(Estimator):
    """g̃ and G̃ as SPIDER has them, and one recursion for the composed gradient:

        Fₜ = G̃ₜᵀ∇f_B(g̃ₜ) − G̃ₜ₋₁ᵀ∇f_B(g̃ₜ₋₁) + Fₜ₋₁.

    At a refresh F = G̃ᵀ∇f_B(g̃) with large batches; the previous point of the first step after it is
    the refresh's own. G̃ is a p × d matrix, which this rule cannot do without.
    """

    refreshes: ClassVar[bool] = True

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values", "jacobians", "outer") if two_level else ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> SarahState:
        a, a_prime, b = three_batches(oracle)
        inner, jacobian = oracle.values_and_jacobian(point, a, a_prime)
        gradient = oracle.pull(jacobian, oracle.outer_gradient(inner, b))
        return SarahState(point, inner, jacobian, gradient)

    def update(self, oracle: Oracle, state: SarahState, point: Vector) -> SarahState:
        a, a_prime, b = three_batches(oracle)
        moved, added = oracle.changes(point, state.point, a, a_prime)
        inner = state.inner + moved
        jacobian = state.jacobian + added
        change = oracle.pull(jacobian, oracle.outer_gradient(inner, b))
        change = change - oracle.pull(state.jacobian, oracle.outer_gradient(state.inner, b))
        return SarahState(point, inner, jacobian, state.gradient + change)

    def gradient(self, state: SarahState) -> Vector:
        return state.gradient
