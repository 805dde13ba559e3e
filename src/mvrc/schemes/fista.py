"""FISTA with adaptive restart (Beck & Teboulle, 2009; O'Donoghue & Candès, 2015)."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from mvrc.oracle import Vector
from mvrc.schemes.base import Penalty, PlainScheme
from mvrc.support.numerics import extrapolate


class FistaState(NamedTuple):
    """The iterate and its extrapolation."""

    x: Vector  # xₖ
    y: Vector  # where the gradient is taken
    t: Any  # momentum number tₖ, a scalar


class FistaScheme(PlainScheme):
    """Query y; x⁺ = prox_{ηr}(y − ηv), t⁺ = (1 + √(1 + 4t²))/2, y⁺ = x⁺ + ((t − 1)/t⁺)(x⁺ − x).

    When the momentum points uphill, ⟨y − x⁺, x⁺ − x⟩ > 0, it starts anew: t⁺ = 1, y⁺ = x⁺.

    Args:
        step_size: η, at most 1/L.
    """

    step_size: float

    def init(self, x: Vector) -> FistaState:
        return FistaState(x, x, jnp.ones((), x.dtype))

    def query(self, state: FistaState) -> Vector:
        return state.y

    def advance(self, state: FistaState, v: Vector, penalty: Penalty) -> FistaState:
        x = penalty.prox(state.y - self.step_size * v, self.step_size)
        uphill = jnp.vdot(state.y - x, x - state.x)
        return FistaState(x, *extrapolate(x, state.x, state.t, uphill))

    def restarts(self) -> tuple[str, int]:
        return "never", 1

    def point(self, state: FistaState) -> Vector:
        return state.x
