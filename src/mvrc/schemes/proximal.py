"""Proximal gradient, plain or normalised: the scheme of CIVR and Nested-SPIDER."""

from __future__ import annotations

from typing import NamedTuple

from mvrc.oracle import Vector
from mvrc.schemes.base import Prox, Scheme, proximal_step


class ProximalState(NamedTuple):
    """The iterate."""

    x: Vector


class ProximalScheme(Scheme):
    """Query x; x⁺ = prox_{ηr}(x − ηv), or with ε: x̃ likewise and x⁺ = x + θ(x̃ − x).

    Args:
        step_size: η.
        epsilon: ε of θ = min{εη/‖x̃ − x‖, ½}; None for θ = 1.
    """

    step_size: float
    epsilon: float | None = None

    def start(self, x: Vector) -> ProximalState:
        return ProximalState(x)

    def query(self, state: ProximalState) -> Vector:
        return state.x

    def advance(self, state: ProximalState, v: Vector, prox: Prox) -> ProximalState:
        return ProximalState(proximal_step(state.x, v, self.step_size, self.epsilon, prox))

    def point(self, state: ProximalState) -> Vector:
        return state.x

    def restarts(self) -> tuple[str, int]:
        return "never", 1
