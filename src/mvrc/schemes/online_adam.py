"""Adam for streams: steps of one length that adapt to each coordinate, and their average."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int

from mvrc.oracle import Vector
from mvrc.schemes.base import Penalty, PlainScheme
from mvrc.support.numerics import NONE_YET, divide

FIRST, SECOND = 0.9, 0.999  # β₁, β₂


class OnlineAdamState(NamedTuple):
    """Two sequences and what they are scaled by."""

    z: Vector  # the steps
    x: Vector  # their average, the solution
    mean: Vector  # running mean of v
    squares: Vector  # of v², of each coordinate or, with a regulariser, of all
    k: Int[Array, ""]  # steps made


class OnlineAdamScheme(PlainScheme):
    """Query z; with m ← β₁m + (1 − β₁)v and s ← β₂s + (1 − β₂)v²,

        z⁺ = prox(z − η·m̂/√ŝ),   x⁺ = x + 2/(k + 2)·(z⁺ − x)

    (Kingma & Ba, Adam, 2015; weights k of the average after Lacoste-Julien, Schmidt & Bach, 2012).
    Near a strong minimum z stays as far as η and the noise keep it, and x goes on like 1/√k. With a
    regulariser s is one number for all coordinates, as a prox knows no other metric.

    Args:
        rate: η, in units of x.
        step_size: λ at which gradient mappings are measured.
        scalar: whether s is one number.
    """

    rate: float
    step_size: float
    scalar: bool = eqx.field(static=True)

    def init(self, x: Vector) -> OnlineAdamState:
        x = jnp.asarray(x)
        nothing = jnp.zeros_like(x)
        squares = jnp.zeros((), x.dtype) if self.scalar else nothing
        return OnlineAdamState(x, x, nothing, squares, NONE_YET)

    def query(self, state: OnlineAdamState) -> Vector:
        return state.z

    def advance(self, state: OnlineAdamState, v: Vector, penalty: Penalty) -> OnlineAdamState:
        k = state.k + 1
        t = k.astype(v.dtype)
        mean = FIRST * state.mean + (1 - FIRST) * v
        new = jnp.mean(v**2) if self.scalar else v**2
        squares = SECOND * state.squares + (1 - SECOND) * new
        root = jnp.sqrt(squares / (1 - SECOND**t))
        scaled = divide(self.rate * jnp.ones_like(root), root, 0.0)
        z = state.z - scaled * mean / (1 - FIRST**t)
        if self.scalar:
            z = penalty.prox(z, scaled)
        x = state.x + 2 / (t + 1) * (z - state.x)
        return OnlineAdamState(z, x, mean, squares, k)

    def restarts(self) -> tuple[str, int]:
        return "never", 1

    def point(self, state: OnlineAdamState) -> Vector:
        return state.x
