"""ADMM for r(Ax): the constraint Ax = y with a multiplier (Wang et al., 2019)."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from mvrc.oracle import Vector
from mvrc.regularizers import LinearOperator
from mvrc.regularizers.blocks import Stacked
from mvrc.schemes.base import Penalty, PlainScheme


class AdmmState(NamedTuple):
    """Primal points and multiplier."""

    x: Vector
    y: Vector  # ≈ Ax, where r is applied
    u: Vector  # multiplier of Ax = y


class AdmmScheme(PlainScheme):
    """Query x, then with v ≈ ∇F(x)

        y⁺ = prox_{r/ρ}(Ax − u/ρ)
        x⁺ = x − (η/γ)(v − Aᵀu + ρAᵀ(Ax − y⁺)),   γ = 1 + ηρ‖A‖²
        u⁺ = u − ρ(Ax⁺ − y⁺).

    Args:
        step_size: η.
        operator: A; None for the identity.
        rho: ρ, the weight of the constraint.
    """

    takes_composed: ClassVar[bool] = True

    step_size: float
    operator: LinearOperator | Stacked | None
    rho: float

    def init(self, x: Vector) -> AdmmState:
        image = self._apply(x)
        return AdmmState(x, image, jnp.zeros_like(image))

    def query(self, state: AdmmState) -> Vector:
        return state.x

    def advance(self, state: AdmmState, v: Vector, penalty: Penalty) -> AdmmState:
        eta, rho = self.step_size, self.rho
        norm = 1.0 if self.operator is None else self.operator.norm_squared
        gamma = 1 + eta * rho * norm
        image = self._apply(state.x)
        y = penalty.prox_of_image(image - state.u / rho, 1 / rho)
        slope = v - self._adjoint(state.u - rho * (image - y))
        x = state.x - (eta / gamma) * slope
        return AdmmState(x, y, state.u - rho * (self._apply(x) - y))

    def restarts(self) -> tuple[str, int]:
        return "never", 1

    def point(self, state: AdmmState) -> Vector:
        """x; where A is the identity y, which r's prox keeps sparse or feasible."""
        return state.y if self.operator is None else state.x

    def _apply(self, x: Vector) -> Vector:
        return x if self.operator is None else self.operator.apply(x)

    def _adjoint(self, u: Vector) -> Vector:
        return u if self.operator is None else self.operator.adjoint(u)
