"""Deterministic references: proximal gradient and FISTA on full passes."""

from __future__ import annotations

from typing import ClassVar

from mvrc.estimators import Exact
from mvrc.methods.method import Method
from mvrc.methods.recipe import About, NamedRecipe, Start, recipe, size, step
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.sampling import Sizes
from mvrc.schemes import FistaScheme, ProximalScheme, Scheme


@recipe
class ProximalGradient(NamedRecipe):
    """`Exact` × `ProximalScheme`: x⁺ = prox_{ηr}(x − η∇F(x)), a full pass per step.

    Args:
        step_size: η; None: 1/(2L) with L estimated at x0.
        period: steps of an epoch; 1 by default.

    Examples:
        >>> method = mvrc.ProximalGradient(step_size=0.5)
        >>> round(mvrc.minimize(problem, x0, method, epochs=50).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="Proximal gradient",
        reference="Parikh & Boyd, Proximal Algorithms, 2014",
        problems="Σ¹ Σ² (E on the evaluation batch)",
        regularizer="any with a prox",
        epoch="nτ",
        memory="p + 2d",
        complexity="Σ²: (N + n) ε⁻²",
    )

    step_size: float | None = step()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        scheme = ProximalScheme(self.step_size or 2 * start.step_size())
        return full_passes("proximal-gradient", scheme, self.period, problem, geometry, start)


@recipe
class FISTA(NamedRecipe):
    """`Exact` × `FistaScheme`: accelerated proximal gradient with adaptive restart.

    Args:
        step_size: η; None: 1/(2L) with L estimated at x0.
        period: steps of an epoch; 1 by default.

    Examples:
        >>> method = mvrc.FISTA(step_size=0.5)
        >>> round(mvrc.minimize(problem, x0, method, epochs=50).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="FISTA with restart",
        reference="Beck & Teboulle, 2009; O'Donoghue & Candès, Adaptive Restart for Accelerated "
        "Gradient Schemes, 2015",
        problems="Σ¹ Σ² (E on the evaluation batch)",
        regularizer="any with a prox",
        epoch="nτ",
        memory="p + 3d",
        complexity="convex: n √(L/μ) log 1/ε",
    )

    step_size: float | None = step()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        scheme = FistaScheme(self.step_size or 2 * start.step_size())
        return full_passes("fista", scheme, self.period, problem, geometry, start)


def full_passes(
    name: str,
    scheme: Scheme,
    period: int | None,
    problem: Composition,
    geometry: Geometry,
    start: Start,
) -> Method:
    """Every step looks at every sample; nothing is drawn."""
    one = Sizes(1, None, 1 if problem.two_level else None)
    return Method(Exact(), scheme, one, one, period or 1, name).resolve(problem, geometry, start)
