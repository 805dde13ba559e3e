"""NASA: one average for the gradient, one for g (Ghadimi, Ruszczyński & Wang, 2020)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from mvrc.estimators.base import Estimator, three_batches
from mvrc.oracle import Oracle, Vector
from mvrc.schedules import Power


class NasaState(NamedTuple):
    """The two averages."""

    inner: Vector  # u ≈ g(x)
    gradient: Vector  # z ≈ ∇F(x)
    k: Int[Array, ""]  # steps made


class Nasa(Estimator):
    """zₖ₊₁ = (1−aτₖ)zₖ + aτₖ g'(xₖ₊₁)ᵀ∇f(uₖ),   uₖ₊₁ = (1−bτₖ)uₖ + bτₖ g(xₖ₊₁),

    with g, g' on a batch A and ∇f on a batch B; the weights aτₖ and bτₖ are cut at 1.

    Args:
        tau: τₖ, the scheme's own steps.
        a, b: the factors.
    """

    refreshes: ClassVar[bool] = False

    tau: Power
    a: float
    b: float

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values", "outer") if two_level else ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> NasaState:
        a, _, b = three_batches(oracle)
        inner, pull = oracle.values_and_pullback(point, a)
        return NasaState(inner, pull(oracle.outer_gradient(inner, b)), jnp.int32(0))

    def update(self, oracle: Oracle, state: NasaState, point: Vector) -> NasaState:
        a, _, b = three_batches(oracle)
        tau = self.tau.weight(state.k, point.dtype)  # of the step that led here
        for_gradient, for_inner = jnp.minimum(self.a * tau, 1), jnp.minimum(self.b * tau, 1)
        value, pull = oracle.values_and_pullback(point, a)
        sample = pull(oracle.outer_gradient(state.inner, b))
        return NasaState(
            (1 - for_inner) * state.inner + for_inner * value,
            (1 - for_gradient) * state.gradient + for_gradient * sample,
            state.k + 1,
        )

    def gradient(self, state: NasaState) -> Vector:
        return state.gradient
