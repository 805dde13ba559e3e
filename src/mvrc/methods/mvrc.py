"""MVRC-1 and MVRC-2, the methods of the paper."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from mvrc.estimators import Spider
from mvrc.methods.method import Method
from mvrc.methods.recipe import (
    About,
    NamedRecipe,
    Start,
    epsilon,
    jacobian,
    momentum,
    recipe,
    size,
    step,
)
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.regularizers import Zero
from mvrc.sampling import Sizes
from mvrc.schedules import Constant, Diminishing, Momentum, MomentumSchedule
from mvrc.schemes import MomentumScheme
from mvrc.support import checks
from mvrc.theory import Constants, parameters


@recipe
class MVRC(NamedRecipe):
    """Momentum with variance reduction: SPIDER × the MVRC momentum (Chen & Zhou, 2020).

    On Σ¹ and E¹ this is Algorithm 1 (MVRC-1): A' = A, f̃' = ∇f(g̃). On Σ² and E² it is Algorithm 2
    (MVRC-2) with independent A, A', B and the normalised step; epsilon=None means θ ≡ 1, as the
    paper's experiments, which state no ε, are read here. The update rules are those of
    `mvrc.estimators.Spider` and `mvrc.schemes.MomentumScheme`.

    Args:
        step_size: η = β; None: 1/(4L) with L estimated at x0.
        momentum: `Constant(0.8)` (or just 0.8), `Diminishing()`, `Momentum(...)`.
        batch_size: |A| of a small step; ⌊√max(n, N)⌋ by default. n means every sample.
        outer_batch_size: |B| of a small step, likewise (at most N).
        period: τ, steps from refresh to refresh; ⌊√max(n, N)⌋ by default.
        epsilon: ε of the normalised step; None for θ ≡ 1. "auto": none for one outer function, as
            in Algorithm 1, else `RELATIVE_EPSILON` times ‖𝒢(x0)‖, measured in one pass.
        jacobian: "matrix", as in the paper, "free" (vector-Jacobian products only; not in the
            paper) or "auto" (the matrix unless it is too large, with a sentence in result.notes).
        jacobian_batch_size: |A'|, as batch_size by default (where A' is drawn separately from A).
        refresh_size, jacobian_refresh_size, outer_refresh_size: |A|, |A'|, |B| at a refresh; every
            sample by default; required for streams.

    Examples:
        >>> method = mvrc.MVRC(step_size=0.1, momentum=0.8)
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="MVRC",
        reference="Chen & Zhou, Momentum with Variance Reduction for Nonconvex Composition "
        "Optimization, 2020",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any with a prox",
        epoch="n + 2S(τ−1)",
        memory="p·d + 4d (matrix), p + 4d (free)",
        complexity="Σ¹: n + √n ε⁻²; E¹, E²: ε⁻³; Σ²: N + n + √max(N, n) ε⁻²",
    )

    step_size: float | None = step()
    momentum: MomentumSchedule = momentum(Constant(0.8))
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()
    epsilon: float | str | None = epsilon("auto")
    jacobian: str = jacobian()
    jacobian_batch_size: int | None = size()
    refresh_size: int | None = size()
    jacobian_refresh_size: int | None = size()
    outer_refresh_size: int | None = size()

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        step = self.step_size or start.step_size()
        epsilon = self.epsilon if problem.two_level or self.epsilon != "auto" else None
        return Method(
            Spider(self.jacobian),
            MomentumScheme(step, self.momentum, start.epsilon(epsilon, step)),
            Sizes(self.batch_size, self.jacobian_batch_size, self.outer_batch_size),
            Sizes(self.refresh_size, self.jacobian_refresh_size, self.outer_refresh_size),
            self.period,
            "mvrc",
        ).resolve(problem, geometry, start)

    @classmethod
    @checks.explain_keywords
    def from_theory(
        cls,
        constants: Constants,
        problem: Composition,
        *,
        epsilon: float | None = None,
        alpha: float | None = None,
        lam: float | None = None,
        dominance: float | None = None,
        restart: bool = False,
        gap: float | None = None,
        C1: float | None = None,
        C2: float | None = None,
    ) -> MVRC:
        """The parameters of Theorems 1 to 7 for this problem; see `parameters`.

        With the matrix G̃, whatever its size: the theorems cover nothing else.
        """
        checks.instance("constants", constants, Constants)
        checks.instance("problem", problem, Composition)
        choice = parameters(
            constants,
            n=problem.n,
            N=problem.N if problem.two_level else None,
            two_level=problem.two_level,
            epsilon=epsilon,
            alpha=alpha,
            lam=lam,
            gap=gap,
            dominance=dominance,
            restart=restart,
            C1=C1,
            C2=C2,
        )
        kind = "random" if dominance is not None else "last" if restart else "never"
        if dominance is not None and not isinstance(problem.regularizer, Zero):
            raise ValueError(
                f"dominance is for problems without a regularizer, and this one has "
                f"{type(problem.regularizer).__name__}; leave dominance out."
            )
        every = 1
        if kind != "never" and choice.steps is not None:
            every = max(1, math.ceil(choice.steps / choice.period))
        momentum: MomentumSchedule
        if lam is not None:
            decaying = _diminishing if alpha is None else alpha
            momentum = Momentum(decaying, lam=lam, restart=kind, restart_every=every)
        elif alpha is None:
            momentum = Diminishing(kind, every, preset="theory")
        else:
            momentum = Constant(alpha, kind, every)
        return cls(
            step_size=choice.beta,
            momentum=momentum,
            batch_size=choice.batch.values,
            outer_batch_size=choice.batch.outer,
            period=choice.period,
            epsilon=choice.epsilon,
            jacobian="matrix",
            jacobian_batch_size=choice.batch.jacobians if problem.two_level else None,
            refresh_size=choice.refresh.values,
            jacobian_refresh_size=choice.refresh.jacobians if problem.two_level else None,
            outer_refresh_size=choice.refresh.outer,
        )


def _diminishing(t: Any) -> Any:
    return 2 / (t + 1)
