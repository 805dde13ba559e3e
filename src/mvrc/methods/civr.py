"""CIVR: SPIDER with plain proximal steps."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from mvrc.estimators import Spider
from mvrc.methods.base import About, Method, NamedRecipe, Start, recipe, refuse_unless, size, word
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.sampling import Sizes
from mvrc.schemes import ProximalScheme
from mvrc.theory import Constants


@recipe
class CIVR(NamedRecipe):
    """`Spider` × `ProximalScheme` for a single outer function:

        x⁺ = prox_{ηr}(x − ηv), v from SPIDER.

    Args:
        step_size: η; None: 1/(4L) with L estimated at x0.
        batch_size, period: S and τ, ⌈√n⌉ each by default.
        refresh_size: every sample by default, to be given for streams.
        jacobian: "matrix", "free" or "auto".
    """

    about: ClassVar[About] = About(
        title="CIVR",
        reference="Zhang & Xiao, A Stochastic Composite Gradient Method with Incremental Variance "
        "Reduction, 2019",
        problems="Σ¹ E¹",
        regularizer="any with a prox",
        epoch="n + 2S(τ−1)",
        memory="p·d + 2d (matrix), p + 3d (free)",
        complexity="Σ¹: n + √n ε⁻²; E¹: ε⁻³",
    )

    step_size: float | None = None
    batch_size: int | None = size()
    period: int | None = size()
    refresh_size: int | None = size()
    jacobian: str = word("auto")

    @classmethod
    def from_theory(cls, constants: Any, **options: Any) -> CIVR:
        """η = 4/(L_F + √(L_F² + 12G₀)), the step size of its paper; `options` are the others."""
        refuse_unless("constants", constants, Constants)
        smooth, growth = constants.L_F, constants.G_0
        return cls(step_size=4 / (smooth + math.sqrt(smooth**2 + 12 * growth)), **options)

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        if problem.two_level:
            raise ValueError(
                f"CIVR is for a single outer function and this problem is {problem.kind}; use "
                f"'mvrc', 'nested-spider' or 'sarah-c'."
            )
        root = None if problem.n is None else math.ceil(math.sqrt(problem.n))
        return Method(
            Spider(self.jacobian),
            ProximalScheme(self.step_size or start.step_size()),
            Sizes(self.batch_size or root),
            Sizes(self.refresh_size),
            self.period or root,
            "civr",
        ).resolve(problem, geometry, start)
