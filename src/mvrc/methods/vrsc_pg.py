"""VRSC-PG: SVRG with proximal steps."""

from __future__ import annotations

import math
from typing import ClassVar

from mvrc.estimators import Svrg
from mvrc.methods.method import Method, finite
from mvrc.methods.recipe import About, NamedRecipe, Start, recipe, size, step
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.sampling import Sizes
from mvrc.schemes import ProximalScheme


@recipe
class VRSCPG(NamedRecipe):
    """`Svrg` × `ProximalScheme`: x⁺ = prox_{ηr}(x − ηv), snapshot at the start of every epoch.

    Args:
        step_size: η; None: 1/(4L) with L estimated at x0.
        batch_size, outer_batch_size: ⌈(n + N)^(2/3)⌉ by default, at most n and N.
        period: ⌈(n + N)^(1/3)⌉ by default.

    Examples:
        >>> method = mvrc.VRSCPG(step_size=0.2)
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="VRSC-PG",
        reference="Huo, Gu, Liu & Huang, Accelerated Method for Stochastic Composition "
        "Optimization with Nonsmooth Regularization, 2018",
        problems="Σ¹ Σ²",
        regularizer="any with a prox",
        epoch="n + 2S(τ−1)",
        memory="p·d + 4d",
        complexity="Σ²: N + n + (N + n)^(2/3) ε⁻²",
    )

    step_size: float | None = step()
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        n, N = finite("VRSC-PG", problem)
        total = n + N if problem.two_level else n
        batch = math.ceil(total ** (2 / 3))
        outer = min(batch, N) if problem.two_level else None
        return Method(
            Svrg(),
            ProximalScheme(self.step_size or start.step_size()),
            Sizes(self.batch_size or min(batch, n), None, self.outer_batch_size or outer),
            Sizes(),
            self.period or math.ceil(total ** (1 / 3)),
            "vrsc-pg",
        ).resolve(problem, geometry, start)
