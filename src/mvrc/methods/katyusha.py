"""Katyusha for composition: SVRG with the Katyusha momentum."""

from __future__ import annotations

from typing import ClassVar

from mvrc.estimators import Svrg
from mvrc.methods.method import Method, finite, root_size
from mvrc.methods.recipe import About, NamedRecipe, Start, fraction, positive, recipe, size, step
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.sampling import Sizes
from mvrc.schemes import KatyushaScheme


@recipe
class Katyusha(NamedRecipe):
    """`Svrg` × `KatyushaScheme`, with the parameters that the MVRC paper runs:

        τ₁ = τ₂ = 0.4,  L = 1/(3η),  α = η,  θ = 1/(12τ).

    Args:
        step_size: η = 1/(3L); None: 1/(4L) with L estimated at x0.
        batch_size, outer_batch_size: ⌊√max(n, N)⌋ each by default, at most n and N.
        period: τ, ⌊√max(n, N)⌋ by default.
        alpha: α of the z step; η by default.
        tau1, tau2: weights of z and of the snapshot.
        theta: growth of the weights in an epoch; 1/(12τ) by default.

    Examples:
        >>> method = mvrc.Katyusha(step_size=0.2)
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="Katyusha",
        reference="Xu & Xu, Katyusha Acceleration for Convex Finite-Sum Compositional "
        "Optimization, 2019",
        problems="Σ¹ Σ² (convex theory)",
        regularizer="any with a prox; two prox per step",
        epoch="n + 2Sτ",
        memory="p·d + 7d",
        complexity="convex problems only",
    )

    step_size: float | None = step()
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()
    alpha: float | None = positive()
    tau1: float = fraction(0.4)
    tau2: float = fraction(0.4)
    theta: float | None = positive()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        finite("Katyusha", problem)
        if self.tau1 + self.tau2 > 1:
            raise ValueError(
                f"tau1 + tau2 is {self.tau1 + self.tau2:g}; these weights must add up to at most 1."
            )
        period = self.period or root_size(problem)
        assert period is not None
        eta, theta = self.step_size or start.step_size(), self.theta or 1 / (12 * period)
        return Method(
            Svrg(),
            KatyushaScheme(eta, theta, self.alpha, self.tau1, self.tau2),
            Sizes(self.batch_size, None, self.outer_batch_size),
            Sizes(),
            period,
            "katyusha",
        ).resolve(problem, geometry, start)
