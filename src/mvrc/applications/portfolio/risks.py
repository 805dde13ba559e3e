"""What is minimised: −mean + κ·risk, the risk alone, or minus the ratio of both; the risks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.losses.robust import safe_exp

OBJECTIVES = ("utility", "risk", "ratio")


class Objective(eqx.Module):
    """f(y), with the mean y₁ and a risk ρ(y): −y₁ + κρ, ρ, or −y₁/ρ."""

    risk: Callable[[Any], Any]
    risk_aversion: float
    kind: str = eqx.field(static=True)

    def __call__(self, y: jax.Array) -> jax.Array:
        if self.kind == "utility":
            return -y[0] + self.risk_aversion * self.risk(y)
        return self.risk(y) if self.kind == "risk" else -y[0] / self.risk(y)


class Weighted(eqx.Module):
    """g of one scenario times its weight; the weights have the mean 1."""

    inner: Callable[..., Any]

    def __call__(self, x: Any, sample: dict[str, jax.Array]) -> Any:
        return sample["weight"] * self.inner(x, sample["returns"])


def moments(x: jax.Array, r: jax.Array) -> jax.Array:
    earned = r @ x
    return jnp.stack([earned, earned**2])


def variance(y: jax.Array) -> jax.Array:
    return y[1] - y[0] ** 2


def deviation(y: jax.Array) -> jax.Array:
    """The standard deviation; of an estimate that is not positive that of rounding."""
    return jnp.sqrt(jnp.maximum(variance(y), jnp.finfo(y.dtype).eps * y[1]))


def second(y: jax.Array) -> jax.Array:
    return y[1]


class Root(eqx.Module):
    """√y₂; below δ² the root is its tangent, as an estimate of y₂ may be negative."""

    delta: float

    def __call__(self, y: jax.Array) -> jax.Array:
        tangent = (y[1] + self.delta**2) / (2 * self.delta)
        root = jnp.sqrt(jnp.maximum(y[1], self.delta**2))
        return jnp.where(y[1] > self.delta**2, root, tangent)


class Shortfall(eqx.Module):
    mean: np.ndarray
    width: float

    def __call__(self, x: jax.Array, r: jax.Array) -> jax.Array:
        return jnp.stack([r @ x, smooth_plus((self.mean - r) @ x, self.width)])


class SquaredShortfall(eqx.Module):
    mean: np.ndarray

    def __call__(self, x: jax.Array, r: jax.Array) -> jax.Array:
        return jnp.stack([r @ x, jnp.maximum((self.mean - r) @ x, 0) ** 2])


class TailLoss(eqx.Module):
    tail: float  # 1 − β
    width: float

    def __call__(self, z: dict[str, jax.Array], r: jax.Array) -> jax.Array:
        earned = r @ z["weights"]
        over = smooth_plus(-earned - z["threshold"], self.width)
        return jnp.stack([earned, z["threshold"] + over / self.tail])


class Exponential(eqx.Module):
    """(rᵀx, e^{−θrᵀx}), the exponential as `losses.tilted` continues it."""

    theta: float

    def __call__(self, x: jax.Array, r: jax.Array) -> jax.Array:
        earned = r @ x
        return jnp.stack([earned, safe_exp(-self.theta * earned)])


class Entropic(eqx.Module):
    """log(y₂)/θ."""

    theta: float

    def __call__(self, y: jax.Array) -> jax.Array:
        return jnp.log(y[1]) / self.theta


class ScaledExponential(eqx.Module):
    """(rᵀx, z, e^{−rᵀx/z})."""

    def __call__(self, x: dict[str, jax.Array], r: jax.Array) -> jax.Array:
        earned = r @ x["weights"]
        return jnp.stack([earned, x["scale"], jnp.exp(-earned / x["scale"])])


class EntropicAtRisk(eqx.Module):
    """y₂ log(y₃/(1 − β))."""

    tail: float  # 1 − β

    def __call__(self, y: jax.Array) -> jax.Array:
        least = jnp.finfo(y.dtype).tiny  # of an estimate that is not positive
        return y[1] * jnp.log(jnp.maximum(y[2], least) / self.tail)


def smooth_plus(u: Any, width: Any) -> jax.Array:
    """(u)₊, with (u + μ/2)²/(2μ) on |u| ≤ μ/2: convex, slope 1/μ-Lipschitz."""
    near = jnp.clip(u + width / 2, 0, width)
    return near**2 / (2 * width) + jnp.maximum(u - width / 2, 0)
