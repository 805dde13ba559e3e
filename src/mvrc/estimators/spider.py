"""SPIDER: differences of consecutive points added to a fresh start (Fang et al., 2018)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float

from mvrc.estimators.base import JACOBIANS, Estimator, batch_names, refreshed, three_batches
from mvrc.oracle import Oracle, Vector
from mvrc.support import checks


class SpiderState(NamedTuple):
    """The estimate at one query point."""

    point: Vector  # z, where the estimate stands
    inner: Vector  # g̃ ≈ g(z)
    outer: Vector  # f̃' ≈ ∇f(g̃)
    jacobian: Float[Array, "rows d"] | None  # G̃ ≈ g'(z); None when matrix-free
    gradient: Vector  # v ≈ ∇F(z)


class Spider(Estimator):
    """At a refresh with large batches A, A', B:

        g̃ = g_A(z),  G̃ = g'_A'(z),  f̃' = ∇f_B(g̃),

    otherwise with small ones:

        g̃ₜ = g̃ₜ₋₁ + g_A(zₜ) − g_A(zₜ₋₁)
        G̃ₜ = G̃ₜ₋₁ + g'_A'(zₜ) − g'_A'(zₜ₋₁)
        f̃'ₜ = f̃'ₜ₋₁ + ∇f_B(g̃ₜ) − ∇f_B(g̃ₜ₋₁)

    and the estimate is vₜ = G̃ₜᵀ f̃'ₜ (Algorithms 1 and 2 of the paper). With one outer function
    A' = A and f̃'ₜ = ∇f(g̃ₜ); with a mean outside, A, A' and B are independent.

    Matrix-free, with p + d numbers instead of p·d and always with A' independent of A:

        vₜ = vₜ₋₁ + g'_A'(zₜ)ᵀ∇f_B(g̃ₜ) − g'_A'(zₜ₋₁)ᵀ∇f_B(g̃ₜ₋₁).

    That is not the papers' estimator, and no theorem covers it.

    Args:
        jacobian: "matrix", "free", or "auto": the matrix unless it is too large.
    """

    refreshes: ClassVar[bool] = True

    jacobian: str = eqx.field(static=True, default="auto")

    def __check_init__(self) -> None:
        checks.choice("jacobian", self.jacobian, JACOBIANS)

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return batch_names(two_level, self.jacobian)

    def refresh(self, oracle: Oracle, point: Vector) -> SpiderState:
        return SpiderState(point, *refreshed(oracle, point, self.jacobian))

    def update(self, oracle: Oracle, state: SpiderState, point: Vector) -> SpiderState:
        if state.jacobian is None:
            return self._update_free(oracle, state, point)
        return self._update_matrix(oracle, state, point)

    def gradient(self, state: SpiderState) -> Vector:
        return state.gradient

    def _update_matrix(self, oracle: Oracle, state: SpiderState, point: Vector) -> SpiderState:
        a, a_prime, b = three_batches(oracle)
        assert state.jacobian is not None
        moved, change = oracle.changes(point, state.point, a, a_prime)
        inner, jacobian = state.inner + moved, state.jacobian + change
        outer = oracle.outer_gradient(inner, b)
        if b is not None:
            outer = state.outer + (outer - oracle.outer_gradient(state.inner, b))
        return SpiderState(point, inner, outer, jacobian, oracle.pull(jacobian, outer))

    def _update_free(self, oracle: Oracle, state: SpiderState, point: Vector) -> SpiderState:
        a, a_prime, b = three_batches(oracle)
        moved, pull = oracle.change_and_pullbacks(point, state.point, a, a_prime)
        inner = state.inner + moved
        outer = oracle.outer_gradient(inner, b)
        before = state.outer if b is None else oracle.outer_gradient(state.inner, b)
        return SpiderState(point, inner, outer, None, state.gradient + pull(outer, before))
