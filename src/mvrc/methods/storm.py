"""STORM-Compositional: recursive momentum with the normalised step."""

from __future__ import annotations

from typing import ClassVar

from mvrc.estimators import Storm
from mvrc.methods.base import About, Method, NamedRecipe, Start, recipe, single_loop, size, word
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.schedules import Power


@recipe
class STORM(NamedRecipe):
    """`Storm` × `ProximalScheme` with ε:

        uₜ = h(xₜ; A) + (1−aₜ)(uₜ₋₁ − h(xₜ₋₁; A)) for g, g' and ∇f;
        x̃ = prox_{ηr}(x − ηv);  x⁺ = x + θ(x̃ − x),  θ = min{εη/‖x̃ − x‖, ½}.

    Args:
        step_size: η, falling as k^(−step_decay). None: 1/(4L) with L estimated at x0.
        step_decay: 1/3 by default.
        forget: aₜ; `Power(1, 2/3)` by default.
        epsilon: ε of the normalised step; None for θ = 1.
        batch_size, outer_batch_size: samples of a step; 1 by default.
        period: steps of an epoch; one pass over the samples by default, to be given for streams.
        jacobian: "matrix", "free" or "auto".
    """

    about: ClassVar[About] = About(
        title="STORM-C",
        reference="Cutkosky & Orabona, Momentum-Based Variance Reduction in Non-Convex SGD, 2019; "
        "for composition Jiang et al., SMVR, 2022",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any with a prox (0 in its papers)",
        epoch="2Sτ",
        memory="p·d + 2d (matrix), p + 3d (free)",
        complexity="E²: ε⁻³ (its own papers)",
    )

    step_size: float | None = None
    step_decay: float = 1 / 3
    forget: Power = Power(1.0, 2 / 3)
    epsilon: float | None = 1.0
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()
    jacobian: str = word("auto")

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        return single_loop(
            self, "storm", Storm(self.forget, self.jacobian), problem, geometry, start,
            Power(1.0, self.step_decay), self.epsilon,
        )  # fmt: skip
