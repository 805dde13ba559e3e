"""STORM: SPIDER's differences with a little forgetting, and no refresh (Cutkosky & Orabona)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mvrc.estimators.base import JACOBIANS, Estimator, batch_names, refreshed, three_batches
from mvrc.oracle import Oracle, Vector
from mvrc.schedules import Power
from mvrc.support import checks
from mvrc.support.numerics import divide

RECURSIONS = ("composed", "levels")


class StormState(NamedTuple):
    """The estimate at one query point."""

    point: Vector  # x
    inner: Vector  # g̃ ≈ g(x)
    outer: Vector  # f̃' ≈ ∇f(g̃)
    jacobian: Float[Array, "rows d"] | None  # G̃ ≈ g'(x); None when matrix-free
    gradient: Vector  # v ≈ ∇F(x)
    k: Int[Array, ""]  # steps made


class Storm(Estimator):
    """g̃ on A and G̃ on A' each follow

        uₜ = h(xₜ; A) + (1−aₜ)(uₜ₋₁ − h(xₜ₋₁; A))

    with an a of their own. With one outer function A' = A and the estimate is G̃ᵀ∇f(g̃). With a mean
    outside, either the composed gradient follows the same rule ("composed": STORM-Compositional,
    Yuan & Hu, 2020),

        Fₜ = G̃ₜᵀ∇f_B(g̃ₜ) + (1−aₜ)(Fₜ₋₁ − G̃ₜ₋₁ᵀ∇f_B(g̃ₜ₋₁)),

    or f̃' does, for h = ∇f_B(g̃), and the estimate is G̃ᵀf̃' ("levels": SMVR, Jiang et al., 2022, which
    also projects G̃ and f̃' to the ball of a known bound on g' and ∇f).

    Matrix-free, v itself follows the rule for h = g'_A'(x)ᵀ∇f_B(g̃), with A' independent of A. The
    start is one batch; a = 1 forgets everything and is plain minibatch, a = 0 is SPIDER without
    refresh.

    Args:
        forget: aₜ of g̃ for t = 1, 2, …, cut at 1.
        forget_jacobian, forget_gradient: those of G̃, and of F or f̃'; as `forget` when None.
        jacobian: "matrix", "free" or "auto".
        recursion: "composed" or "levels", of two levels.
        bound: radius of SMVR's projection, in the Frobenius norm; None for none.
    """

    refreshes: ClassVar[bool] = False

    forget: Power
    forget_jacobian: Power | None = None
    forget_gradient: Power | None = None
    jacobian: str = eqx.field(static=True, default="auto")
    recursion: str = eqx.field(static=True, default="composed")
    bound: float | None = None

    def __check_init__(self) -> None:
        checks.choice("jacobian", self.jacobian, JACOBIANS)
        checks.choice("recursion", self.recursion, RECURSIONS)

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return batch_names(two_level, self.jacobian)

    def refresh(self, oracle: Oracle, point: Vector) -> StormState:
        found = refreshed(oracle, point, self.jacobian, self._inside)
        return StormState(point, *found, jnp.int32(0))

    def update(self, oracle: Oracle, state: StormState, point: Vector) -> StormState:
        k = state.k + 1

        def kept(own: Power | None) -> Any:
            return 1 - (self.forget if own is None else own).weight(k, point.dtype)

        rates = kept(None), kept(self.forget_jacobian), kept(self.forget_gradient)
        if state.jacobian is None:
            return self._update_free(oracle, state, point, *rates)
        return self._update_matrix(oracle, state, point, *rates)

    def gradient(self, state: StormState) -> Vector:
        return state.gradient

    def _update_matrix(
        self, oracle: Oracle, state: StormState, point: Vector, values: Any, matrix: Any, last: Any
    ) -> StormState:
        a, a_prime, b = three_batches(oracle)
        assert state.jacobian is not None
        moved, change = oracle.changes(point, state.point, a, a_prime, values, matrix)
        inner = values * state.inner + moved
        jacobian = self._inside(matrix * state.jacobian + change)
        outer = oracle.outer_gradient(inner, b)
        gradient = oracle.pull(jacobian, outer)
        if b is not None:
            before = oracle.outer_gradient(state.inner, b)
            if self.recursion == "composed":
                earlier = oracle.pull(state.jacobian, before)
                gradient = gradient + last * (state.gradient - earlier)
            else:
                outer = self._inside(outer + last * (state.outer - before))
                gradient = oracle.pull(jacobian, outer)
        return StormState(point, inner, outer, jacobian, gradient, state.k + 1)

    def _update_free(
        self, oracle: Oracle, state: StormState, point: Vector, values: Any, _: Any, last: Any
    ) -> StormState:
        a, a_prime, b = three_batches(oracle)
        moved, pull = oracle.change_and_pullbacks(point, state.point, a, a_prime, values)
        inner = values * state.inner + moved
        outer = oracle.outer_gradient(inner, b)
        before = state.outer if b is None else oracle.outer_gradient(state.inner, b)
        gradient = last * state.gradient + pull(outer, last * before)
        return StormState(point, inner, outer, None, gradient, state.k + 1)

    def _inside(self, estimate: Vector) -> Vector:
        """SMVR's projection to the ball."""
        if self.bound is None:
            return estimate
        length = jnp.sqrt(jnp.sum(estimate**2))
        return estimate * jnp.minimum(1, divide(self.bound, length, 1.0))
