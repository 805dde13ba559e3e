"""The exact gradient, a full pass at every step: what the deterministic references use."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from mvrc.estimators.base import Estimator
from mvrc.oracle import Oracle, Vector


class ExactState(NamedTuple):
    """∇F at the last query point."""

    gradient: Vector


class Exact(Estimator):
    """v = ∇F(z) = g'(z)ᵀ∇f(g(z)) over every sample (of a stream: its evaluation batch)."""

    refreshes: ClassVar[bool] = False

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ()

    def refresh(self, oracle: Oracle, point: Vector) -> ExactState:
        return ExactState(point)  # no gradient is asked for before the first update

    def update(self, oracle: Oracle, state: ExactState, point: Vector) -> ExactState:
        inside, outside = oracle.batch("everything"), oracle.batch("everything outside")
        assert inside is not None
        inner, pull = oracle.values_and_pullback(point, inside)
        return ExactState(pull(oracle.outer_gradient(inner, outside)))

    def gradient(self, state: ExactState) -> Vector:
        return state.gradient
