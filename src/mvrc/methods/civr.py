"""CIVR: SPIDER with plain proximal steps."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from mvrc.estimators import Spider
from mvrc.methods.defaults import dominant
from mvrc.methods.method import Method
from mvrc.methods.recipe import About, NamedRecipe, Start, jacobian, recipe, restart, size, step
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.sampling import Sizes
from mvrc.schemes import ProximalScheme
from mvrc.support import checks
from mvrc.theory import Constants


@recipe
class CIVR(NamedRecipe):
    """`Spider` × `ProximalScheme` for a single outer function:

        x⁺ = prox_{ηr}(x − ηv), v from SPIDER.

    Args:
        step_size: η; None: 1/(4L) with L estimated at x0.
        batch_size, period: S and τ, ⌈√n⌉ each by default.
        refresh_size: every sample by default; required for streams.
        jacobian: "matrix", "free" or "auto" (the matrix unless it is too large).
        restart: "random" for gradient-dominated problems: the next run starts at a point drawn
            uniformly from the last one; "last" or "never".
        restart_every: epochs of a run.

    Examples:
        >>> method = mvrc.CIVR(step_size=0.2)
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="CIVR",
        reference="Zhang & Xiao, A Stochastic Composite Gradient Method with Incremental Variance "
        "Reduction, 2019",
        problems="Σ¹ E¹",
        regularizer="any with a prox",
        epoch="n + 2S(τ−1)",
        memory="p·d + 3d (matrix), p + 3d (free)",
        complexity="Σ¹: n + √n ε⁻²; E¹: ε⁻³; v-dominant Σ¹: (n + v√n) log 1/ε, E¹: v ε⁻¹ log 1/ε",
    )

    step_size: float | None = step()
    batch_size: int | None = size()
    period: int | None = size()
    refresh_size: int | None = size()
    jacobian: str = jacobian()
    restart: str = restart()
    restart_every: int = size(1)

    @classmethod
    def from_theory(
        cls,
        constants: Any,
        problem: Any = None,
        *,
        dominance: float | None = None,
        epsilon: float | None = None,
        **options: Any,
    ) -> CIVR:
        """The step size of theory; for gradient-dominated F also batches, period and restarts.

        Without dominance η = 4/(L_F + √(L_F² + 12G₀)), as its paper is quoted; its proof is not
        verified here. It exceeds the 2/(L_F + 2√G₀) that a descent inequality gives when G₀ > 0.

        With F − F* ≤ (v/2)‖∇F‖² and r = 0: η = 2/(L_F + √(L_F² + 4G₀)), S = τ = ⌈√n⌉, runs of
        T ≥ 2v/η steps, each started at a point drawn uniformly from the last run. As
        F(x⁺) ≤ F(x) − (η/2)‖∇F‖² − (η/2)(1 − L_F η)‖v‖² + (η/2)‖v − ∇F‖² and
        Σ E‖v − ∇F‖² ≤ G₀η² Σ E‖v‖², a run leaves E‖∇F‖² ≤ 2(F(x₀) − F*)/(ηT), so every run halves
        the gap: ⌈log₂(gap/δ)⌉ runs for E F − F* ≤ δ. Online S = τ = ⌈√(2σ₀²)/ε⌉ with refreshes of
        ⌈2σ₀²/ε²⌉, and the gap ends at v ε²/2.

        Args:
            constants: Lipschitz constants and variances.
            problem: of which n is taken; with dominance only.
            dominance: v.
            epsilon: ε, online with dominance only.
            options: other arguments of CIVR.
        """
        checks.instance("constants", constants, Constants)
        smooth, growth = constants.L_F, constants.G_0
        if dominance is None:
            if problem is not None or epsilon is not None:
                raise ValueError("problem and epsilon need dominance; leave them out.")
            return cls(step_size=4 / (smooth + math.sqrt(smooth**2 + 12 * growth)), **options)
        v = dominant("dominance", dominance, problem)
        assert problem is not None
        eta = 2 / (smooth + math.sqrt(smooth**2 + 4 * growth))
        refresh = None
        if problem.n is not None:
            if epsilon is not None:
                raise ValueError("epsilon has no effect for a finite sum; leave it out.")
            root = math.ceil(math.sqrt(problem.n))
        else:
            noise = 2 * constants.sigma_0_squared / checks.positive("epsilon", epsilon) ** 2
            root, refresh = max(1, math.ceil(math.sqrt(noise))), max(1, math.ceil(noise))
        sizes: dict[str, Any] = {"batch_size": root, "period": root, "refresh_size": refresh}
        every = math.ceil(2 * v / eta / root)
        return cls(step_size=eta, restart="random", restart_every=every, **(sizes | options))

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        if problem.two_level:
            raise ValueError(
                f"CIVR is for a single outer function and this problem is {problem.kind}; use "
                f"'mvrc', 'nested-spider' or 'sarah-c'."
            )
        root = None if problem.n is None else math.ceil(math.sqrt(problem.n))
        return Method(
            Spider(self.jacobian),
            ProximalScheme(
                self.step_size or start.step_size(),
                restart=self.restart,
                restart_every=self.restart_every,
            ),
            Sizes(self.batch_size or root),
            Sizes(self.refresh_size),
            self.period or root,
            "civr",
        ).resolve(problem, geometry, start)
