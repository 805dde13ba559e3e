"""SVRG: corrections against one exact snapshot (Lian et al., 2017; Huo et al., 2018)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from jaxtyping import Array, Float

from mvrc.estimators.base import Estimator, three_batches
from mvrc.oracle import Oracle, Vector


class SvrgState(NamedTuple):
    """The snapshot and the estimate at the last query point."""

    snapshot: Vector  # x̃
    inner: Vector  # g(x̃)
    jacobian: Float[Array, "p d"]  # g'(x̃)
    full: Vector  # ∇F(x̃)
    gradient: Vector  # v


class Svrg(Estimator):
    """At a refresh x̃ is the point, with exact g(x̃), g'(x̃), ∇F(x̃); then with small A, A', B:

        ĝ = g(x̃) + g_A(x) − g_A(x̃)
        Ĝ = g'(x̃) + g'_A'(x) − g'_A'(x̃)
        v = Ĝᵀ∇f_B(ĝ) − g'(x̃)ᵀ∇f_B(g(x̃)) + ∇F(x̃).

    With one outer function A' = A and v = Ĝᵀ∇f(ĝ). The p × d matrix g'(x̃) is kept: its product
    with a new ∇f at every step has no matrix-free form short of a full pass. The Jacobians of the
    batches are seen by their products with ∇f_B(ĝ) alone.
    """

    refreshes: ClassVar[bool] = True

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values", "jacobians", "outer") if two_level else ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> SvrgState:
        a, a_prime, b = three_batches(oracle)
        inner, jacobian = oracle.values_and_jacobian(point, a, a_prime)
        full = oracle.outer_gradient(inner, b) @ jacobian
        return SvrgState(point, inner, jacobian, full, full)

    def update(self, oracle: Oracle, state: SvrgState, point: Vector) -> SvrgState:
        a, a_prime, b = three_batches(oracle)
        moved, pull = oracle.change_and_pullbacks(point, state.snapshot, a, a_prime)
        inner = state.inner + moved
        outer = oracle.outer_gradient(inner, b)
        gradient = outer @ state.jacobian + pull(outer, outer)
        if b is not None:
            anchor = oracle.outer_gradient(state.inner, b) @ state.jacobian
            gradient = gradient - anchor + state.full
        return state._replace(gradient=gradient)

    def gradient(self, state: SvrgState) -> Vector:
        return state.gradient
