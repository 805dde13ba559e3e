"""Momentum schedules: the sequences αₜ, βₜ, λₜ of Algorithms 1 and 2, and when they restart.

βₜ and λₜ are factors of the step size η, so that one number scales the method:
β = η·beta(t), λ = η·lam(t). The schemes ask for α at t + 1, as the paper's zₜ does.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.support import checks

RESTARTS = ("never", "last", "random")
Schedule = float | Callable[[Any], Any]


class MomentumSchedule(eqx.Module):
    """αₜ, βₜ/η, λₜ/η as functions of the step number t = 0, 1, … since the last restart.

    t comes as a floating-point number in the dtype of the iterates.

    `restart` is "never", "last" (t ← 0, y ← x at the last iterate) or "random" (at a zₜ drawn
    uniformly from the steps since the last restart, for gradient-dominated problems);
    `restart_every` counts epochs.
    """

    restart: eqx.AbstractVar[str]
    restart_every: eqx.AbstractVar[int]

    @abc.abstractmethod
    def alpha(self, t: Any) -> Any:
        """αₜ ∈ [0, 1]."""

    @abc.abstractmethod
    def beta(self, t: Any) -> Any:
        """βₜ / η."""

    @abc.abstractmethod
    def lam(self, t: Any) -> Any:
        """λₜ / η."""


class Constant(MomentumSchedule):
    """α ≡ alpha, β = η, λ = (1 + alpha) η: the paper's constant momentum.

    Args:
        alpha: momentum parameter in [0, 1]; the paper's experiments use 0.8.
        restart, restart_every: see `MomentumSchedule`.

    Examples:
        >>> mvrc.MVRC(momentum=mvrc.Constant(0.5)).momentum
        Constant(weight=0.5, restart='never', restart_every=1)
    """

    weight: float
    restart: str = eqx.field(static=True)
    restart_every: int = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(
        self, alpha: float = 0.8, restart: str | bool = "never", restart_every: int = 1
    ) -> None:
        self.weight = checks.fraction("alpha", alpha)
        self.restart = _restart(restart)
        self.restart_every = checks.integer("restart_every", restart_every)

    def alpha(self, t: Any) -> Any:
        return self.weight

    def beta(self, t: Any) -> Any:
        return 1.0

    def lam(self, t: Any) -> Any:
        return 1.0 + self.weight


class Diminishing(MomentumSchedule):
    """αₜ = 2/(t+1), β = η: the paper's diminishing momentum.

    preset "experiments": λₜ = (t+3)/(t+1)·η = (1 + αₜ)η as the paper runs it (λ₀ = 3η, beyond the
    theory's 2η); preset "theory": λₜ = (1 + αₜ₊₁)η, inside the theorems' range for every t.

    Args:
        restart: True or "last" (the paper's restart at every epoch), "random", False or "never".
        restart_every: epochs between restarts.
        preset: "experiments" or "theory".

    Examples:
        >>> method = mvrc.MVRC(step_size=0.1, momentum=mvrc.Diminishing())
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    restart: str = eqx.field(static=True)
    restart_every: int = eqx.field(static=True)
    preset: str = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(
        self, restart: str | bool = True, restart_every: int = 1, preset: str = "experiments"
    ) -> None:
        self.restart = _restart(restart)
        self.restart_every = checks.integer("restart_every", restart_every)
        self.preset = checks.choice("preset", preset, ("experiments", "theory"))

    def alpha(self, t: Any) -> Any:
        return 2 / (t + 1)

    def beta(self, t: Any) -> Any:
        return 1.0

    def lam(self, t: Any) -> Any:
        return 1 + self.alpha(t if self.preset == "experiments" else t + 1)


class Momentum(MomentumSchedule):
    """Free schedules: each a number or a function of t (Optax schedules are such functions).

    Args:
        alpha: αₜ, in [0, 1] for t ≥ 1.
        beta: βₜ/η; 1 by default.
        lam: λₜ/η; 1 + αₜ₊₁ by default.
        restart, restart_every: see `MomentumSchedule`.

    Examples:
        >>> method = mvrc.MVRC(step_size=0.1, momentum=mvrc.Momentum(lambda t: 2 / (t + 2)))
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    alphas: Schedule
    betas: Schedule
    lams: Schedule | None
    restart: str = eqx.field(static=True)
    restart_every: int = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(
        self,
        alpha: Schedule,
        beta: Schedule = 1.0,
        lam: Schedule | None = None,
        restart: str | bool = "never",
        restart_every: int = 1,
    ) -> None:
        self.alphas = _schedule("alpha", alpha, checks.fraction, start=())
        self.betas = _schedule("beta", beta, checks.positive)
        self.lams = None if lam is None else _schedule("lam", lam, checks.positive)
        self.restart = _restart(restart)
        self.restart_every = checks.integer("restart_every", restart_every)

    def alpha(self, t: Any) -> Any:
        return _at(self.alphas, t)

    def beta(self, t: Any) -> Any:
        return _at(self.betas, t)

    def lam(self, t: Any) -> Any:
        return 1 + self.alpha(t + 1) if self.lams is None else _at(self.lams, t)


class Power(eqx.Module):
    """scale·k^(−exponent) for k = 1, 2, …: the step sizes and weights of the single-loop methods.

    Args:
        scale: the value at k = 1.
        exponent: how fast it falls; 0 keeps it constant.

    Examples:
        >>> mvrc.SCGD(average=mvrc.Power(1.0, 0.5)).average  # 1, 1/√2, 1/√3, …
        Power(scale=1.0, exponent=0.5)
    """

    scale: float
    exponent: float

    @checks.explain_keywords
    def __init__(self, scale: float, exponent: float = 0.0) -> None:
        self.scale = checks.positive("scale", scale)
        self.exponent = checks.fraction("exponent", exponent)

    def at(self, k: Any, dtype: Any) -> Any:
        """The value at step k."""
        return self.scale * jnp.maximum(k, 1).astype(dtype) ** -self.exponent

    def weight(self, k: Any, dtype: Any) -> Any:
        """The same as the weight of an average: cut at 1, and 1 before the first step."""
        return jnp.where(k < 1, 1, jnp.minimum(self.at(k, dtype), 1)).astype(dtype)


def _at(schedule: Any, t: Any) -> Any:
    return schedule(t) if callable(schedule) else schedule


def _schedule(
    name: str, value: Any, check: Callable[[str, Any], float], start: tuple[int, ...] = (0,)
) -> Schedule:
    """A number or a function of t, tried out at some t and traced as the compiled epoch does."""
    if not callable(value):
        return check(name, value)
    try:
        numbers = {t: value(float(t)) for t in (*start, 1, 2, 3, 10, 100, 1000, 10_000)}
        jax.eval_shape(lambda t: jnp.asarray(value(t)), np.float32(1))
    except Exception as error:
        raise ValueError(
            f"{name} must be a number or a function of the step number t, and calling it failed: "
            f"{checks.reason(error)}."
        ) from error
    for t, number in numbers.items():
        check(f"{name}({t})", number)
    return value


def _restart(value: Any) -> str:
    if isinstance(value, bool):
        return "last" if value else "never"
    return checks.choice("restart", value, RESTARTS)
