"""Theory: the step sizes, batches, periods and numbers of steps of Theorems 1–7 of the MVRC paper.

Where a statement and its proof disagree, the proof is followed:

* λ₀: the range [β, (1+αₜ)β] with αₜ = 2/(t+1) allows λ₀ = 3β, but every proof uses λₜ ≤ 2β;
  λₜ ≤ (1+αₜ₊₁)β satisfies both.
* Theorems 3, 4: to have Cv/(Tβ) ≤ ½ the proof takes T = ⌈Cv/(2β)⌉, which makes it 2, and nothing
  contracts; T = ⌈2Cv/β⌉ does. On E¹, v ε⁻² log(1/ε) is for E F − F* = O(ε²) and the table's
  v ε⁻¹ log(1/ε) for O(ε): one statement, with √ε in place of ε.
* Restarts go on from x_T, over which the proof telescopes, not from x_{T−1}. For M = T = O(1/ε)
  and √n > 1/ε the full passes alone cost n/ε > n + √n ε⁻²; runs of whole epochs avoid that.
* Theorem 7: the 23 ε of its proof is that of E², Σ² keeps 38(5C₁+4C₂+2) ε; its middle line has
  1/T for 1/(MT).
* Σ|Aₜ|: ⌊(T−1)/τ⌋ forgets the first refresh; of t = 0, …, T−1, ⌈T/τ⌉ are multiples of τ.
* Theorem 6 on Σ²: its variance lemma ends at ε²/16, so 4β would do; β here is the paper's.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from mvrc import checks

ORDERS = {
    "Σ¹": "O(n + √n ε⁻²)",
    "E¹": "O(ε⁻³)",
    "Σ²": "O(N + n + √max(N, n) ε⁻²)",
    "E²": "O(ε⁻³)",
}
DOMINANT_ORDERS = {"Σ¹": "O((n + √n v) log(1/ε))", "E¹": "O(v ε⁻² log(1/ε))"}


@dataclass(frozen=True)
class Constants:
    """Lipschitz constants and variances of F = f∘g (Assumptions 1, 2, 4 and 5).

    f and ∇f are l_f- and L_f-Lipschitz, every g_ξ and g_ξ' is l_g- and L_g-Lipschitz; E‖g_ξ − g‖²
    ≤ σ_g², E‖g_ξ' − g'‖² ≤ σ_dg², E‖∇f_η − ∇f‖² ≤ σ_df². The σ matter online only.
    """

    l_f: float
    L_f: float
    l_g: float
    L_g: float
    sigma_g: float = 0.0
    sigma_dg: float = 0.0
    sigma_df: float = 0.0

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if name in ("l_f", "l_g"):
                checks.positive(name, value)
            elif not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}.")
            object.__setattr__(self, name, float(value))

    @property
    def L_F(self) -> float:
        """L_F = l_g² L_f + l_f L_g, a Lipschitz constant of ∇F."""
        return self.l_g * self.l_g * self.L_f + self.l_f * self.L_g

    @property
    def G_0(self) -> float:
        """G₀ = 2(l_g⁴ L_f² + l_f² L_g²), the growth of the estimator's variance."""
        values, jacobians = self.l_g * self.l_g * self.L_f, self.l_f * self.L_g
        return 2 * (values * values + jacobians * jacobians)

    @property
    def sigma_0_squared(self) -> float:
        """σ₀² = 2(l_g² L_f² σ_g² + l_f² σ_dg²), the variance of one sample's gradient online."""
        values, jacobians = self.l_g * self.L_f * self.sigma_g, self.l_f * self.sigma_dg
        return 2 * (values * values + jacobians * jacobians)


@dataclass(frozen=True)
class Sizes:
    """Batch sizes |A| (values of g), |A'| (Jacobians of g), |B| (∇f); None is every sample."""

    values: int | None
    jacobians: int | None
    outer: int | None


