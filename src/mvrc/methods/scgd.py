"""SCGD, ASCGD and ASC-PG: single-loop methods that average g."""

from __future__ import annotations

from typing import ClassVar

from mvrc.estimators import Ema, ExtrapolatedEma
from mvrc.methods.defaults import single_loop
from mvrc.methods.method import Method
from mvrc.methods.recipe import About, NamedRecipe, Start, fraction, power, recipe, size, step
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.regularizers import Zero
from mvrc.schedules import Power


@recipe
class SCGD(NamedRecipe):
    """`Ema` × `ProximalScheme` with falling steps:

        yₖ₊₁ = (1−βₖ)yₖ + βₖ g_A(xₖ),   xₖ₊₁ = prox(xₖ − αₖ g'_A(xₖ)ᵀ∇f_B(yₖ₊₁)).

    Args:
        step_size: η; αₖ = η·k^(−step_decay). None: 1/(4L) with L estimated at x0.
        step_decay: 3/4 in its paper.
        average: βₖ; `Power(1, 1/2)` by default, k^(−1/2).
        batch_size, outer_batch_size: samples of a step; 1 by default.
        period: steps of an epoch; one pass over the samples by default; required for streams.

    Examples:
        >>> method = mvrc.SCGD(step_size=0.5, batch_size=20)
        >>> round(mvrc.minimize(problem, x0, method, epochs=20).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="SCGD",
        reference="Wang, Fang & Liu, Stochastic Compositional Gradient Descent, 2017",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any with a prox (0 in its paper)",
        epoch="Sτ",
        memory="p + 2d",
        complexity="E²: ε⁻⁸ (r = 0)",
    )

    step_size: float | None = step()
    step_decay: float = fraction(3 / 4)
    average: Power = power(Power(1.0, 1 / 2))
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        return single_loop(
            self, "scgd", Ema(self.average), problem, geometry, start,
            Power(1.0, self.step_decay),
        )  # fmt: skip


@recipe
class ASCGD(NamedRecipe):
    """`ExtrapolatedEma` × gradient steps, for r = 0:

        xₖ₊₁ = xₖ − αₖ g'_A(xₖ)ᵀ∇f_B(yₖ),   zₖ₊₁ = (1−1/βₖ)xₖ + (1/βₖ)xₖ₊₁,
        yₖ₊₁ = (1−βₖ)yₖ + βₖ g_A'(zₖ₊₁).

    Args:
        step_size: η; αₖ = η·k^(−step_decay). None: 1/(4L) with L estimated at x0.
        step_decay: 5/7 in its paper.
        average: βₖ, k^(−4/7) by default.
        batch_size, outer_batch_size: samples of a step; 1 by default.
        period: steps of an epoch; one pass over the samples by default; required for streams.

    Examples:
        >>> method = mvrc.ASCGD(step_size=0.2, batch_size=20)
        >>> round(mvrc.minimize(problem, x0, method, epochs=20).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="ASCGD",
        reference="Wang, Fang & Liu, Stochastic Compositional Gradient Descent, 2017",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="none (r = 0)",
        epoch="Sτ",
        memory="p + 3d",
        complexity="E²: ε⁻⁷ (r = 0)",
    )

    step_size: float | None = step()
    step_decay: float = fraction(5 / 7)
    average: Power = power(Power(1.0, 4 / 7))
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        if not isinstance(problem.regularizer, Zero):
            raise ValueError(
                f"ASCGD is for problems without a regularizer, and this one has "
                f"{type(problem.regularizer).__name__}; use 'asc-pg', which has a prox."
            )
        return single_loop(
            self, "ascgd", ExtrapolatedEma(self.average), problem, geometry, start,
            Power(1.0, self.step_decay),
        )  # fmt: skip


@recipe
class ASCPG(NamedRecipe):
    """`ExtrapolatedEma` × `ProximalScheme`: ASCGD's rule with a prox and slower decays.

    Args:
        step_size: η; αₖ = η·k^(−step_decay). None: 1/(4L) with L estimated at x0.
        step_decay: 5/9 in its paper.
        average: βₖ, k^(−4/9) by default.
        batch_size, outer_batch_size: samples of a step; 1 by default.
        period: steps of an epoch; one pass over the samples by default; required for streams.

    Examples:
        >>> method = mvrc.ASCPG(step_size=0.2, batch_size=20)
        >>> round(mvrc.minimize(problem, x0, method, epochs=20).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="ASC-PG",
        reference="Wang, Liu & Fang, Accelerating Stochastic Composition Optimization, 2017",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any with a prox",
        epoch="Sτ",
        memory="p + 3d",
        complexity="E²: ε⁻⁴·⁵ (r = 0)",
    )

    step_size: float | None = step()
    step_decay: float = fraction(5 / 9)
    average: Power = power(Power(1.0, 4 / 9))
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        return single_loop(
            self, "asc-pg", ExtrapolatedEma(self.average), problem, geometry, start,
            Power(1.0, self.step_decay),
        )  # fmt: skip
