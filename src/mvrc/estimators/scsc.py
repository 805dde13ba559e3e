"""SCSC: an average of g corrected for the move of x (Chen, Sun & Yin, 2021)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int

from mvrc.estimators.base import Estimator, three_batches
from mvrc.oracle import Oracle, Vector
from mvrc.schedules import Power


class ScscState(NamedTuple):
    """The corrected average and the estimate."""

    point: Vector  # xₜ
    inner: Vector  # yₜ₊₁ ≈ g(xₜ)
    gradient: Vector  # v
    k: Int[Array, ""]  # steps made


class Scsc(Estimator):
    """yₜ₊₁ = g_A(xₜ) + (1−βₜ)(yₜ − g_A(xₜ₋₁)), the same A at both points;

        estimate g'_A(xₜ)ᵀ∇f_B(yₜ₊₁).

    The Jacobian shares A with the values, as published. That is biased by β·Cov(g', ∇²f g)/|A|,
    which vanishes only as β falls; with `independent` the Jacobian has an A' of its own, and the
    estimate is unbiased given y.

    Args:
        weight: βₜ for t = 1, 2, …, cut at 1.
        independent: whether A' is drawn separately; a variant that is not in the paper.
    """

    refreshes: ClassVar[bool] = False

    weight: Power
    independent: bool = eqx.field(static=True, default=False)

    def roles(self, two_level: bool) -> tuple[str, ...]:
        inside = ("values", "jacobians") if self.independent else ("values",)
        return (*inside, "outer") if two_level else inside

    def refresh(self, oracle: Oracle, point: Vector) -> ScscState:
        a, a_prime, b = three_batches(oracle)
        inner, pull = oracle.values_and_pullback(point, a, a_prime)
        return ScscState(point, inner, pull(oracle.outer_gradient(inner, b)), jnp.int32(0))

    def update(self, oracle: Oracle, state: ScscState, point: Vector) -> ScscState:
        a, a_prime, b = three_batches(oracle)
        keep = 1 - self.weight.weight(state.k + 1, point.dtype)
        value, pull = oracle.values_and_pullback(point, a, a_prime)
        inner = value + keep * (state.inner - oracle.values(state.point, a))
        return ScscState(point, inner, pull(oracle.outer_gradient(inner, b)), state.k + 1)

    def gradient(self, state: ScscState) -> Vector:
        return state.gradient
