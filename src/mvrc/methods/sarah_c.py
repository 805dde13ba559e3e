"""SARAH-Compositional: one recursion for the composed gradient."""

from __future__ import annotations

from typing import ClassVar

from mvrc.estimators import Sarah
from mvrc.methods.method import Method
from mvrc.methods.recipe import About, NamedRecipe, Start, recipe, size, step
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.sampling import Sizes
from mvrc.schemes import ProximalScheme


@recipe
class SARAHC(NamedRecipe):
    """`Sarah` × `ProximalScheme`: x⁺ = prox_{ηr}(x − ηF); the paper has r = 0.

    Args:
        step_size: η; None: 1/(4L) with L estimated at x0.
        batch_size, outer_batch_size: ⌊√max(n, N)⌋ each by default.
        period: q = (2n + N)/3 in the paper, with single samples; here ⌊√max(n, N)⌋ with the batches
            above, about max(n, N) samples from refresh to refresh.
        refresh_size, outer_refresh_size: every sample by default; required for streams.

    Examples:
        >>> method = mvrc.SARAHC(step_size=0.2)
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="SARAH-Compositional",
        reference="Yuan et al., Efficient Smooth Non-Convex Stochastic Compositional "
        "Optimization via Stochastic Recursive Gradient Descent, 2019",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any with a prox (0 in its paper)",
        epoch="n + 2S(τ−1)",
        memory="p·d + 3d",
        complexity="E²: ε⁻³; Σ²: N + n + √(N + n) ε⁻² (r = 0)",
    )

    step_size: float | None = step()
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()
    refresh_size: int | None = size()
    outer_refresh_size: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        return Method(
            Sarah(),
            ProximalScheme(self.step_size or start.step_size()),
            Sizes(self.batch_size, None, self.outer_batch_size),
            Sizes(self.refresh_size, None, self.outer_refresh_size),
            self.period,
            "sarah-c",
        ).resolve(problem, geometry, start)
