"""Exponential moving averages of g: SCGD, and its extrapolated form of ASCGD and ASC-PG."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from mvrc.estimators.base import Estimator, three_batches
from mvrc.oracle import Oracle, Vector
from mvrc.schedules import Power


class EmaState(NamedTuple):
    """The average and the estimate."""

    inner: Vector  # y ≈ g(x)
    gradient: Vector  # v
    k: Int[Array, ""]  # steps made


class Ema(Estimator):
    """yₖ₊₁ = (1−βₖ)yₖ + βₖ g_A(xₖ);  estimate g'_A(xₖ)ᵀ∇f_B(yₖ₊₁)   (Wang et al., SCGD, 2017).

    A and B are independent; the Jacobian shares A. Matrix-free by nature.

    Args:
        weight: βₖ for k = 1, 2, …, cut at 1.
    """

    refreshes: ClassVar[bool] = False

    weight: Power

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values", "outer") if two_level else ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> EmaState:
        a, _, b = three_batches(oracle)
        inner, pull = oracle.values_and_pullback(point, a)
        return EmaState(inner, pull(oracle.outer_gradient(inner, b)), jnp.int32(0))

    def update(self, oracle: Oracle, state: EmaState, point: Vector) -> EmaState:
        a, _, b = three_batches(oracle)
        beta = self.weight.weight(state.k + 1, point.dtype)
        value, pull = oracle.values_and_pullback(point, a)
        inner = (1 - beta) * state.inner + beta * value
        return EmaState(inner, pull(oracle.outer_gradient(inner, b)), state.k + 1)

    def gradient(self, state: EmaState) -> Vector:
        return state.gradient


class ExtrapolatedState(NamedTuple):
    """The average at the extrapolated point, and the estimate."""

    point: Vector  # xₖ
    inner: Vector  # yₖ ≈ g(xₖ)
    gradient: Vector  # v
    k: Int[Array, ""]  # steps made


class ExtrapolatedEma(Estimator):
    """Estimate g'_A(xₖ)ᵀ∇f_B(yₖ); then, once xₖ₊₁ is known,

        zₖ₊₁ = (1 − 1/βₖ)xₖ + (1/βₖ)xₖ₊₁,   yₖ₊₁ = (1−βₖ)yₖ + βₖ g_A'(zₖ₊₁)

    (Wang et al., ASCGD, 2017; ASC-PG, 2017). A, A' and B are independent.

    Args:
        weight: βₖ for k = 1, 2, …, cut at 1.
    """

    refreshes: ClassVar[bool] = False

    weight: Power

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values", "jacobians", "outer") if two_level else ("values", "jacobians")

    def refresh(self, oracle: Oracle, point: Vector) -> ExtrapolatedState:
        a, _, b = three_batches(oracle)
        inner, pull = oracle.values_and_pullback(point, a)
        return ExtrapolatedState(point, inner, pull(oracle.outer_gradient(inner, b)), jnp.int32(0))

    def update(self, oracle: Oracle, state: ExtrapolatedState, point: Vector) -> ExtrapolatedState:
        a = oracle.batch("jacobians")
        a_prime, b = oracle.batch("values"), oracle.batch("outer")
        assert a is not None and a_prime is not None
        beta = self.weight.weight(state.k, point.dtype)  # of the step that led here
        ahead = (1 - 1 / beta) * state.point + (1 / beta) * point
        inner = (1 - beta) * state.inner + beta * oracle.values(ahead, a_prime)
        gradient = oracle.pullback(point, a, oracle.outer_gradient(inner, b))
        return ExtrapolatedState(point, inner, gradient, state.k + 1)

    def gradient(self, state: ExtrapolatedState) -> Vector:
        return state.gradient
