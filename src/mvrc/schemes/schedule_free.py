"""Schedule-free Adam: steps that adapt to each coordinate, and their average."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int

from mvrc.oracle import Vector
from mvrc.schemes.base import Penalty, PlainScheme
from mvrc.support.numerics import NONE_YET, divide

INTERPOLATION = 0.9  # β: the query point is β of the way from z to the average
SECOND = 0.999  # β₂
WARM_UP = 100  # steps over which the step size rises from 0
LONGEST = 2.0  # times the usual length: a longer estimate is cut to that
MEMORY = 0.02  # of the running mean of the logarithm of the length
TINY = 1e-30


class ScheduleFreeState(NamedTuple):
    """Two sequences and what they are scaled by."""

    z: Vector  # the steps
    x: Vector  # their average, the solution
    squares: Vector  # running mean of v², of each coordinate or, with a regulariser, of all
    weight: Array  # sum of the weights of the average
    length: Array  # running mean of log ‖v‖
    k: Int[Array, ""]  # steps made


class ScheduleFreeScheme(PlainScheme):
    """Query y = (1 − β)z + βx; with l = η·min(1, k/100) and s ← β₂s + (1 − β₂)v²,

        z⁺ = prox(z − l·v/√ŝ),   x⁺ = (1 − c)x + cz⁺,   c = l²/Σl²

    (Defazio et al., The Road Less Scheduled, 2024). With a regulariser s is one number for all
    coordinates, as a prox knows no other metric. An estimate longer than twice its running
    geometric mean is cut to that.

    Args:
        rate: η, in units of x.
        step_size: λ at which gradient mappings are measured.
        cut: whether long estimates are cut; not where batches are so small that the rows that
            matter are rare.
        scalar: whether s is one number.
    """

    rate: float
    step_size: float
    cut: bool = eqx.field(static=True)
    scalar: bool = eqx.field(static=True)

    def init(self, x: Vector) -> ScheduleFreeState:
        x = jnp.asarray(x)
        zero = jnp.zeros((), x.dtype)
        squares = zero if self.scalar else jnp.zeros_like(x)
        return ScheduleFreeState(x, x, squares, zero, zero, NONE_YET)

    def query(self, state: ScheduleFreeState) -> Vector:
        return (1 - INTERPOLATION) * state.z + INTERPOLATION * state.x

    def advance(self, state: ScheduleFreeState, v: Vector, penalty: Penalty) -> ScheduleFreeState:
        k = state.k + 1
        length = state.length
        if self.cut:
            own = jnp.log(jnp.linalg.norm(v) + TINY)
            usual = jnp.where(state.k == 0, own, state.length)
            least = jnp.minimum(own, usual + jnp.log(LONGEST).astype(v.dtype))
            v = v * jnp.exp(least - own)
            length = usual + MEMORY * (least - usual)
        new = jnp.mean(v**2) if self.scalar else v**2
        squares = SECOND * state.squares + (1 - SECOND) * new
        root = jnp.sqrt(squares / (1 - SECOND ** k.astype(v.dtype)))
        step = self.rate * jnp.minimum(1, k / WARM_UP).astype(v.dtype)
        scaled = divide(step * jnp.ones_like(root), root, 0.0)
        z = state.z - scaled * v
        if self.scalar:
            z = penalty.prox(z, scaled)
        weight = state.weight + step**2
        c = step**2 / weight
        return ScheduleFreeState(z, (1 - c) * state.x + c * z, squares, weight, length, k)

    def restarts(self) -> tuple[str, int]:
        return "never", 1

    def point(self, state: ScheduleFreeState) -> Vector:
        return state.x
