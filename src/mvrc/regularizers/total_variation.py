"""Total variation of a vector: the class, and the exact algorithm of its prox."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from mvrc.regularizers.base import (
    Regularizer,
    each,
    number,
    one_step,
    refuse_unless_axes,
    refuse_unless_weight,
)
from mvrc.regularizers.penalties import L1
from mvrc.support import checks


@checks.explain_init
class TotalVariation1D(Regularizer):
    """r(x) = weight Σᵢ |xᵢ₊₁ − xᵢ| for a vector x; the prox is exact up to rounding.

    With λ = step·weight, the prox is constant on segments, where it equals the mean of x plus
    λ(sign of the jump after − sign of the jump before) / length. Starting from one segment of
    level c, the coordinates above c are θ = 1 in min_θ Σᵢ (c − xᵢ) θᵢ + λ Σᵢ |θᵢ₊₁ − θᵢ| over
    θ ∈ {0, 1}ᵈ: a θ that varies splits the segment, a constant one certifies it. All segments are
    treated at once; a round costs O(d log d), and there are usually about log d, at most d.
    (Chambolle and Darbon 2009, On total variation minimization and surface evolution using
    parametric maximum flows.)

    Examples:
        >>> r = mvrc.TotalVariation1D(1.0)
        >>> r.prox(np.array([0.0, 0.0, 9.0]), 1.0)
        Array([0.5, 0.5, 8. ], dtype=float32)
    """

    weight: ArrayLike = eqx.field(converter=number)

    def __check_init__(self) -> None:
        refuse_unless_weight(self)

    def check(self, x: Any) -> None:
        refuse_unless_axes(self, x, 1, "vector")

    def value(self, x: Any) -> jax.Array:
        return L1(self.weight).value(jnp.diff(x))

    def prox(self, x: Any, step: Any) -> Any:
        step = one_step(step)
        return each(lambda y, weight, s: _total_variation_prox(y, s * weight), x, self.weight, step)


def _total_variation_prox(x: jax.Array, threshold: jax.Array) -> jax.Array:
    """See `TotalVariation1D`; jump[i] ∈ {−1, 0, 1} is the sign of the step from i to i + 1."""

    def split(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        jump, _ = state
        above = _above(x, threshold, _levels(x, threshold, jump), jump).astype(x.dtype)
        finer = jnp.where(jump == 0, jnp.diff(above, append=above[-1:]), jump)
        return finer, jnp.any(finer != jump)

    start = (jnp.zeros_like(x), jnp.asarray(True))
    jump, _ = jax.lax.while_loop(lambda state: state[1], split, start)
    return _levels(x, threshold, jump)


def _levels(x: jax.Array, threshold: jax.Array, jump: jax.Array) -> jax.Array:
    """The level of each coordinate's segment."""
    before = jnp.roll(jump, 1)  # the last jump is 0
    segment = jnp.cumsum(before != 0)
    sizes = jax.ops.segment_sum(jnp.ones_like(x), segment, x.size)

    def correct(levels: jax.Array) -> jax.Array:
        excess = x - levels + threshold * (jump - before)
        means = jax.ops.segment_sum(excess, segment, x.size) / jnp.maximum(sizes, 1)
        return levels + means[segment]

    # Twice: partial sums of x − levels stay within 2·threshold, so the second mean is exact up to
    # the rounding of one number, whatever the length.
    return correct(correct(jnp.zeros_like(x)))


def _above(x: jax.Array, threshold: jax.Array, levels: jax.Array, jump: jax.Array) -> jax.Array:
    """θ of `TotalVariation1D` for every segment, by dynamic programming.

    mᵢ = (cost of θᵢ = 1) − (cost of θᵢ = 0) over the coordinates up to i follows
    mᵢ = clip(mᵢ₋₁, −λ, λ) + levelᵢ − xᵢ; then θᵢ = 1 if mᵢ < −λ, 0 if mᵢ > λ, else θᵢ₊₁. Next to
    another segment, mᵢ₋₁ is ±λ and θᵢ₊₁ is known. The maps m ↦ clip(m + shift, low, high) are
    closed under composition: a prefix product by doubling, with no sequential pass.
    """
    size, index = x.size, jnp.arange(x.size)
    before = jnp.roll(jump, 1)
    free = (before == 0) & (index > 0)
    slope = levels - x
    low = slope + jnp.where(free, -threshold, threshold * before)
    high = slope + jnp.where(free, threshold, threshold * before)

    def double(k: jax.Array, maps: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        def earlier(entries: jax.Array, identity: float) -> jax.Array:
            padded = jnp.concatenate([jnp.full_like(entries, identity), entries])
            return jax.lax.dynamic_slice(padded, (size - 2**k,), (size,))

        shift, low, high = maps
        first = earlier(shift, 0.0), earlier(low, -jnp.inf), earlier(high, jnp.inf)
        ends = [jnp.clip(end + shift, low, high) for end in first[1:]]
        return first[0] + shift, *ends

    rounds = (size - 1).bit_length()
    message = jax.lax.fori_loop(0, rounds, double, (slope, low, high))[1]
    known = (jnp.abs(message) > threshold) | (jump != 0) | (index == size - 1)
    following = jax.lax.cummin(jnp.where(known, index, size), reverse=True)
    return (message < threshold * jump)[following]
