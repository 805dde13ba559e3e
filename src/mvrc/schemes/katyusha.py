"""Katyusha momentum for composition (Allen-Zhu, 2017; Xu & Xu, 2019)."""

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

from mvrc.oracle import Vector
from mvrc.schemes.base import Penalty, Scheme


class KatyushaState(NamedTuple):
    """The three sequences, and the average that becomes the next snapshot."""

    snapshot: Vector  # x̃
    y: Vector
    z: Vector
    total: Vector  # Σ(1+θ)ʲ yⱼ₊₁ of this epoch
    weight: Any  # Σ(1+θ)ʲ
    power: Any  # (1+θ)ʲ


class KatyushaScheme(Scheme):
    """Query xₖ = τ₁zₖ + τ₂x̃ + (1−τ₁−τ₂)yₖ, then with v ≈ ∇F(xₖ)

        zₖ₊₁ = prox_{αr}(zₖ − αv),   yₖ₊₁ = prox_{r/(3L)}(xₖ − v/(3L)),

    and at the end of an epoch x̃ = Σ(1+θ)ʲyⱼ₊₁ / Σ(1+θ)ʲ. Two prox per step; 1/(3L) = η. The refresh
    is at x̃, which is not where the first step queries.

    Args:
        step_size: η = 1/(3L).
        alpha: α; η when None.
        tau1, tau2: weights of z and of x̃.
        theta: growth θ of the weights within an epoch.
    """

    refreshes_at_query: ClassVar[bool] = False

    step_size: float
    theta: float
    alpha: float | None = None
    tau1: float = 0.4
    tau2: float = 0.4

    def init(self, x: Vector) -> KatyushaState:
        zero = jnp.zeros((), x.dtype)
        return KatyushaState(x, x, x, jnp.zeros_like(x), zero, zero + 1)

    def begin(self, state: KatyushaState) -> KatyushaState:
        fresh = self.init(self.point(state))
        return fresh._replace(y=state.y, z=state.z)

    def anchor(self, state: KatyushaState) -> Vector:
        return state.snapshot

    def query(self, state: KatyushaState) -> Vector:
        rest = 1 - self.tau1 - self.tau2
        return self.tau1 * state.z + self.tau2 * state.snapshot + rest * state.y

    def advance(self, state: KatyushaState, v: Vector, penalty: Penalty) -> KatyushaState:
        alpha = self.step_size if self.alpha is None else self.alpha
        z = penalty.prox(state.z - alpha * v, alpha)
        y = penalty.prox(self.query(state) - self.step_size * v, self.step_size)
        return KatyushaState(
            state.snapshot,
            y,
            z,
            state.total + state.power * y,
            state.weight + state.power,
            state.power * (1 + self.theta),
        )

    def point(self, state: KatyushaState) -> Vector:
        """The average of the epoch so far; x̃ before its first step."""
        made = state.weight > 0
        average = state.total / jnp.where(made, state.weight, 1)[..., None]
        return jnp.where(made[..., None], average, state.snapshot)

    def restarts(self) -> tuple[str, int]:
        return "never", 1
