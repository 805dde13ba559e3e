"""Compositional-SVRG-1 and -2, the first variance-reduced methods for composition."""

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

_REFERENCE = (
    "Lian, Wang & Liu, Finite-sum Composition Optimization via Variance Reduced Gradient "
    "Descent, 2016"
)


@recipe
class CSVRG1(NamedRecipe):
    """`Svrg` without the matrix × `ProximalScheme`; the next snapshot x̃ is drawn from the epoch:

        ĝ = g(x̃) + g_A(x) − g_A(x̃),   x⁺ = prox_{ηr}(x − ηv),
        v = g'_A'(x)ᵀ∇f_B(ĝ) − g'_A'(x̃)ᵀ∇f_B(g(x̃)) + ∇F(x̃).

    Args:
        step_size: η; None: 1/(4L) with L estimated at x0.
        batch_size: |A|; ⌈(n + N)^(2/3)⌉ by default, at most n.
        jacobian_batch_size, outer_batch_size: |A'| and |B|; as batch_size by default (at most N).
            Its paper has 1 for both, with the small steps that they need.
        period: ⌈(n + N)^(1/3)⌉ by default.

    Examples:
        >>> method = mvrc.CSVRG1(step_size=0.2)
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="C-SVRG-1",
        reference=_REFERENCE,
        problems="Σ¹ Σ²",
        regularizer="any with a prox (0 in its paper)",
        epoch="n + 2S(τ−1)",
        memory="2p + 5d",
        complexity="linear, strongly convex (its own paper)",
    )

    step_size: float | None = step()
    batch_size: int | None = size()
    jacobian_batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        return _method(self, "c-svrg-1", "free", problem, geometry, start)


@recipe
class CSVRG2(NamedRecipe):
    """`Svrg` × `ProximalScheme`; the next snapshot x̃ is drawn from the epoch:

        ĝ = g(x̃) + g_A(x) − g_A(x̃),   Ĝ = g'(x̃) + g'_A'(x) − g'_A'(x̃),
        v = Ĝᵀ∇f_B(ĝ) − g'(x̃)ᵀ∇f_B(g(x̃)) + ∇F(x̃),   x⁺ = prox_{ηr}(x − ηv).

    Args:
        step_size: η; None: 1/(4L) with L estimated at x0.
        batch_size: |A|; ⌈(n + N)^(2/3)⌉ by default, at most n.
        jacobian_batch_size: |A'|, two levels only; as batch_size by default.
        outer_batch_size: |B|; as batch_size by default, at most N. Its paper has 1.
        period: ⌈(n + N)^(1/3)⌉ by default.

    Examples:
        >>> method = mvrc.CSVRG2(step_size=0.2)
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="C-SVRG-2",
        reference=_REFERENCE,
        problems="Σ¹ Σ²",
        regularizer="any with a prox (0 in its paper)",
        epoch="n + 2S(τ−1)",
        memory="p·d + 2p + 5d",
        complexity="linear, strongly convex (its own paper)",
    )

    step_size: float | None = step()
    batch_size: int | None = size()
    jacobian_batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        return _method(self, "c-svrg-2", "matrix", problem, geometry, start)


def _method(
    chosen: CSVRG1 | CSVRG2,
    name: str,
    jacobian: str,
    problem: Composition,
    geometry: Geometry,
    start: Start,
) -> Method:
    n, N = finite(chosen.about.title, problem)
    total = n + N if problem.two_level else n
    batch = math.ceil(total ** (2 / 3))
    outer = min(batch, N) if problem.two_level else None
    inner = chosen.batch_size or min(batch, n)
    return Method(
        Svrg(jacobian),
        ProximalScheme(chosen.step_size or start.step_size(), restart="random"),
        Sizes(inner, chosen.jacobian_batch_size, chosen.outer_batch_size or outer),
        Sizes(),
        chosen.period or math.ceil(total ** (1 / 3)),
        name,
    ).resolve(problem, geometry, start)
