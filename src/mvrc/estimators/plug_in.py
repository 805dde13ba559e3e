"""The plug-in: the gradient of a batch's own value, nothing is kept."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from mvrc.estimators.base import Estimator, three_batches
from mvrc.oracle import Oracle, Vector


class PlugInState(NamedTuple):
    """The estimate at the last query point."""

    gradient: Vector


class PlugIn(Estimator):
    """v = g'_A(x)ᵀ∇f_B(g_A(x)), of a coupled problem the mean over B₁ of gₖ'(x)ᵀ∇fₖ(gₖ(x)) with gₖ
    the mean over |B₂| inner samples (BSGD: Hu, Zhang, Chen & He, Biased Stochastic First-Order
    Methods for Conditional Stochastic Optimization, 2020).

    Where f is curved its mean is not ∇F: the error falls like 1/|A|, or 1/|B₂|, and stays.
    """

    refreshes: ClassVar[bool] = False

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values", "outer") if two_level else ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> PlugInState:
        return PlugInState(point)  # no gradient is asked for before the first update

    def update(self, oracle: Oracle, state: PlugInState, point: Vector) -> PlugInState:
        a, _, b = three_batches(oracle)
        inner, pull = oracle.values_and_pullback(point, a)
        return PlugInState(pull(oracle.outer_gradient(inner, b)))

    def gradient(self, state: PlugInState) -> Vector:
        return state.gradient
