"""Theory: the step sizes, batches, periods and numbers of steps of Theorems 1–7 of the MVRC paper.

Where a statement and its proof disagree, the proof is followed:

* λ₀: the range [β, (1+αₜ)β] with αₜ = 2/(t+1) allows λ₀ = 3β, but every proof uses λₜ ≤ 2β;
  λₜ ≤ (1+αₜ₊₁)β satisfies both.
* Theorems 3, 4: to have Cv/(Tβ) ≤ ½ the proof takes T = ⌈Cv/(2β)⌉, which makes it 2, and nothing
  contracts; T = ⌈2Cv/β⌉ does. On E¹, v ε⁻² log(1/ε) is for E F − F* = O(ε²) and the table's
  v ε⁻¹ log(1/ε) for O(ε): the same statement, with √ε in place of ε.
* Restarts continue from x_T, over which the proof telescopes, not from x_{T−1}. For M = T = O(1/ε)
  and √n > 1/ε the full passes alone cost n/ε > n + √n ε⁻²; runs of whole epochs avoid that.
* Theorem 7: the 23 ε of its proof is that of E², Σ² keeps 38(5C₁+4C₂+2) ε; its middle line has 1/T
in place of 1/(MT).
* Σ|Aₜ|: ⌊(T−1)/τ⌋ forgets the first refresh; of t = 0, …, T−1, ⌈T/τ⌉ are multiples of τ.
* Theorem 6 on Σ²: its variance lemma ends at ε²/16, so 4β would do; β here is the paper's.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

from mvrc.sampling import Sizes
from mvrc.support import checks
from mvrc.theory import theorems
from mvrc.theory.constants import Constants

ORDERS = {
    "Σ¹": "O(n + √n ε⁻²)",
    "E¹": "O(ε⁻³)",
    "Σ²": "O(N + n + √max(N, n) ε⁻²)",
    "E²": "O(ε⁻³)",
}
DOMINANT_ORDERS = {"Σ¹": "O((n + √n v) log(1/ε))", "E¹": "O(v ε⁻² log(1/ε))"}


@dataclass(frozen=True)
class Parameters:
    """What a theorem prescribes for a problem, and what it then guarantees.

    `samples` is the paper's count over all runs: Σ|Aₜ| for one level, which is the number for g
    and again for g'; Σ(|Aₜ| + |A'ₜ| + |Bₜ|) for two. `evaluations` counts in the same way what is
    actually evaluated: a small step evaluates two points, so an epoch costs refresh +
    2·batch·(period − 1).
    """

    theorem: int  # 1 to 7
    problem_class: str  # Σ¹, E¹, Σ² or E²
    alpha: float | None  # None: the diminishing αₜ = 2/(t+1)
    beta: float
    lam: float | None  # the factor of λₜ = lam·β; None: λₜ = (1 + αₜ₊₁)β
    period: int  # τ
    refresh: Sizes
    batch: Sizes
    epsilon: float | None  # ε of the normalised step; None: MVRC-1
    restarts: int | None  # M runs in all, 1: no restart; None: unknown for want of ε (and gap)
    steps: int | None  # T, of each run; None: unknown for want of gap
    samples: int | None
    evaluations: int | None
    accuracy: float | None  # the bound after M·T steps: on E‖𝒢‖; Theorems 3, 4: on E F − F*
    order: str
    bound: str
    notes: tuple[str, ...]

    def momentum(self, t: int) -> float:
        """αₜ for t ≥ 1."""
        return 2 / (t + 1) if self.alpha is None else self.alpha

    def step_size(self, t: int) -> float:
        """λₜ for t ≥ 0, between β and (1 + αₜ₊₁)β."""
        return self.beta * (1 + self.momentum(t + 1) if self.lam is None else self.lam)


@checks.explain_keywords
def parameters(
    constants: Constants,
    *,
    n: int | None = None,
    N: int | None = None,
    two_level: bool = False,
    epsilon: float | None = None,
    alpha: float | None = None,
    lam: float | None = None,
    gap: float | None = None,
    dominance: float | None = None,
    restart: bool = False,
    C1: float | None = None,
    C2: float | None = None,
) -> Parameters:
    """The parameters of the theorem that fits the problem and the momentum.

    Theorems 1–4 (one level), with C = 176 or, for constant α, 144/α + 28, and D = 91 or 72/α + 17
    online, 0 for a sum:   E‖𝒢(z_ζ)‖² ≤ D ε² + C·gap/(MTβ);   T = C·gap/(βε²) makes it (D + 1)ε².
    Dominance, F − F* ≤ (v/2)‖∇F‖²:   E F − F* ≤ 2⁻ᴹ gap + D v ε²   for T = Cv/β, M = log₂(gap/ε²).
    Theorems 5–7 (two levels), with D and C of their proofs:
    E‖𝒢(z_ζ)‖ ≤ D ε + C·L_F·gap/(ε MT);   T = C·L_F·gap/ε² makes it (D + 1)ε.

    Args:
        constants: Lipschitz constants and variances.
        n, N: samples of g, and of f for two levels; None: online.
        two_level: whether f too is a mean over samples; MVRC-2, Theorems 5–7.
        epsilon: ε; required online and for two levels, and for the number of steps.
        alpha: constant momentum in (0, 1]; None: diminishing, αₜ = 2/(t+1).
        lam: λ/β in [1, 1 + α] (diminishing: 1); None: the upper end λₜ = (1 + αₜ₊₁)β.
        gap: Φ(x₀) − Φ* or a bound on it; gives the steps.
        dominance: v of the gradient dominance, one level and r = 0; Theorems 3, 4.
        restart: restart the diminishing momentum; Theorem 7, or 1 with its periodic restart.
        C1, C2: batches τ/C₁, τ/C₂ on Σ²; above 1 and at least √N/n, √n/N.
    """
    if not isinstance(constants, Constants):
        raise TypeError(
            f"constants must be mvrc.Constants(…), your own or from estimate_constants, not "
            f"{checks.shown(constants)}."
        )
    if alpha is not None and not (isinstance(alpha, numbers.Real) and 0 < alpha <= 1):
        raise ValueError(
            f"alpha must lie in (0, 1] or be None (diminishing), not {checks.shown(alpha)}."
        )
    n, N = (x if x is None else checks.integer(name, x) for name, x in (("n", n), ("N", N)))
    given = {"epsilon": epsilon, "alpha": alpha, "lam": lam, "gap": gap}
    given |= {"dominance": dominance, "C1": C1, "C2": C2}
    given = {name: x if x is None else checks.positive(name, x) for name, x in given.items()}
    case = theorems.Case(n, N, two_level, restart, **given)
    theorems.check(case, constants)
    if case.problem == "Σ²":
        rule = theorems.double_sum(constants, case)
    else:
        rule = (
            theorems.double_online(constants, case)
            if two_level
            else theorems.single(constants, case)
        )
    runs, steps, accuracy, note = theorems.length(rule, case)
    counts: tuple[int | None, ...] = (None, None)
    if runs is not None and steps is not None:
        refreshes = -(-steps // rule.period)
        large, small = refreshes * sum(rule.refresh), (steps - refreshes) * sum(rule.batch)
        counts = (runs * (large + small), runs * (large + 2 * small))
    return Parameters(
        theorem=case.theorem,
        problem_class=case.problem,
        alpha=case.alpha,
        beta=rule.beta,
        lam=case.lam,
        period=rule.period,
        refresh=Sizes(None, None, None) if n is not None else theorems.sizes(rule.refresh),
        batch=theorems.sizes(rule.batch),
        epsilon=case.epsilon if two_level else None,
        restarts=runs,
        steps=steps,
        samples=counts[0],
        evaluations=counts[1],
        accuracy=accuracy,
        order=(ORDERS if dominance is None else DOMINANT_ORDERS)[case.problem],
        bound=theorems.bound(rule, case),
        notes=(*rule.notes, *theorems.notes(constants, case), note),
    )


@checks.explain_keywords
def complexity(
    problem_class: str,
    n: int | None = None,
    N: int | None = None,
    *,
    epsilon: float,
    dominance: float | None = None,
) -> float:
    """The paper's order of the sample complexity, without its hidden constant.

    Σ¹: n + √n ε⁻²;  E¹, E²: ε⁻³;  Σ²: N + n + √max(N, n) ε⁻²;  with dominance v,
    Σ¹: (n + √n v) log(1/ε);  E¹: v ε⁻² log(1/ε).

    Args:
        problem_class: "Σ¹", "E¹", "Σ²" or "E²".
        n, N: numbers of samples, for the sums that have them.
        epsilon: the accuracy ε; below 1 with dominance.
        dominance: v of the gradient dominance, one level only.
    """
    checks.choice("problem_class", problem_class, ORDERS)
    epsilon = checks.positive("epsilon", epsilon)
    for name, value, used in (("n", n, "Σ" in problem_class), ("N", N, problem_class == "Σ²")):
        if used:
            checks.integer(name, value)
        elif value is not None:
            raise ValueError(f"{name} must be None for {problem_class}, not {checks.shown(value)}.")
    if dominance is not None:
        checks.positive("dominance", dominance)
        if problem_class not in DOMINANT_ORDERS or epsilon >= 1:
            raise ValueError(
                f"dominance must be None unless the problem is Σ¹ or E¹ and epsilon is below 1, "
                f"not {dominance!r} for {problem_class} and epsilon = {epsilon!r}."
            )
        scale = dominance / epsilon / epsilon if n is None else n + math.sqrt(n) * dominance
        return scale * math.log(1 / epsilon)
    if n is None:
        return 1 / epsilon / epsilon / epsilon
    return n + (N or 0) + math.sqrt(max(n, N or 0)) / epsilon / epsilon
