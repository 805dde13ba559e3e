"""NASA: nested averages with a single time scale."""

from __future__ import annotations

from typing import ClassVar

from mvrc.estimators import Nasa
from mvrc.methods.defaults import single_sizes
from mvrc.methods.method import Method
from mvrc.methods.recipe import About, NamedRecipe, Start, positive, power, recipe, size, step
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.schedules import Power
from mvrc.schemes import AveragingScheme


@recipe
class NASA(NamedRecipe):
    """`Nasa` × `AveragingScheme`:

        y = prox_{ηr}(xₖ − ηzₖ),  xₖ₊₁ = xₖ + τₖ(y − xₖ),
        zₖ₊₁ = (1−aτₖ)zₖ + aτₖ g'(xₖ₊₁)ᵀ∇f(uₖ),  uₖ₊₁ = (1−bτₖ)uₖ + bτₖ g(xₖ₊₁).

    Args:
        step_size: η = 1/β; None: 1/(4L) with L estimated at x0.
        tau: τₖ; `Power(1, 1/2)` by default.
        a, b: factors of the weights.
        batch_size, outer_batch_size: samples of a step; 1 by default.
        period: steps of an epoch; one pass over the samples by default; required for streams.

    Examples:
        >>> method = mvrc.NASA(step_size=0.5, batch_size=20)
        >>> round(mvrc.minimize(problem, x0, method, epochs=20).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="NASA",
        reference="Ghadimi, Ruszczyński & Wang, A Single Timescale Stochastic Approximation Method "
        "for Nested Stochastic Optimization, 2020",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any with a prox (a convex set in its paper)",
        epoch="Sτ",
        memory="p + 3d",
        complexity="E²: ε⁻⁴ (its own paper)",
    )

    step_size: float | None = step()
    tau: Power = power(Power(1.0, 1 / 2))
    a: float = positive(1.0)
    b: float = positive(1.0)
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        return Method(
            Nasa(self.tau, self.a, self.b),
            AveragingScheme(self.step_size or start.step_size(), self.tau),
            *single_sizes(self.batch_size, self.outer_batch_size, problem),
            self.period,
            "nasa",
        ).resolve(problem, geometry, start)
