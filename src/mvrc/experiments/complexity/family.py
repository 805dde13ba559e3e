"""Problems with known constants: Lipschitz constants, variances, optimum, dominance.

With x = (t, u), a sample p of two phases and c = cos(x + p):

    g_p(x) = (t + s c₁, u + s c₂, s(c₁ + c₂)),        g(x) = E g_p(x) = (t, u, 0),
    f(y)   = shape(y₁, y₂) + y₃,                       F(x) = shape(t, u),

since the phases of n samples are equally spaced in each coordinate (their order is drawn from the
seed), or uniform online: the noise s changes what a sample says, and nothing about F. Outside,
f_q(y) = f(y) + w (cos(y₁ + q₁) + cos(y₂ + q₂)) with the mean f. Two shapes, both nonconvex:

    "flat"      (1 + t²)^(−a/2)/a + √(1 + u²) − 1: a valley that gradient descent follows for
                ε^(−(a+2)/(a+1)) steps, beside a wall that keeps steps below 2;
    "dominant"  (κ h(t) + h(u))/h''(0), h(z) = z²/2 + ¾ sin² z: F − F* ≤ (v/2)‖∇F‖² with v = ‖v₁‖/κ.

Lipschitz constants of "flat" hold everywhere; those of "dominant" for |t|, |u| ≤ `RADIUS`: no F
that is gradient dominant on all of R^d has a bounded gradient (docs/theory.md).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import mvrc
from mvrc.theory import Constants

RADIUS = 3.5  # |t|, |u| up to which the constants of "dominant" hold; runs start at 3
_BEND = 0.75  # b of h(z) = z²/2 + b sin² z: h'' between 1 − 2b < 0 and 1 + 2b
_TOP = 1 + 2 * _BEND  # h''(0)


class Inner(eqx.Module):
    """g_p(x)."""

    noise: float

    def __call__(self, x: Any, phase: Any) -> Any:
        c = self.noise * jnp.cos(x + phase)
        return jnp.concatenate([x + c, jnp.sum(c)[None]])


class Flat(eqx.Module):
    """The valley and the wall, of y₁ and y₂."""

    a: float

    def __call__(self, y: Any) -> Any:
        return (1 + y[0] ** 2) ** (-self.a / 2) / self.a + jnp.sqrt(1 + y[1] ** 2) - 1


class Dominant(eqx.Module):
    """κ h(y₁) + h(y₂), scaled to ‖∇²‖ ≤ 1."""

    kappa: float

    def __call__(self, y: Any) -> Any:
        h = y**2 / 2 + _BEND * jnp.sin(y) ** 2
        return (self.kappa * h[0] + h[1]) / _TOP


class Outer(eqx.Module):
    """f(y), or f_q(y) where a phase is given."""

    shape: Any
    noise: float

    def __call__(self, y: Any, phase: Any = None) -> Any:
        value = self.shape(y[:2]) + y[2]
        if phase is None:
            return value
        return value + self.noise * jnp.sum(jnp.cos(y[:2] + phase))


@dataclasses.dataclass(frozen=True)
class Knobs:
    """What may be turned.

    Args:
        shape: "flat" or "dominant".
        n, N: inner and outer samples; None: online.
        two_level: whether f is a mean, too.
        noise: s of the inner samples.
        outer_noise: w of the outer samples.
        a: flatness of "flat"; smaller is flatter.
        v: dominance of "dominant", at least `least_dominance()`.
        l1: weight μ of r(x) = μ‖x‖₁.
        seed: of the order of the phases.
    """

    shape: str = "flat"
    n: int | None = None
    N: int | None = None
    two_level: bool = False
    noise: float = 1.0
    outer_noise: float = 0.0
    a: float = 1.0
    v: float = 0.0
    l1: float = 0.0
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Known:
    """A problem and all that is known of it."""

    knobs: Knobs
    problem: mvrc.Composition
    x0: np.ndarray
    constants: Constants
    best: float  # Φ*
    shape: Any

    def value(self, x: Any) -> Any:
        """Φ(x), in closed form."""
        return self.shape(x) + self.knobs.l1 * jnp.sum(jnp.abs(x))

    def mapping(self, x: Any, step: float = 1.0) -> Any:
        """‖𝒢(x)‖ with λ = `step`, in closed form: ‖∇F(x)‖ where r = 0."""
        moved = x - step * jax.grad(self.shape)(x)
        if self.knobs.l1:
            moved = jnp.sign(moved) * jnp.maximum(jnp.abs(moved) - step * self.knobs.l1, 0)
        return jnp.linalg.norm(x - moved) / step


def known(knobs: Knobs) -> Known:
    """The problem of these knobs."""
    shape = Flat(knobs.a) if knobs.shape == "flat" else Dominant(_scale(knobs.v))
    inner: Any = mvrc.Stream(_draw) if knobs.n is None else phases(knobs.n, knobs.seed)
    outer: Any = None
    if knobs.two_level:
        online = knobs.N is None
        outer = mvrc.Stream(_draw) if online else phases(knobs.N or 1, knobs.seed + 1)
    problem = mvrc.Composition(
        inner=Inner(knobs.noise),
        outer=Outer(shape, knobs.outer_noise),
        inner_data=inner,
        outer_data=outer,
        regularizer=mvrc.L1(knobs.l1) if knobs.l1 else None,
    )
    x0 = np.array([1.0, 1.0]) if knobs.shape == "flat" else np.array([3.0, 3.0])
    return Known(knobs, problem, x0, constants(knobs), _best(knobs), shape)


def phases(count: int, seed: int) -> np.ndarray:
    """Equally spaced phases of both coordinates, each in an order of its own: E cos(x + p) = 0."""
    rng = np.random.default_rng(seed)
    spaced = 2 * np.pi * (np.arange(count) + 0.5) / count
    return np.stack([rng.permutation(spaced), rng.permutation(spaced)], axis=1)


def constants(knobs: Knobs) -> Constants:
    """The constants of Assumptions 1, 2, 4 and 5, each attained or a sum of what is.

    With J = g_p' = [diag(1 − s sᵢ); −s s₁, −s s₂], sᵢ = sin(xᵢ + pᵢ):
    ‖J‖² ≤ (1 + s)² + 2s², attained at s₁ = s₂ = −1; ‖J(x) − J(x')‖_F ≤ √2 s‖x − x'‖; online
    E‖g_p − g‖² and E‖g_p' − g'‖_F² are 2s². A finite sum has no need of them.
    """
    s, w = knobs.noise, knobs.outer_noise if knobs.two_level else 0.0
    if knobs.shape == "flat":
        a = knobs.a
        # |φ'| = z(1 + z²)^(−a/2−1) is largest at z² = 1/(a + 1); |ψ'| < 1.
        valley = (a + 1) ** -0.5 * ((a + 2) / (a + 1)) ** (-a / 2 - 1)
        slopes = np.array([valley + w, 1 + w])
    else:
        wall = _largest_slope() / _TOP
        slopes = np.array([_scale(knobs.v) * wall + w, wall + w])
    return Constants(
        l_f=float(np.sqrt(np.sum(slopes**2) + 1)),
        L_f=1.0 + w,
        l_g=float(np.sqrt((1 + s) ** 2 + 2 * s**2)),
        L_g=float(np.sqrt(2) * s),
        sigma_g=float(np.sqrt(2) * s),
        sigma_dg=float(np.sqrt(2) * s),
        sigma_df=w,
    )


@functools.cache
def least_dominance() -> float:
    """The smallest v there is: that of h(z)/h''(0), sup 2h/h'² · h''(0)."""
    z = np.linspace(1e-3, RADIUS, 1_000_001)
    h, slope = z**2 / 2 + _BEND * np.sin(z) ** 2, z + _BEND * np.sin(2 * z)
    return float(np.max(2 * h / slope**2) * _TOP)


def _scale(v: float) -> float:
    """κ: κF₁ has v₁/κ, and a sum of functions of other unknowns has the larger v."""
    if v < least_dominance():
        raise ValueError(f"v must be at least {least_dominance():.4g}, not {v!r}.")
    return least_dominance() / v


@functools.cache
def _largest_slope() -> float:
    z = np.linspace(0, RADIUS, 1_000_001)
    return float(np.max(np.abs(z + _BEND * np.sin(2 * z))))


def _best(knobs: Knobs) -> float:
    """Φ*: 0 at infinity or at 0; with r the least of a function of t alone."""
    if not knobs.l1 or knobs.shape == "dominant":
        return 0.0
    t = np.linspace(0, 1 / (knobs.a * knobs.l1), 2_000_001)  # beyond, μ|t| alone exceeds Φ(0)
    return float(np.min((1 + t**2) ** (-knobs.a / 2) / knobs.a + knobs.l1 * t))


def _draw(key: Any, size: int) -> Any:
    return jax.random.uniform(key, (size, 2), maxval=2 * np.pi)