@dataclass(frozen=True)
class Parameters:
    """What a theorem prescribes for a problem, and what it then guarantees.

    `samples` is the paper's count over all runs: Σ|Aₜ| for one level, which is the number for g
    and again for g'; Σ(|Aₜ| + |A'ₜ| + |Bₜ|) for two. `evaluations` counts alike what is really
    evaluated: a small step looks at two points, so an epoch costs refresh + 2·batch·(period − 1).
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
    if alpha is not None and not (isinstance(alpha, numbers.Real) and 0 < alpha <= 1):
        raise ValueError(f"alpha must lie in (0, 1] or be None (diminishing), not {alpha!r}.")
    n, N = (x if x is None else checks.whole(name, x) for name, x in (("n", n), ("N", N)))
    given = {"epsilon": epsilon, "alpha": alpha, "lam": lam, "gap": gap}
    given |= {"dominance": dominance, "C1": C1, "C2": C2}
    given = {name: x if x is None else checks.positive(name, x) for name, x in given.items()}
    case = _Case(n, N, two_level, restart, **given)
    _check(case, constants)
    if case.problem == "Σ²":
        rule = _double_sum(constants, case)
    else:
        rule = _double_online(constants, case) if two_level else _single(constants, case)
    runs, steps, accuracy, note = _length(rule, case)
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
        refresh=Sizes(None, None, None) if n is not None else _sizes(rule.refresh),
        batch=_sizes(rule.batch),
        epsilon=case.epsilon if two_level else None,
        restarts=runs,
        steps=steps,
        samples=counts[0],
        evaluations=counts[1],
        accuracy=accuracy,
        order=(ORDERS if dominance is None else DOMINANT_ORDERS)[case.problem],
        bound=_bound(rule, case),
        notes=(*rule.notes, *_notes(constants, case), note),
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
            checks.whole(name, value)
        elif value is not None:
            raise ValueError(f"{name} must be None for {problem_class}, not {value!r}.")
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


@dataclass(frozen=True)
class _Rule:
    """A row of the table of parameters, with D and C/β or C·L_F of the bounds in `parameters`."""

    beta: float
    period: int
    refresh: tuple[int, ...]  # (A,) for one level, (A, A', B) for two
    batch: tuple[int, ...]
    floor: float
    rate: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Case:
    """The checked arguments of `parameters`: numbers, or None where not given."""

    n: Any
    N: Any
    two_level: bool
    restart: bool
    epsilon: Any
    alpha: Any
    lam: Any
    gap: Any
    dominance: Any
    C1: Any
    C2: Any

    @property
    def problem(self) -> str:
        return ("E" if self.n is None else "Σ") + ("²" if self.two_level else "¹")

    @property
    def theorem(self) -> int:
        if self.two_level:
            return 6 if self.alpha is not None else 7 if self.restart else 5
        return 1 + (self.alpha is not None) + 2 * (self.dominance is not None)


def _check(case: _Case, c: Constants) -> None:
    """Refuse what no theorem covers."""
    n, N, alpha, lam, problem = case.n, case.N, case.alpha, case.lam, case.problem
    if case.two_level and (n is None) != (N is None):
        raise ValueError(f"n and N must be both given or both None, not n={n!r} and N={N!r}.")
    if N is not None and not case.two_level:
        raise ValueError(f"N must be None for one level (two_level=False), not {N!r}.")
    if case.dominance is not None and case.two_level:
        raise ValueError(f"dominance must be None with two levels, not {case.dominance!r}.")
    if case.restart and (alpha is not None or case.dominance is not None):
        raise ValueError(
            "restart must be False with a constant alpha, which needs none, and with dominance, "
            "which restarts by its own rule, not True."
        )
    for name, value in (("C1", case.C1), ("C2", case.C2)):
        if value is not None and problem != "Σ²":
            raise ValueError(f"{name} must be None for {problem}, not {value!r}.")
    top = 1.0 if alpha is None else 1 + alpha
    if lam is not None and not 1 <= lam <= top:
        span = "[1, 1 + αₜ] for every t, so be 1" if alpha is None else f"[1, 1 + α] = [1, {top:g}]"
        raise ValueError(f"lam must lie in {span}, or be None, not {lam!r}.")
    if case.epsilon is None and (problem != "Σ¹" or case.gap is not None):
        where = f"for {problem}" if problem != "Σ¹" else "when gap is given"
        raise ValueError(f"epsilon must be a positive number {where}, not None.")
    if not (c.L_F > 0 and math.isfinite(c.G_0)):
        raise ValueError(
            "constants must give an L_F above 0 and a finite G₀, not "
            f"L_F = {c.L_F!r} and G₀ = {c.G_0!r}."
        )


def _single(c: Constants, case: _Case) -> _Rule:
    """Theorems 1–4: the β with 3βG₀ + 2L_F = 1/(8β), or 6βG₀ + (1 + 1/α)L_F = 1/(8β)."""
    n, alpha = case.n, case.alpha
    if alpha is None:
        beta = 1 / (2 * math.sqrt(16 * c.L_F * c.L_F + 6 * c.G_0) + 8 * c.L_F)
        floor, gain = 91.0, 176.0
    else:
        slope = (1 + 1 / alpha) * c.L_F
        beta = 1 / (4 * math.sqrt(slope * slope + 3 * c.G_0) + 4 * slope)
        floor, gain = 72 / alpha + 17, 144 / alpha + 28
    if n is not None:
        return _Rule(beta, math.isqrt(n), (n,), (math.isqrt(n),), 0.0, gain / beta)
    if c.sigma_0_squared == 0:
        raise ValueError(
            "constants must give σ₀² above 0 online, where τ and the batches come from it, "
            f"not sigma_g = {c.sigma_g!r} and sigma_dg = {c.sigma_dg!r}."
        )
    ratio = math.sqrt(2 * c.sigma_0_squared) / case.epsilon
    root, notes = _period("√(2σ₀²)/ε", ratio)
    return _Rule(beta, root, (_up(ratio * ratio),), (root,), floor, gain / beta, notes)


def _double_sum(c: Constants, case: _Case) -> _Rule:
    """Theorems 5–7 on Σ²: τ ≤ l_f l_g/ε, τ/|A| ≤ C₁ and τ/|B| ≤ C₂ keep the variance below ε²."""
    n, N, epsilon, alpha = case.n, case.N, case.epsilon, case.alpha
    largest = c.l_f * c.l_g / math.sqrt(max(N, n))
    if not epsilon < largest:
        raise ValueError(
            f"epsilon must be below l_f l_g/√max(N, n) = {largest:.6g} for Σ² with n = {n} and "
            f"N = {N}, not {epsilon!r}."
        )
    least = {"C1": math.sqrt(N) / n, "C2": math.sqrt(n) / N}
    for name, value in (("C1", case.C1), ("C2", case.C2)):
        if value is not None and not (value > 1 and value >= least[name]):
            low = max(least[name], 1.0)
            raise ValueError(f"{name} must be above 1 and at least {low:.6g}, not {value!r}.")
    # The number of steps grows with C₁, C₂ faster than the batches shrink: keep them small.
    C1, C2 = case.C1 or max(least["C1"], 1.1), case.C2 or max(least["C2"], 1.1)
    period = math.isqrt(max(N, n))
    inner, outer = min(math.ceil(period / C1), n), min(math.ceil(period / C2), N)
    notes = (
        f"ε = {epsilon:g} is below l_f l_g/√max(N, n) = {largest:.6g}, as required.",
        f"C₁ = {C1:.6g} is above 1 and not below √N/n = {least['C1']:.6g}, as required.",
        f"C₂ = {C2:.6g} is above 1 and not below √n/N = {least['C2']:.6g}, as required.",
    )
    if alpha is None:
        weight = 5 * C1 + 4 * C2 + 1
        beta = math.sqrt(3) / (2 * math.sqrt(26 * weight) * c.L_F)
        floor, gain = 38 * (weight + 1), 104 * weight / 5
    else:
        beta = 1 / (16 * c.L_F * math.sqrt(10 * C1 + 7 * C2 + 1))
        floor, gain = _theorem_6(c, alpha, beta)
    batch = (inner, inner, outer)
    return _Rule(beta, period, (n, n, N), batch, floor, gain * c.L_F, notes)


def _double_online(c: Constants, case: _Case) -> _Rule:
    """Theorems 5–7 on E²: the refresh and the small batches share the variance ε²."""
    epsilon, alpha = case.epsilon, case.alpha
    if alpha is None:
        beta, large, small, floor, gain = 3 / (2 * math.sqrt(26) * c.L_F), 54, 54, 23.0, 48 / 5
    else:
        beta, large, small = 1 / (10 * c.L_F), 34, 6
        floor, gain = _theorem_6(c, alpha, beta)
    noise = {
        "sigma_g": c.L_f * c.l_g * c.sigma_g / epsilon,
        "sigma_dg": c.l_f * c.sigma_dg / epsilon,
        "sigma_df": c.l_g * c.sigma_df / epsilon,
    }
    if not any(noise.values()):
        raise ValueError(
            "constants must have noise online, where the batches come from it, not "
            f"sigma_g = {c.sigma_g!r}, sigma_dg = {c.sigma_dg!r} and sigma_df = {c.sigma_df!r}."
        )
    period, notes = _period("l_f l_g/ε", c.l_f * c.l_g / epsilon)
    notes += tuple(
        f"{name} adds no noise, so its refresh batch is 1." for name in noise if not noise[name]
    )
    refresh = tuple(_up(large * value * value) for value in noise.values())
    return _Rule(beta, period, refresh, (small * period,) * 3, floor, gain * c.L_F, notes)


def _theorem_6(c: Constants, alpha: float, beta: float) -> tuple[float, float]:
    """D and C of (4√(2/α) + 1)ε + (1/(5L_Fβ²))((10/9 + 2/(25α))ε/L_F + gap/(εT))."""
    gain = 1 / (5 * (c.L_F * beta) ** 2)
    return 4 * math.sqrt(2 / alpha) + 1 + gain * (10 / 9 + 2 / (25 * alpha)), gain


def _up(value: float, rounding: Callable[[float], int] = math.ceil) -> int:
    """A batch size or a number of steps: whole, at least 1."""
    if not math.isfinite(value):
        raise ValueError("epsilon must be larger: a batch size or a number of steps overflows.")
    return max(rounding(value), 1)


def _period(text: str, ratio: float) -> tuple[int, tuple[str, ...]]:
    """τ = ⌊ratio⌋, at least 1, and the note on it."""
    raised = f"τ is raised to 1 from ⌊{text}⌋ = 0, so every step is a refresh."
    return _up(ratio, math.floor), (raised,) * (ratio < 1)


def _sizes(sizes: tuple[int, ...]) -> Sizes:
    """(A,) of one level, where A' = A and f is one function, or (A, A', B)."""
    return Sizes(sizes[0], sizes[0], None) if len(sizes) == 1 else Sizes(*sizes)


def _length(rule: _Rule, case: _Case) -> tuple[int | None, int | None, float | None, str]:
    """M, T and the bound after them, None for what is not known, and the note on them."""
    epsilon, gap, v = case.epsilon, case.gap, case.dominance
    if v is not None:
        steps = rule.period * _up(max(rule.rate * v, rule.period) / rule.period)
        if epsilon is None:
            return None, steps, None, "The number M of runs needs epsilon."
        runs = _up(math.log2(gap or 1.0) - 2 * math.log2(epsilon))
        text = "⌈log₂(gap/ε²)⌉" if gap else "⌈log₂(1/ε²)⌉, which takes the gap for 1"
        end = math.ldexp(gap, -runs) + v * rule.floor * epsilon**2 if gap else None
        return runs, steps, end, f"M = {text}; T ≥ Cv/β halves the gap in every run."
    if gap is None:
        wanted = "gap" if epsilon else "gap and epsilon"
        return None if case.restart else 1, None, None, f"The number of steps needs {wanted}."
    total = _up(rule.rate * gap / epsilon / epsilon)
    steps = rule.period * _up(math.sqrt(total) / rule.period) if case.restart else total
    runs = -(-total // steps)
    rest = rule.rate * gap / (runs * steps)
    if case.two_level:
        factor, end = rule.floor + 1, rule.floor * epsilon + rest / epsilon
    else:
        factor, end = math.sqrt(rule.floor + 1), math.sqrt(rule.floor * epsilon**2 + rest)
    aim = f"{factor:.4g} ε; for δ itself pass epsilon = δ/{factor:.4g}" if factor > 1 else "ε"
    return runs, steps, end, f"E‖𝒢‖ is at most {aim}."


def _notes(c: Constants, case: _Case) -> list[str]:
    """λ, what the theorem asks that no number shows, and what was given but is not used."""
    alpha, lam, v, problem = case.alpha, case.lam, case.dominance, case.problem
    if lam is not None:
        notes = [f"λ = {lam:g} β lies in [β, (1 + α)β]."]
    elif alpha is not None:
        notes = [f"λ = (1 + α)β = {1 + alpha:g} β, the upper end of its range."]
    else:
        notes = ["λₜ = (1 + αₜ₊₁)β, which keeps λ₀ at 2β; (1 + αₜ)β would make it 3β."]
    if case.restart:
        notes.append(
            f"Theorem {case.theorem} with periodic restart: a run has whole epochs, the next one "
            "starts at its last iterate x_T, and αₜ starts anew."
        )
    if v is not None:
        notes.append("r must be 0; the next run starts at a zₜ drawn uniformly from the last.")
        if v * c.L_F < 1:
            notes.append(f"v L_F = {v * c.L_F:.3g} is below 1, so L_F or v is too small.")
    if "Σ" in problem and (c.sigma_g or c.sigma_dg or c.sigma_df):
        notes.append("The σ are not used: a full pass has no noise.")
    if problem == "E¹" and c.sigma_df:
        notes.append("sigma_df is not used: f is one function.")
    if problem == "Σ¹" and case.epsilon and not case.gap and v is None:
        notes.append("epsilon is not used: without gap it sets nothing on Σ¹.")
    return notes


def _bound(rule: _Rule, case: _Case) -> str:
    """The theorem's guarantee with its constants."""
    total, floor, theorem = ("M T" if case.restart else "T"), rule.floor, case.theorem
    if theorem in (3, 4):
        noise = f" + {floor:.6g} v ε²" if floor else ""
        return f"Theorem {theorem}: E F(z_ζ) − F* ≤ 2⁻ᴹ (F(x₀) − F*){noise}."
    if theorem in (1, 2):
        noise = f"{floor:.6g} ε² + " if floor else ""
        gain = f"{rule.rate * rule.beta:.6g} (Φ(x₀) − Φ*)/({total} β)"
        return f"Theorem {theorem}: E‖𝒢(z_ζ)‖² ≤ {noise}{gain}."
    gain = f"{rule.rate:.6g} (Φ(x₀) − Φ*)/(ε {total})"
    return f"Theorem {theorem}: E‖𝒢(z_ζ)‖ ≤ {floor:.6g} ε + {gain}."
