"""The methods of Table 1 with the schedules of their theory, their step scaled by one factor.

A schedule says how step, batches and period depend on n, N and ε; its constant is not sharp, so one
factor for all n, N and ε of an experiment is tuned.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import mvrc
from mvrc.estimators import PlugIn
from mvrc.experiments.complexity.family import Known
from mvrc.schemes import ProximalScheme

ALPHA = 0.8  # of the constant momentum, the paper's
PER_PASS = 64  # epochs of a single-loop method at most, so that measuring costs little
Rule = Callable[[Known, float], Any]  # problem, ε ↦ recipe at factor 1


def scheduled(
    name: str, known: Known, epsilon: float, factor: float, sizes: tuple[int, int] | None = None
) -> Any:
    """The recipe of a method for this problem and ε; `sizes` are S and τ in place of theory's."""
    recipe = RULES[name](known, epsilon)
    if sizes is not None:
        recipe = dataclasses.replace(recipe, batch_size=sizes[0], period=sizes[1])
    if isinstance(recipe, mvrc.Method):
        scheme = dataclasses.replace(recipe.scheme, step_size=recipe.scheme.step_size * factor)
        return dataclasses.replace(recipe, scheme=scheme)
    return dataclasses.replace(recipe, step_size=recipe.step_size * factor)


def step_of(recipe: Any) -> float:
    """How far a recipe moves along −∇F: λ, which for MVRC is (1 + α)η."""
    if isinstance(recipe, mvrc.MVRC):
        far = 1 + ALPHA if isinstance(recipe.momentum, mvrc.Constant) else 1.0
        return float(recipe.step_size or 0.0) * far
    return recipe.scheme.step_size if isinstance(recipe, mvrc.Method) else recipe.step_size


def depends_on_epsilon(name: str, known: Known) -> bool:
    """Whether the schedule does; else one run shows every ε."""
    if name in ("scgd", "ascgd", "asc-pg", "gradient", "minibatch"):
        return False
    if known.knobs.n is None:
        return True
    return known.knobs.two_level and name in ("mvrc-constant", "mvrc-diminishing", "nested-spider")


def _mvrc(alpha: float | None) -> Rule:
    def rule(known: Known, epsilon: float) -> Any:
        # Theorems 1, 2, 5, 6 with their batches; on Σ² C₁, C₂ at their least.
        return mvrc.MVRC.from_theory(known.constants, known.problem, epsilon=epsilon, alpha=alpha)

    return rule


def _online(known: Known, epsilon: float) -> dict[str, int]:
    """S = τ and the refresh that leave a variance of ε²: of one level, or of each of three."""
    c = known.constants
    if not known.knobs.two_level:
        noise = 2 * c.sigma_0_squared / epsilon**2
        root = max(1, math.ceil(math.sqrt(noise)))
        return {"batch_size": root, "period": root, "refresh_size": math.ceil(noise)}
    parameters = mvrc.theory.parameters(c, two_level=True, epsilon=epsilon, alpha=1.0)
    large, tau = parameters.refresh, parameters.period
    assert large.values is not None and large.jacobians is not None and large.outer is not None
    inner = max(large.values, large.jacobians)
    sizes = {"batch_size": tau, "period": tau, "refresh_size": inner}
    return {**sizes, "outer_batch_size": tau, "outer_refresh_size": large.outer}


def _civr(known: Known, epsilon: float) -> Any:
    sizes = {} if known.knobs.n is not None else _online(known, epsilon)
    return mvrc.CIVR.from_theory(known.constants, **sizes)


def _spider(kind: Any, with_epsilon: bool) -> Rule:
    """S = τ = ⌊√max(n, N)⌋, or of order 1/ε online; η = 1/L_F."""

    def rule(known: Known, epsilon: float) -> Any:
        sizes: dict[str, Any] = {} if known.knobs.n is not None else _online(known, epsilon)
        if with_epsilon:
            sizes["epsilon"] = epsilon
        return kind(1 / known.constants.L_F, **sizes)

    return rule


def _c_saga(known: Known, epsilon: float) -> Any:
    return mvrc.CSAGA.from_theory(known.constants)


def _vrsc_pg(known: Known, epsilon: float) -> Any:
    return mvrc.VRSCPG(1 / known.constants.L_F)


def _sarah_c(known: Known, epsilon: float) -> Any:
    """Single samples, q = (2n + N)/3 and η = 1/(L_F √(2n + N)); online 2n + N is the refresh."""
    n, N = known.knobs.n, known.knobs.N
    refresh: dict[str, int] = {}
    if n is None:
        sizes = _online(known, epsilon)
        refresh = {k: sizes[k] for k in ("refresh_size", "outer_refresh_size")}
        total = 2 * refresh["refresh_size"] + refresh["outer_refresh_size"]
    else:
        total = 2 * n + (N or 1)
    eta, period = 1 / (known.constants.L_F * math.sqrt(total)), math.ceil(total / 3)
    return mvrc.SARAHC(eta, batch_size=1, outer_batch_size=1, period=period, **refresh)


def _single(kind: Any) -> Rule:
    """Steps and averages that fall as in its paper; single samples."""

    def rule(known: Known, epsilon: float) -> Any:
        sizes: dict[str, Any] = {"outer_batch_size": 1} if known.knobs.two_level else {}
        return kind(1 / known.constants.L_F, batch_size=1, period=256, **sizes)

    return rule


def _gradient(known: Known, epsilon: float) -> Any:
    return mvrc.ProximalGradient(1 / known.constants.L_F, period=8)


def minibatch(known: Known, size: int, factor: float) -> Any:
    """Minibatch gradient descent g'_A(x)ᵀ∇f(g_A(x)); all n samples are every sample once."""
    step = factor / known.constants.L_F
    assert known.knobs.n is not None
    if size >= known.knobs.n:
        return mvrc.ProximalGradient(step, period=8)
    sizes = mvrc.Sizes(size)
    period = max(1, min(256, known.knobs.n // size))
    return mvrc.Method(PlugIn(), ProximalScheme(step), sizes, sizes, period, "minibatch")


RULES: dict[str, Rule] = {
    "mvrc-constant": _mvrc(ALPHA),
    "mvrc-diminishing": _mvrc(None),
    "civr": _civr,
    "c-saga": _c_saga,
    "vrsc-pg": _vrsc_pg,
    "sarah-c": _sarah_c,
    "nested-spider": _spider(mvrc.NestedSpider, True),
    "spider-admm": _spider(mvrc.SpiderADMM, False),
    "scgd": _single(mvrc.SCGD),
    "ascgd": _single(mvrc.ASCGD),
    "asc-pg": _single(mvrc.ASCPG),
    "gradient": _gradient,
}
