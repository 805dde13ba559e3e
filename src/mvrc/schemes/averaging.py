"""The averaging step of NASA."""

from typing import NamedTuple

from jaxtyping import Array, Int

from mvrc.oracle import Vector
from mvrc.schedules import Power
from mvrc.schemes.base import Penalty, PlainScheme
from mvrc.support.numerics import NONE_YET


class AveragingState(NamedTuple):
    """The iterate."""

    x: Vector
    k: Int[Array, ""]  # steps made


class AveragingScheme(PlainScheme):
    """y = prox_{r/β}(x − z/β);  x⁺ = x + τₖ(y − x), with z the estimate and β = 1/η.

    Args:
        step_size: η = 1/β.
        tau: τₖ for k = 1, 2, …, cut at 1.
    """

    step_size: float
    tau: Power

    def init(self, x: Vector) -> AveragingState:
        return AveragingState(x, NONE_YET)

    def query(self, state: AveragingState) -> Vector:
        return state.x

    def advance(self, state: AveragingState, v: Vector, penalty: Penalty) -> AveragingState:
        y = penalty.prox(state.x - self.step_size * v, self.step_size)
        tau = self.tau.weight(state.k + 1, state.x.dtype)
        return AveragingState(state.x + tau * (y - state.x), state.k + 1)

    def restarts(self) -> tuple[str, int]:
        return "never", 1

    def point(self, state: AveragingState) -> Vector:
        return state.x
