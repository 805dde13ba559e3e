"""The rows of the table of parameters: what each theorem prescribes, bounds and remarks.

Used by `mvrc.theory`, which checks the arguments and documents the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mvrc.sampling import Sizes
from mvrc.theory.constants import Constants


@dataclass(frozen=True)
class Rule:
    """A row of the table of parameters, with D and C/β or C·L_F of the bounds in `parameters`."""

    beta: float
    period: int
    refresh: tuple[int, ...]  # (A,) for one level, (A, A', B) for two
    batch: tuple[int, ...]
    floor: float
    rate: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
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


def check(case: Case, c: Constants) -> None:
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


def single(c: Constants, case: Case) -> Rule:
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
        return Rule(beta, math.isqrt(n), (n,), (math.isqrt(n),), 0.0, gain / beta)
    if c.sigma_0_squared == 0:
        raise ValueError(
            "constants must give σ₀² above 0 online, where τ and the batches come from it, "
            f"not sigma_g = {c.sigma_g!r} and sigma_dg = {c.sigma_dg!r}."
        )
    ratio = math.sqrt(2 * c.sigma_0_squared) / case.epsilon
    root, notes = _period("√(2σ₀²)/ε", ratio)
    return Rule(beta, root, (_up(ratio * ratio),), (root,), floor, gain / beta, notes)


def double_sum(c: Constants, case: Case) -> Rule:
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
    return Rule(beta, period, (n, n, N), batch, floor, gain * c.L_F, notes)


def double_online(c: Constants, case: Case) -> Rule:
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
    return Rule(beta, period, refresh, (small * period,) * 3, floor, gain * c.L_F, notes)


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


def sizes(sizes: tuple[int, ...]) -> Sizes:
    """(A,) of one level, where A' = A and f is one function, or (A, A', B)."""
    return Sizes(sizes[0], sizes[0], None) if len(sizes) == 1 else Sizes(*sizes)


def length(rule: Rule, case: Case) -> tuple[int | None, int | None, float | None, str]:
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


def notes(c: Constants, case: Case) -> list[str]:
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
        notes.append("epsilon is not used: without gap it has no effect on Σ¹.")
    return notes


def bound(rule: Rule, case: Case) -> str:
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
