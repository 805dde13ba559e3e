"""SPIDER: differences of consecutive points added to a fresh start (Fang et al., 2018)."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float

from mvrc import checks
from mvrc.estimators.base import JACOBIANS, Estimator, keeps_matrix
from mvrc.oracle import Oracle, Vector
from mvrc.sampling import Samples


class SpiderState(NamedTuple):
    """The estimate at one query point."""

    point: Vector  # z, where the estimate stands
    inner: Vector  # g̃ ≈ g(z)
    outer: Vector  # f̃' ≈ ∇f(g̃)
    jacobian: Float[Array, "p d"] | None  # G̃ ≈ g'(z); None when matrix-free
    gradient: Vector | None  # v ≈ ∇F(z); None when G̃ is kept


class Spider(Estimator):
    """At a refresh with large batches A, A', B:

        g̃ = g_A(z),  G̃ = g'_A'(z),  f̃' = ∇f_B(g̃),

    otherwise with small ones:

        g̃ₜ = g̃ₜ₋₁ + g_A(zₜ) − g_A(zₜ₋₁)
        G̃ₜ = G̃ₜ₋₁ + g'_A'(zₜ) − g'_A'(zₜ₋₁)
        f̃'ₜ = f̃'ₜ₋₁ + ∇f_B(g̃ₜ) − ∇f_B(g̃ₜ₋₁)

    and the estimate is vₜ = G̃ₜᵀ f̃'ₜ (Algorithms 1 and 2 of the paper). With one outer function
    A' = A and f̃'ₜ = ∇f(g̃ₜ); with a mean outside, A, A' and B are independent.

    Matrix-free, with p + d numbers instead of p·d:

        vₜ = vₜ₋₁ + g'_A'(zₜ)ᵀ∇f_B(g̃ₜ) − g'_A'(zₜ₋₁)ᵀ∇f_B(g̃ₜ₋₁).

    Args:
        jacobian: "matrix", "free", or "auto" (the matrix while p·d is small).
    """

    jacobian: str = eqx.field(static=True, default="auto")

    def __check_init__(self) -> None:
        checks.choice("jacobian", self.jacobian, JACOBIANS)

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values", "jacobians", "outer") if two_level else ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> SpiderState:
        a, a_prime, b = _batches(oracle)
        if keeps_matrix(self.jacobian, oracle.geometry):
            if a_prime is a:
                inner, jacobian = oracle.values_and_jacobian(point, a)
            else:
                inner, jacobian = oracle.values(point, a), oracle.jacobian(point, a_prime)
            return SpiderState(point, inner, oracle.outer_gradient(inner, b), jacobian, None)
        inner = oracle.values(point, a)
        outer = oracle.outer_gradient(inner, b)
        return SpiderState(point, inner, outer, None, oracle.pullback(point, a_prime, outer))

    def update(self, oracle: Oracle, state: SpiderState, point: Vector) -> SpiderState:
        if keeps_matrix(self.jacobian, oracle.geometry):
            return self._update_matrix(oracle, state, point)
        return self._update_free(oracle, state, point)

    def gradient(self, state: SpiderState) -> Vector:
        if state.jacobian is None:
            assert state.gradient is not None
            return state.gradient
        return state.outer @ state.jacobian

    def _update_matrix(self, oracle: Oracle, state: SpiderState, point: Vector) -> SpiderState:
        a, a_prime, b = _batches(oracle)
        assert state.jacobian is not None
        if a_prime is a:
            new, new_jacobian = oracle.values_and_jacobian(point, a)
            old, old_jacobian = oracle.values_and_jacobian(state.point, a)
        else:
            new, old = oracle.values(point, a), oracle.values(state.point, a)
            new_jacobian = oracle.jacobian(point, a_prime)
            old_jacobian = oracle.jacobian(state.point, a_prime)
        inner = state.inner + (new - old)
        outer = oracle.outer_gradient(inner, b)
        if b is not None:
            outer = state.outer + (outer - oracle.outer_gradient(state.inner, b))
        jacobian = state.jacobian + (new_jacobian - old_jacobian)
        return SpiderState(point, inner, outer, jacobian, None)

    def _update_free(self, oracle: Oracle, state: SpiderState, point: Vector) -> SpiderState:
        a, a_prime, b = _batches(oracle)
        assert state.gradient is not None
        if a_prime is a:
            new, pull_new = oracle.values_and_pullback(point, a)
            old, pull_old = oracle.values_and_pullback(state.point, a)
        else:
            new, old = oracle.values(point, a), oracle.values(state.point, a)

            def pull_new(u: Vector) -> Vector:
                return oracle.pullback(point, a_prime, u)

            def pull_old(u: Vector) -> Vector:
                return oracle.pullback(state.point, a_prime, u)

        inner = state.inner + (new - old)
        outer = oracle.outer_gradient(inner, b)
        before = state.outer if b is None else oracle.outer_gradient(state.inner, b)
        gradient = state.gradient + (pull_new(outer) - pull_old(before))
        return SpiderState(point, inner, outer, None, gradient)


def _batches(oracle: Oracle) -> tuple[Samples, Samples, Samples | None]:
    """A, A' and B; A' is A and B is the single f when there is one outer function."""
    a = oracle.batch("values")
    assert a is not None
    if not oracle.two_level:
        return a, a, None
    a_prime = oracle.batch("jacobians")
    assert a_prime is not None
    return a, a_prime, oracle.batch("outer")
