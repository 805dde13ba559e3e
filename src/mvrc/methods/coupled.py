"""BSGD, SOX, MSVR, BSpiderBoost and RT-MLMC: methods for coupled problems."""

from __future__ import annotations

import math
from typing import ClassVar

from mvrc.estimators import Msvr, PlugIn, RandomLevel, Sox, Spider
from mvrc.estimators.sox import STARTS
from mvrc.methods.method import Method
from mvrc.methods.recipe import (
    About,
    NamedRecipe,
    Start,
    checked,
    flag,
    power,
    recipe,
    size,
    step,
    word,
)
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.sampling import Sizes
from mvrc.schedules import Power
from mvrc.schemes import ProximalScheme
from mvrc.support import checks


def _open_fraction(name: str, value: object) -> float:
    """A number above 0, at most 1."""
    return checks.positive(name, checks.fraction(name, value))


@recipe
class BSGD(NamedRecipe):
    """`PlugIn` × `ProximalScheme`: x⁺ = prox(x − η·mean over B₁ of gₖ'ᵀ∇fₖ(gₖ)), gₖ a mean over
    |B₂| samples. What the curvature of fₖ makes of their noise, of order 1/|B₂|, stays.

    Args:
        step_size: η, falling as k^(−step_decay). None: 1/(4L) with L estimated at x0.
        step_decay: 0 by default.
        batch_size: |B₁|; ⌊√N⌋ by default.
        period: steps of an epoch; N/|B₁| by default.

    Examples:
        >>> method = mvrc.BSGD(step_size=0.2, batch_size=10)
        >>> round(mvrc.minimize(coupled, x0, method, epochs=20).objective, 2)
        -0.01
    """

    about: ClassVar[About] = About(
        title="BSGD",
        reference="Hu, Zhang, Chen & He, Biased Stochastic First-Order Methods for Conditional "
        "Stochastic Optimization and Applications in Meta Learning, 2020",
        problems="coupled",
        regularizer="any with a prox (0 in its paper)",
        epoch="Sτ|B₂|",
        memory="d",
        complexity="ε⁻⁶ (its own paper)",
    )

    step_size: float | None = step()
    step_decay: float = checked(checks.fraction, 0.0)
    batch_size: int | None = size()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        decay = Power(1.0, self.step_decay) if self.step_decay else None
        scheme = ProximalScheme(self.step_size or start.step_size(), None, decay)
        return Method(
            PlugIn(), scheme, Sizes(self.batch_size), _first(problem), self.period, "bsgd"
        ).resolve(problem, geometry, start)


@recipe
class SOX(NamedRecipe):
    """`Sox` × `ProximalScheme`: an average uₖ of gₖ for each k, of which the drawn ones move,

        uₖ ← (1−γ)uₖ + γ gₖ(x),   v ← (1−β)v + β·mean over B₁ of gₖ'(x)ᵀ∇fₖ(uₖ),
        x⁺ = prox(x − ηv).

    Args:
        step_size: η. None: 1/(4L) with L estimated at x0.
        weight: γ; 0.5 by default.
        gradient_weight: β; 0.1 by default. 1 is SOAP.
        batch_size: |B₁|; ⌊√N⌋ by default.
        period: steps of an epoch; N/|B₁| by default.
        start: "exact", "first" or "auto", see `Sox`.

    Examples:
        >>> method = mvrc.SOX(step_size=0.2, batch_size=10)
        >>> round(mvrc.minimize(coupled, x0, method, epochs=20).objective, 2)
        -0.02
    """

    about: ClassVar[About] = About(
        title="SOX",
        reference="Wang & Yang, Finite-Sum Coupled Compositional Stochastic Optimization: Theory "
        "and Applications, 2022",
        problems="coupled",
        regularizer="any with a prox (0 in its paper)",
        epoch="Sτ|B₂|",
        memory="N·p + d",
        complexity="Nε⁻⁴/|B₁| (its own paper)",
    )

    step_size: float | None = step()
    weight: Power = power(Power(0.5))
    gradient_weight: Power = power(Power(0.1))
    batch_size: int | None = size()
    period: int | None = size()
    start: str = word("auto", STARTS)

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        estimator = Sox(self.weight, self.gradient_weight, self.start)
        scheme = ProximalScheme(self.step_size or start.step_size())
        return Method(estimator, scheme, Sizes(self.batch_size), None, self.period, "sox").resolve(
            problem, geometry, start
        )


