"""Proximal gradient: plain, with falling steps, or normalised."""

from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Int

from mvrc.oracle import Vector
from mvrc.schedules import RESTARTS, Power
from mvrc.schemes.base import Penalty, PlainScheme, proximal_step
from mvrc.support import checks
from mvrc.support.numerics import NONE_YET


class ProximalState(NamedTuple):
    """The iterate."""

    x: Vector
    k: Int[Array, ""]  # steps made


class ProximalScheme(PlainScheme):
    """Query x; x⁺ = prox_{ηr}(x − ηv), or with ε: x̃ likewise and x⁺ = x + θ(x̃ − x).

    Args:
        step_size: η; with `decay` the step of k = 1, 2, … is η·decay(k).
        epsilon: ε of θ = min{εη/‖x̃ − x‖, ½}; None for θ = 1.
        decay: factors of the step size; None for a constant one.
        restart: "random" to start anew at a point drawn uniformly from those since the last start.
        restart_every: epochs between restarts.
    """

    step_size: float
    epsilon: float | None = None
    decay: Power | None = None
    restart: str = eqx.field(static=True, default="never")
    restart_every: int = eqx.field(static=True, default=1)

    def __check_init__(self) -> None:
        checks.choice("restart", self.restart, RESTARTS)
        checks.integer("restart_every", self.restart_every)

    def init(self, x: Vector) -> ProximalState:
        return ProximalState(x, NONE_YET)

    def query(self, state: ProximalState) -> Vector:
        return state.x

    def advance(self, state: ProximalState, v: Vector, penalty: Penalty) -> ProximalState:
        step = self.step_size
        if self.decay is not None:
            step = step * self.decay.at(state.k + 1, state.x.dtype)
        return ProximalState(proximal_step(state.x, v, step, self.epsilon, penalty), state.k + 1)

    def restarts(self) -> tuple[str, int]:
        return self.restart, self.restart_every

    def point(self, state: ProximalState) -> Vector:
        return state.x
