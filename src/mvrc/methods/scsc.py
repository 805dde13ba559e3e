"""SCSC: a corrected average of g."""

from __future__ import annotations

from typing import ClassVar

from mvrc.estimators import Scsc
from mvrc.methods.defaults import single_loop
from mvrc.methods.method import Method
from mvrc.methods.recipe import About, NamedRecipe, Start, flag, fraction, power, recipe, size, step
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.schedules import Power


@recipe
class SCSC(NamedRecipe):
    """`Scsc` × `ProximalScheme` with falling steps:

        yₜ₊₁ = g_A(xₜ) + (1−βₜ)(yₜ − g_A(xₜ₋₁)),   xₜ₊₁ = prox(xₜ − αₜ g'_A(xₜ)ᵀ∇f_B(yₜ₊₁)).

    Args:
        step_size: η; αₖ = η·k^(−step_decay). None: 1/(4L) with L estimated at x0.
        weight: βₜ; `Power(1, 1/2)` by default, k^(−1/2). A number is a constant β, with which the
            bias of g'_A and g_A from one batch never vanishes.
        step_decay: 1/2 by default, for the α ~ 1/√K of its paper.
        batch_size, outer_batch_size: samples of a step; 1 by default.
        period: steps of an epoch; one pass over the samples by default; required for streams.
        independent: whether g' has a separate batch A'; a variant without that bias, not in the
            paper.

    Examples:
        >>> method = mvrc.SCSC(step_size=0.3, batch_size=20)
        >>> round(mvrc.minimize(problem, x0, method, epochs=20).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="SCSC",
        reference="Chen, Sun & Yin, Solving Stochastic Compositional Optimization is Nearly as "
        "Easy as Solving Stochastic Optimization, 2021",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any with a prox (0 in its paper)",
        epoch="2Sτ values, Sτ Jacobians",
        memory="p + 3d",
        complexity="E²: ε⁻⁴ (its own paper)",
    )

    step_size: float | None = step()
    weight: Power = power(Power(1.0, 1 / 2))
    step_decay: float = fraction(1 / 2)
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()
    independent: bool = flag(False)

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        estimator = Scsc(self.weight, self.independent)
        decay = Power(1.0, self.step_decay)
        return single_loop(self, "scsc", estimator, problem, geometry, start, decay)