@recipe
class MSVR(NamedRecipe):
    """`Msvr` × `ProximalScheme`: averages uₖ that move along with x, with a factor for the steps at
    which k was not drawn; v by the recursion of STORM.

    Args:
        step_size: η. None: 1/(4Lγ') with L estimated at x0, as γ' makes noise of each move larger.
        weight: γ; 0.5 by default.
        gradient_weight: β; 0.1 by default.
        recursive: False averages v as SOX does (its version 1).
        batch_size: |B₁|; ⌊√N⌋ by default.
        period: steps of an epoch; N/|B₁| by default.
        start: "exact", "first" or "auto", see `Sox`.

    Examples:
        >>> method = mvrc.MSVR(step_size=0.3, batch_size=10)
        >>> round(mvrc.minimize(coupled, x0, method, epochs=20).objective, 2)
        0.0
    """

    about: ClassVar[About] = About(
        title="MSVR",
        reference="Jiang, Li, Wang, Wang, Zhang & Yang, Multi-block-Single-probe Variance Reduced "
        "Estimator for Coupled Compositional Optimization, 2022",
        problems="coupled",
        regularizer="any with a prox (0 in its paper)",
        epoch="2Sτ|B₂|",
        memory="N·p + 2d",
        complexity="Nε⁻³/|B₁| (its own paper)",
    )

    step_size: float | None = step()
    weight: float = checked(_open_fraction, 0.5)
    gradient_weight: float = checked(_open_fraction, 0.1)
    recursive: bool = flag(True)
    batch_size: int | None = size()
    period: int | None = size()
    start: str = word("auto", STARTS)

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        estimator = Msvr(self.weight, self.gradient_weight, self.recursive, self.start)
        values = self.batch_size or math.isqrt(problem.n or 1)
        share = estimator.share(problem.n or 1, values) if self.weight < 1 else 1.0
        scheme = ProximalScheme(self.step_size or start.step_size() / max(1.0, share))
        method = Method(
            estimator, scheme, Sizes(self.batch_size), None, self.period, "msvr"
        ).resolve(problem, geometry, start)
        N = problem.n
        if self.weight == 1 and method.batch.values != N:
            raise ValueError(
                f"weight is 1, where the correction (N−|B₁|)/(|B₁|(1−γ)) of MSVR has a pole: it "
                f"may be 1 only with batch_size = N = {N}."
            )
        return method


@recipe
class BSpiderBoost(NamedRecipe):
    """`Spider` × `ProximalScheme` on the plug-in of |B₂| inner samples; a refresh has every pair
    (of a simulator fresh ones).

    Args:
        step_size: η. None: 1/(4L) with L estimated at x0.
        batch_size: |B₁|; ⌊√N⌋ by default.
        period: steps of an epoch; ⌊√N⌋ by default.

    Examples:
        >>> method = mvrc.BSpiderBoost(step_size=0.2)
        >>> round(mvrc.minimize(coupled, x0, method, epochs=20).objective, 2)
        -0.03
    """

    about: ClassVar[About] = About(
        title="BSpiderBoost",
        reference="Hu, Zhang, Chen & He, Biased Stochastic First-Order Methods for Conditional "
        "Stochastic Optimization and Applications in Meta Learning, 2020",
        problems="coupled",
        regularizer="any with a prox (0 in its paper)",
        epoch="Nn + 2Sτ|B₂|",
        memory="2d",
        complexity="ε⁻⁵ (its own paper)",
    )

    step_size: float | None = step()
    batch_size: int | None = size()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        scheme = ProximalScheme(self.step_size or start.step_size())
        return Method(
            Spider(), scheme, Sizes(self.batch_size), None, self.period, "bspiderboost"
        ).resolve(problem, geometry, start)


@recipe
class RandomLevels(NamedRecipe):
    """`RandomLevel` × `ProximalScheme`: a random number of inner samples, which takes the plug-in's
    error of |B₂|·2^(−levels) samples down to that of |B₂|.

    Args:
        step_size: η, falling as k^(−step_decay). None: 1/(4L) with L estimated at x0.
        step_decay: 0 by default.
        levels: doublings; 3 by default.
        batch_size: |B₁|; ⌊√N⌋ by default.
        period: steps of an epoch; N/|B₁| by default.

    Examples:
        >>> method = mvrc.RandomLevels(step_size=0.05, batch_size=20)
        >>> round(mvrc.minimize(coupled, x0, method, epochs=40).objective, 2)
        -0.02
    """

    about: ClassVar[About] = About(
        title="RT-MLMC",
        reference="Hu, Chen & He, On the Bias-Variance-Cost Tradeoff of Stochastic Optimization, "
        "2021",
        problems="coupled",
        regularizer="any with a prox (0 in its paper)",
        epoch="about 6Sτ|B₂|/2^levels",
        memory="d",
        complexity="ε⁻⁴ (its own paper)",
    )

    step_size: float | None = step()
    step_decay: float = checked(checks.fraction, 0.0)
    levels: int = checked(checks.integer, 3, static=True)
    batch_size: int | None = size()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        decay = Power(1.0, self.step_decay) if self.step_decay else None
        scheme = ProximalScheme(self.step_size or start.step_size(), None, decay)
        return Method(
            RandomLevel(self.levels), scheme, Sizes(self.batch_size), _first(problem), self.period,
            "rt-mlmc",
        ).resolve(problem, geometry, start)  # fmt: skip


def _first(problem: Composition) -> Sizes:
    """The first batch of an estimator that asks for none."""
    return Sizes(min(problem.n or 1, 1 + math.isqrt(problem.n or 1)))
