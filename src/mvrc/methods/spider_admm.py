"""SPIDER+ADMM: for r(Ax)."""

from __future__ import annotations

from typing import ClassVar

from mvrc.estimators import Spider
from mvrc.methods.method import Method
from mvrc.methods.recipe import About, NamedRecipe, Start, jacobian, positive, recipe, size, step
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.regularizers import Composed
from mvrc.sampling import Sizes
from mvrc.schemes import AdmmScheme


@recipe
class SpiderADMM(NamedRecipe):
    """`Spider` × `AdmmScheme`, for a regulariser `Composed(r, A)` or any with a prox (A = I).

    Args:
        step_size: η; None: 1/(4L) with L estimated at x0.
        rho: ρ; 1/η by default.
        batch_size, outer_batch_size, period: ⌊√max(n, N)⌋ each by default.
        refresh_size, outer_refresh_size: every sample by default; required for streams.
        jacobian: "matrix", "free" or "auto" (the matrix unless it is too large).

    Examples:
        >>> method = mvrc.SpiderADMM(step_size=0.2, rho=1.0)
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="SPIDER+ADMM",
        reference="Wang, Nonconvex Stochastic Nested Optimization via Stochastic ADMM, 2019",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any with a prox, also r(Ax)",
        epoch="n + 2S(τ−1)",
        memory="p·d + 3d + 2m for A: R^d → R^m",
        complexity="E²: ε⁻³; Σ²: N + n + √(N + n) ε⁻²",
    )

    step_size: float | None = step()
    rho: float | None = positive()
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()
    refresh_size: int | None = size()
    outer_refresh_size: int | None = size()
    jacobian: str = jacobian()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        eta = self.step_size or start.step_size()
        regularizer = problem.regularizer
        operator = regularizer.operator if isinstance(regularizer, Composed) else None
        return Method(
            Spider(self.jacobian),
            AdmmScheme(eta, operator, self.rho or 1 / eta),
            Sizes(self.batch_size, None, self.outer_batch_size),
            Sizes(self.refresh_size, None, self.outer_refresh_size),
            self.period,
            "spider-admm",
        ).resolve(problem, geometry, start)
