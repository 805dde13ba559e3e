"""What a scheme is: it moves x along an estimate and knows nothing of samples."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from mvrc.oracle import Vector

Prox = Callable[[Vector, Any], Vector]


class Scheme(eqx.Module):
    """x ↦ x⁺ from v ≈ ∇F(z) at the scheme's own query point z; the state is a NamedTuple.

    `step_size` is the η by which gradient mappings are measured.
    """

    step_size: eqx.AbstractVar[float]

    @abc.abstractmethod
    def start(self, x: Vector) -> Any:
        """The state at x, also after a restart."""

    @abc.abstractmethod
    def query(self, state: Any) -> Vector:
        """z, the point at which the estimator is asked."""

    @abc.abstractmethod
    def advance(self, state: Any, v: Vector, prox: Prox) -> Any:
        """The state after one step with v ≈ ∇F(query(state))."""

    @abc.abstractmethod
    def point(self, state: Any) -> Vector:
        """x, the current solution."""

    @abc.abstractmethod
    def restarts(self) -> tuple[str, int]:
        """("never" | "last" | "random", number of epochs between two restarts)."""


def proximal_step(x: Vector, v: Vector, step: Any, epsilon: Any, prox: Prox) -> Vector:
    """x̃ = prox_{step·r}(x − step·v), or with ε the normalised x + θ(x̃ − x).

    θ = min{ε·step/‖x̃ − x‖, ½}; nothing is divided by zero when x̃ = x.
    """
    moved = prox(x - step * v, step)
    if epsilon is None:
        return moved
    direction = moved - x
    length = jnp.linalg.norm(direction)
    theta = jnp.where(length > 0, epsilon * step / jnp.where(length > 0, length, 1), 0.5)
    return x + jnp.minimum(theta, 0.5).astype(x.dtype) * direction
