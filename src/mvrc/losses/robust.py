"""Losses that emphasise the worst samples: log E exp, and the worst case over a χ² ball."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.problem import Composition
from mvrc.regularizers import Regularizer
from mvrc.support import calls, checks

Loss = Callable[[Any, Any], Any]


def tilted(
    loss: Loss,
    data: Any,
    t: float = 1.0,
    shift: float = 0.0,
    regularizer: Regularizer | None = None,
) -> Composition:
    """min over x of (1/t) log E exp(t ℓ(x)), the tilted or KL-robust loss (Li et al., 2021).

    g = exp(t(ℓ − c)) and f(y) = c + log(y)/t, with c = `shift`. For t → 0 it is the mean, for
    t → ∞ the largest loss. Exponents t(ℓ − c) beyond ±E, E = 60 in float32 and 500 in float64, are
    continued by a line above and a hyperbola below, so that nothing overflows or vanishes; the
    value is exact while the largest exponent is within. Choose c near the largest loss of the
    samples at the start, or leave 0 when t·ℓ stays below E.

    Args:
        loss: `ℓ(x, sample)`, a number.
        data: samples, as `inner_data` of `Composition`.
        t: how much more the large losses count; positive.
        shift: c.
        regularizer: r of the problem.

    Examples:
        >>> from mvrc import losses
        >>> loss = lambda x, s: (s[:2] @ x - s[2]) ** 2 / 2
        >>> mvrc.minimize(losses.tilted(loss, returns, t=0.5), np.zeros(2)).status.name
        'CONVERGED'
    """
    return Composition(*tilted_functions(loss, t, shift), data, regularizer=regularizer)


def tilted_functions(loss: Loss, t: float = 1.0, shift: float = 0.0) -> tuple[Any, Any]:
    """g and f of the tilted loss, as `mvrc.tracker` takes them."""
    calls.check_function("loss(x, sample)", loss)
    t = checks.positive("t", t)
    shift = checks.finite("shift", shift)

    def inner(x: Any, sample: Any) -> Any:
        return jnp.atleast_1d(safe_exp(t * (_number(loss, x, sample) - shift)))

    return inner, lambda y: shift + jnp.log(y[0]) / t


def tilted_value(losses: Any, t: float) -> float:
    """(1/t) log of the mean of exp(tℓ), exactly.

    Examples:
        >>> from mvrc import losses
        >>> round(float(losses.tilted_value(np.array([0.0, 1.0]), t=1.0)), 4)  # log((1 + e)/2)
        0.6201
    """
    scaled = t * np.asarray(losses, np.float64)
    top = scaled.max()
    return float((top + np.log(np.mean(np.exp(scaled - top)))) / t)


def safe_exp(e: Any) -> Any:
    """eᵉ, beyond ±E continued by a line and a hyperbola, with their derivatives."""
    most = 60.0 if e.dtype == jnp.float32 else 500.0
    inside = jnp.clip(e, -most, most)
    above, below = jnp.maximum(e - most, 0), jnp.maximum(-most - e, 0)
    return jnp.exp(inside) * (1 + above) / (1 + below)


class WithEta(NamedTuple):
    """The unknowns of `chi2_robust`."""

    x: Any  # those of the loss
    eta: Any  # the level above which losses count


def chi2_robust(
    loss: Loss, data: Any, radius: float, smooth: float = 1e-3,
    regularizer: Regularizer | None = None,
) -> Composition:  # fmt: skip
    """min over x of the worst E_q ℓ(x) with ½E(q/p − 1)² ≤ ρ, in its dual form

        min over x and η of   η + √(1 + 2ρ) · √E (ℓ(x) − η)₊²

    (Duchi & Namkoong, 2021). The unknowns are `WithEta(x, eta)`; start eta at a typical loss. That
    mean + √(2ρ Var) is the same holds for small ρ only, as long as no weight q becomes negative.

    Args:
        loss: `ℓ(x, sample)`, a number.
        data: samples.
        radius: ρ.
        smooth: δ; the root is √(· + δ²), and the value at most √(1 + 2ρ)δ too high.
        regularizer: r, of `WithEta`; `mvrc.Parts` takes one for each part.

    Examples:
        >>> from mvrc import losses
        >>> loss = lambda x, s: (s[:2] @ x - s[2]) ** 2 / 2
        >>> robust = losses.chi2_robust(loss, returns, radius=0.1)
        >>> type(robust).__name__
        'Composition'
    """
    calls.check_function("loss(x, sample)", loss)
    radius = checks.positive("radius", radius)
    smooth = checks.positive("smooth", smooth)
    factor = math.sqrt(1 + 2 * radius)

    def inner(z: WithEta, sample: Any) -> Any:
        above = jnp.maximum(_number(loss, z.x, sample) - z.eta, 0)
        return jnp.stack([above**2, jnp.asarray(z.eta, above.dtype)])

    def outer(y: Any) -> Any:
        return y[1] + factor * jnp.sqrt(y[0] + smooth**2)

    return Composition(inner, outer, data, regularizer=regularizer)


def chi2_value(losses: Any, radius: float) -> float:
    """The worst mean of the losses in the χ² ball, exactly: the dual by bisection in η.

    Examples:
        >>> from mvrc import losses
        >>> round(losses.chi2_value(np.array([0.0, 1.0]), radius=0.02), 4)  # ½ + √(2ρ)·½
        0.6
    """
    losses = np.asarray(losses, np.float64)
    factor = math.sqrt(1 + 2 * radius)

    def slope(eta: float) -> float:
        above = np.maximum(losses - eta, 0)
        root = math.sqrt(np.mean(above**2))
        return 1 - factor * np.mean(above) / root if root else 1.0

    high = losses.max()
    low = losses.min() - 1
    while slope(low) > 0:
        low -= 2 * (high - low)
        if low < -1e12 * (1 + abs(high)):
            break
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return float(low + factor * math.sqrt(np.mean(np.maximum(losses - low, 0) ** 2)))


def _number(loss: Loss, x: Any, sample: Any) -> Any:
    """The loss of a sample, which must be one number."""
    value = jnp.asarray(loss(x, sample))
    if value.size != 1:
        raise ValueError(f"loss(x, sample) has shape {value.shape}; it must be a single number.")
    return jax.lax.reshape(value, ())
