"""Nested-SPIDER: SPIDER on two levels with normalised proximal steps."""

from __future__ import annotations

from typing import ClassVar

from mvrc.estimators import Spider
from mvrc.methods.method import Method
from mvrc.methods.recipe import About, NamedRecipe, Start, epsilon, jacobian, recipe, size, step
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.sampling import Sizes
from mvrc.schemes import ProximalScheme


@recipe
class NestedSpider(NamedRecipe):
    """`Spider` (A, A', B independent) × `ProximalScheme` with ε:

        x̃ = prox_{ηr}(x − ηv);  x⁺ = x + θ(x̃ − x),  θ = min{εη/‖x̃ − x‖, ½}.

    Args:
        step_size: η; None: 1/(4L) with L estimated at x0.
        epsilon: ε, part of the method; "auto" is `RELATIVE_EPSILON` times ‖𝒢(x0)‖, measured in one
            pass; None for θ ≡ 1.
        batch_size, outer_batch_size, period: ⌊√max(n, N)⌋ each by default.
        refresh_size, outer_refresh_size: every sample by default; required for streams.
        jacobian: "matrix", "free" or "auto" (the matrix unless it is too large).

    Examples:
        >>> method = mvrc.NestedSpider(step_size=0.2)
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="Nested-SPIDER",
        reference="Zhang & Xiao, Multi-Level Composite Stochastic Optimization via Nested Variance "
        "Reduction, 2019",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any with a prox",
        epoch="n + 2S(τ−1)",
        memory="p·d + 3d (matrix), p + 3d (free)",
        complexity="E²: ε⁻³; Σ²: N + n + √max(N, n) ε⁻²",
    )

    step_size: float | None = step()
    epsilon: float | str | None = epsilon("auto")
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()
    refresh_size: int | None = size()
    outer_refresh_size: int | None = size()
    jacobian: str = jacobian()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        step = self.step_size or start.step_size()
        return Method(
            Spider(self.jacobian),
            ProximalScheme(step, start.epsilon(self.epsilon, step)),
            Sizes(self.batch_size, None, self.outer_batch_size),
            Sizes(self.refresh_size, None, self.outer_refresh_size),
            self.period,
            "nested-spider",
        ).resolve(problem, geometry, start)
