"""SCSC: an average of g corrected for the move of x (Chen, Sun & Yin, 2021)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from mvrc.estimators.base import Estimator, three_batches
from mvrc.oracle import Oracle, Vector


class ScscState(NamedTuple):
    """The corrected average and the estimate."""

    point: Vector  # xₜ
    inner: Vector  # yₜ₊₁ ≈ g(xₜ)
    gradient: Vector  # v


class Scsc(Estimator):
    """yₜ₊₁ = g_A(xₜ) + (1−β)(yₜ − g_A(xₜ₋₁)), the same A at both points;

        estimate g'_A(xₜ)ᵀ∇f_B(yₜ₊₁).

    Args:
        weight: β in [0, 1].
    """

    refreshes: ClassVar[bool] = False

    weight: float

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values", "outer") if two_level else ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> ScscState:
        a, _, b = three_batches(oracle)
        inner, pull = oracle.values_and_pullback(point, a)
        return ScscState(point, inner, pull(oracle.outer_gradient(inner, b)))

    def update(self, oracle: Oracle, state: ScscState, point: Vector) -> ScscState:
        a, _, b = three_batches(oracle)
        value, pull = oracle.values_and_pullback(point, a)
        inner = value + (1 - self.weight) * (state.inner - oracle.values(state.point, a))
        return ScscState(point, inner, pull(oracle.outer_gradient(inner, b)))

    def gradient(self, state: ScscState) -> Vector:
        return state.gradient
