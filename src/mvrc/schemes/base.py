"""What a scheme is: it moves x along an estimate and knows nothing of samples."""

import abc
from typing import Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp

from mvrc.oracle import Geometry, Vector
from mvrc.regularizers import Regularizer
from mvrc.support.numerics import divide


@runtime_checkable
class Penalty(Protocol):
    """r as a scheme sees it: at flat points."""

    def prox(self, point: Vector, step: Any) -> Vector:
        """prox_{step·r}(point), in the space of x."""
        ...

    def prox_of_image(self, image: Vector, step: Any) -> Vector:
        """For r(Ax) the prox of r alone, in the space of Ax."""
        ...


class Scheme(eqx.Module):
    """x ↦ x⁺ from v ≈ ∇F(z) at the scheme's own query point z; the state is a NamedTuple.

    `step_size` is the η by which gradient mappings are measured. A refresh happens at the anchor;
    a scheme that `refreshes_at_query` has it at its first query point, and saves a batch.
    """

    step_size: eqx.AbstractVar[float]
    refreshes_at_query: ClassVar[bool]
    takes_composed: ClassVar[bool] = False  # whether r may be r(Ax), without a prox in closed form

    def fitted(self, geometry: Geometry, regularizer: Regularizer) -> Any:
        """The scheme for an x of this layout; refuses what it cannot do, in a sentence."""
        return self

    @abc.abstractmethod
    def init(self, x: Vector) -> Any:
        """The state at x, also after a restart."""

    @abc.abstractmethod
    def begin(self, state: Any) -> Any:
        """The state at the start of an epoch."""

    @abc.abstractmethod
    def anchor(self, state: Any) -> Vector:
        """The point of a refresh."""

    @abc.abstractmethod
    def query(self, state: Any) -> Vector:
        """z, the point at which the estimator is asked."""

    @abc.abstractmethod
    def advance(self, state: Any, v: Vector, penalty: Penalty) -> Any:
        """The state after one step with v ≈ ∇F(query(state))."""

    @abc.abstractmethod
    def point(self, state: Any) -> Vector:
        """x, the current solution."""

    @abc.abstractmethod
    def restarts(self) -> tuple[str, int]:
        """("never" | "last" | "random", number of epochs between two restarts)."""


class PlainScheme(Scheme):
    """A scheme without epochs of its own, refreshed at its query."""

    refreshes_at_query: ClassVar[bool] = True

    def begin(self, state: Any) -> Any:
        return state

    def anchor(self, state: Any) -> Vector:
        return self.query(state)


def proximal_step(x: Vector, v: Vector, step: Any, epsilon: Any, penalty: Penalty) -> Vector:
    """x̃ = prox_{step·r}(x − step·v), or with ε the normalised x + θ(x̃ − x).

    θ = min{ε·step/‖x̃ − x‖, ½}; nothing is divided by zero when x̃ = x.
    """
    moved = penalty.prox(x - step * v, step)
    if epsilon is None:
        return moved
    direction = moved - x
    length = jnp.linalg.norm(direction)
    theta = divide(epsilon * step, length, 0.5)
    return x + jnp.minimum(theta, 0.5).astype(x.dtype) * direction
