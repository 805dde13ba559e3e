"""SVRG: corrections against one exact snapshot (Lian et al., 2017; Huo et al., 2018)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float

from mvrc.estimators.base import Estimator, batch_names, three_batches
from mvrc.oracle import Oracle, Vector
from mvrc.support import checks


class SvrgState(NamedTuple):
    """The snapshot and the estimate at the last query point."""

    snapshot: Vector  # x̃
    inner: Vector  # g(x̃)
    outer: Vector  # ∇f(g(x̃))
    jacobian: Float[Array, "rows d"] | None  # g'(x̃); None when matrix-free
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

    Matrix-free is another estimator (Compositional-SVRG-1), with A' independent of A:

        v = g'_A'(x)ᵀ∇f_B(ĝ) − g'_A'(x̃)ᵀ∇f_B(g(x̃)) + ∇F(x̃).

    Args:
        jacobian: "matrix" or "free".
    """

    refreshes: ClassVar[bool] = True

    jacobian: str = eqx.field(static=True, default="matrix")

    def __check_init__(self) -> None:
        checks.choice("jacobian", self.jacobian, ("matrix", "free"))

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return batch_names(two_level, self.jacobian)

    def refresh(self, oracle: Oracle, point: Vector) -> SvrgState:
        a, a_prime, b = three_batches(oracle)
        if self.jacobian == "free":
            inner, pull = oracle.values_and_pullback(point, a, a_prime)
            outer = oracle.outer_gradient(inner, b)
            full = pull(outer)
            return SvrgState(point, inner, outer, None, full, full)
        inner, jacobian = oracle.values_and_jacobian(point, a, a_prime)
        outer = oracle.outer_gradient(inner, b)
        full = oracle.pull(jacobian, outer)
        return SvrgState(point, inner, outer, jacobian, full, full)

    def update(self, oracle: Oracle, state: SvrgState, point: Vector) -> SvrgState:
        a, a_prime, b = three_batches(oracle)
        moved, pull = oracle.change_and_pullbacks(point, state.snapshot, a, a_prime)
        outer = oracle.outer_gradient(state.inner + moved, b)
        if state.jacobian is None:
            before = state.outer if b is None else oracle.outer_gradient(state.inner, b)
            return state._replace(gradient=pull(outer, before) + state.full)
        gradient = oracle.pull(state.jacobian, outer) + pull(outer, outer)
        if b is not None:
            anchor = oracle.pull(state.jacobian, oracle.outer_gradient(state.inner, b))
            gradient = gradient - anchor + state.full
        return state._replace(gradient=gradient)

    def gradient(self, state: SvrgState) -> Vector:
        return state.gradient
