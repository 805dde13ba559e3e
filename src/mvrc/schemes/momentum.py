"""The MVRC momentum: lines 3 and 12 to 14 of Algorithm 1, and of Algorithm 2 with ε."""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from mvrc.oracle import Vector
from mvrc.schedules import MomentumSchedule
from mvrc.schemes.base import Penalty, Scheme, proximal_step
from mvrc.support.numerics import NONE_YET


class MomentumState(NamedTuple):
    """The paper's pair of sequences."""

    x: Vector  # xₜ
    y: Vector  # yₜ
    t: Int[Array, ""]  # steps since the last restart


class MomentumScheme(Scheme):
    """zₜ = (1 − αₜ₊₁)yₜ + αₜ₊₁xₜ                       (query)
    xₜ₊₁ = prox_{λₜr}(xₜ − λₜvₜ)                        (MVRC-1)
    x̃ₜ₊₁ = the same, xₜ₊₁ = (1 − θₜ)xₜ + θₜx̃ₜ₊₁,
        θₜ = min{ελₜ/‖x̃ₜ₊₁ − xₜ‖, ½}                   (MVRC-2)
    yₜ₊₁ = zₜ + (βₜ/λₜ)(xₜ₊₁ − xₜ),   y₀ = x₀.

    One prox per step. Without ε, θ ≡ 1 as in the paper's experiments.

    Args:
        step_size: η; βₜ and λₜ are the schedule's factors times η.
        momentum: the schedule.
        epsilon: ε of the normalised step, or None.
    """

    refreshes_at_query: ClassVar[bool] = True

    step_size: float
    momentum: MomentumSchedule
    epsilon: float | None = None

    def init(self, x: Vector) -> MomentumState:
        return MomentumState(x, x, NONE_YET)

    def begin(self, state: MomentumState) -> MomentumState:
        return state

    def anchor(self, state: MomentumState) -> Vector:
        return self.query(state)

    def query(self, state: MomentumState) -> Vector:
        # t as a floating-point number: schedules divide by it, and int32 would divide in float32.
        alpha = _like(self.momentum.alpha(_like(state.t + 1, state.x)), state.x)
        return (1 - alpha) * state.y + alpha * state.x

    def advance(self, state: MomentumState, v: Vector, penalty: Penalty) -> MomentumState:
        t = _like(state.t, state.x)
        beta = self.step_size * _like(self.momentum.beta(t), state.x)
        lam = self.step_size * _like(self.momentum.lam(t), state.x)
        x = proximal_step(state.x, v, lam, self.epsilon, penalty)
        y = self.query(state) + (beta / lam) * (x - state.x)
        return MomentumState(x, y, state.t + 1)

    def point(self, state: MomentumState) -> Vector:
        return state.x

    def restarts(self) -> tuple[str, int]:
        return self.momentum.restart, self.momentum.restart_every


def _like(number: Any, vector: Vector) -> Any:
    """A schedule's number in the dtype of the iterates."""
    return jnp.asarray(number).astype(vector.dtype)
