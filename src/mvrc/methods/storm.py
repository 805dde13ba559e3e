"""STORM-Compositional and SMVR: recursive momentum."""

from __future__ import annotations

from typing import ClassVar

from mvrc.estimators import Storm
from mvrc.methods.defaults import single_loop
from mvrc.methods.method import Method
from mvrc.methods.recipe import (
    About,
    NamedRecipe,
    Start,
    epsilon,
    fraction,
    jacobian,
    positive,
    power,
    recipe,
    size,
    step,
)
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.schedules import Power


@recipe
class STORM(NamedRecipe):
    """`Storm` × `ProximalScheme`:

        uₜ = h(xₜ; A) + (1−aₜ)(uₜ₋₁ − h(xₜ₋₁; A)) for g, for g' and, on two levels, for the composed
        gradient g'ᵀ∇f;   x⁺ = prox_{ηr}(x − ηv).

    Args:
        step_size: η, falling as k^(−step_decay). None: 1/(4L) with L estimated at x0.
        step_decay: 1/3 by default.
        forget: aₜ of g; `Power(1, 2/3)` by default.
        forget_jacobian, forget_gradient: aₜ of g' and of the composed gradient; as `forget` by
            default.
        epsilon: ε of the normalised step x⁺ = x + θ(x̃ − x), θ = min{εη/‖x̃ − x‖, ½}; None for
            θ ≡ 1, as its authors run it.
        batch_size, outer_batch_size: samples of a step; 1 by default.
        period: steps of an epoch; one pass over the samples by default; required for streams.
        jacobian: "matrix", "free" or "auto" (the matrix unless it is too large).

    Examples:
        >>> method = mvrc.STORM(step_size=0.2, batch_size=20)
        >>> round(mvrc.minimize(problem, x0, method, epochs=20).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="STORM-C",
        reference="Cutkosky & Orabona, Momentum-Based Variance Reduction in Non-Convex SGD, 2019; "
        "for composition Yuan & Hu, STORM-Compositional, 2020",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any with a prox (0 in its papers)",
        epoch="2Sτ",
        memory="p·d + 3d (matrix), p + 3d (free)",
        complexity="E²: ε⁻³ (its own papers)",
    )

    step_size: float | None = step()
    step_decay: float = fraction(1 / 3)
    forget: Power = power(Power(1.0, 2 / 3))
    epsilon: float | None = epsilon()
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()
    jacobian: str = jacobian()
    forget_jacobian: Power | None = power()
    forget_gradient: Power | None = power()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        estimator = Storm(
            self.forget, self.forget_jacobian, self.forget_gradient, jacobian=self.jacobian
        )
        return single_loop(
            self, "storm", estimator, problem, geometry, start,
            Power(1.0, self.step_decay), self.epsilon,
        )  # fmt: skip


@recipe
class SMVR(NamedRecipe):
    """`Storm` with a recursion for every level × `ProximalScheme`:

        uₜ = Π[h(xₜ; A) + (1−aₜ)(uₜ₋₁ − h(xₜ₋₁; A))] for g, g' and ∇f, the estimate G̃ᵀf̃';

    Π projects G̃ and f̃' to the ball of radius `bound`, and g̃ not at all.

    Args:
        step_size: η, falling as k^(−step_decay). None: 1/(4L) with L estimated at x0.
        step_decay: 1/3 by default.
        forget: aₜ; `Power(1, 2/3)` by default.
        bound: a bound on ‖g'‖ and ‖∇f‖ (Frobenius); None for no projection.
        batch_size, outer_batch_size: samples of a step; 1 by default.
        period: steps of an epoch; one pass over the samples by default; required for streams.

    Examples:
        >>> method = mvrc.SMVR(step_size=0.2, batch_size=20)
        >>> round(mvrc.minimize(problem, x0, method, epochs=20).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="SMVR",
        reference="Jiang, Wang, Wang, Zhang & Yang, Optimal Algorithms for Stochastic Multi-Level "
        "Compositional Optimization, 2022",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any with a prox (0 in its paper)",
        epoch="2Sτ",
        memory="p·d + 3d",
        complexity="E²: ε⁻³ (its own paper)",
    )

    step_size: float | None = step()
    step_decay: float = fraction(1 / 3)
    forget: Power = power(Power(1.0, 2 / 3))
    bound: float | None = positive()
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        estimator = Storm(self.forget, jacobian="matrix", recursion="levels", bound=self.bound)
        return single_loop(
            self, "smvr", estimator, problem, geometry, start, Power(1.0, self.step_decay)
        )
