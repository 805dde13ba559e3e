"""Sums of absolute values within bounds, coordinate by coordinate, and with them linear rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mvrc.support.numerics import divide, namespace

STEPS = 240  # most Newton steps on the multipliers; a few are enough nearly always
NEWTON = 4  # so many of them for each turn over the rows
ROUNDINGS = 8.0  # of x: rows that hold so well hold


class Pieces(NamedTuple):
    """h(x) = Σₖ wₖ|x − cₖ| on low ≤ x ≤ high, for each coordinate; its prox is piecewise linear."""

    centres: Any  # K × d, sorted
    slopes: Any  # (K + 1) × d: h' left of all centres, between them, right of all
    low: Any  # d
    high: Any  # d

    def prox(self, v: Any, s: Any) -> Any:
        """argmin h(x) + (x − v)²/2s: the median of the centres and v − s h', within the bounds."""
        xp, count = namespace(v), len(self.centres)
        if count == 1:
            v = xp.clip(self.centres[0], v - s * self.slopes[1], v - s * self.slopes[0])
        elif count:
            candidates = xp.concatenate([self.centres, v - s * self.slopes])
            v = xp.sort(candidates, axis=0)[count]
        return xp.clip(v, self.low, self.high)

    def free(self, x: Any) -> Any:
        """Where the prox moves with v."""
        inside = (x > self.low) & (x < self.high)
        return inside & (x != self.centres).all(axis=0) if len(self.centres) else inside

    def breaks(self, s: Any) -> Any:
        """The v at which a coordinate of the prox starts or stops to move."""
        xp = namespace(self.low)
        centres, slopes = self.centres, self.slopes
        within = [self.low, self.high]
        if len(centres):
            at_low = (centres <= self.low).sum(axis=0)[None]
            at_high = (centres < self.high).sum(axis=0)[None]
            within = [
                bound + s * xp.take_along_axis(slopes, at, axis=0)[0]
                for bound, at in zip(within, (at_low, at_high), strict=True)
            ]
        ends = xp.stack(within)
        return xp.concatenate([centres + s * slopes[:-1], centres + s * slopes[1:], ends])


def pieces(kinks: list[tuple[Any, Any]], low: Any, high: Any) -> Pieces:
    """From pairs (weight, centre) and bounds, all of d numbers."""
    xp = namespace(low)
    if not kinks:
        none = xp.zeros((0, *low.shape), low.dtype)
        return Pieces(none, xp.zeros((1, *low.shape), low.dtype), low, high)
    weights, centres = (xp.stack(part) for part in zip(*kinks, strict=True))
    order = xp.argsort(centres, axis=0)
    centres, weights = (xp.take_along_axis(part, order, axis=0) for part in (centres, weights))
    up = xp.concatenate([xp.zeros((1, *low.shape), low.dtype), 2 * xp.cumsum(weights, axis=0)])
    return Pieces(centres, up - weights.sum(axis=0), low, high)


def on_one_row(h: Pieces, w: Any, s: Any, row: Any, below: Any, above: Any) -> Any:
    """prox of h at w where below ≤ ⟨row, x⟩ ≤ above, exactly: the root in one multiplier τ.

    x(τ) = prox_h(w − sτ·row), whose ⟨row, x⟩ falls with τ. With w moved by the first τ the small
    numbers have all their digits.
    """
    w = w - s * _multiplier(h, w, s, row, below, above) * row
    return h.prox(w - s * _multiplier(h, w, s, row, below, above) * row, s)


def on_rows(h: Pieces, w: Any, s: Any, rows: Any, below: Any, above: Any) -> Any:
    """The same for several rows, in JAX: x(λ) = prox_h(w − sAᵀλ), with multipliers λ.

    The dual is maximised by Newton steps on the active rows, of the best length, and now and then
    over one multiplier after another, each exactly (Hildreth 1957), which converges from anywhere.
    The residual Ax − P(Ax + λ/c) is 0 at the solution alone.
    """
    eps = jnp.finfo(w.dtype).eps
    reach = 1 / jnp.maximum((s * rows**2).sum(axis=1), jnp.finfo(w.dtype).tiny)  # c

    def at(multipliers: Any) -> tuple[Any, Any]:
        x = h.prox(w - s * (multipliers @ rows), s)
        return x, rows @ x

    def residual(multipliers: Any) -> Any:
        x, y = at(multipliers)
        gap = jnp.abs(y - jnp.clip(y + multipliers / reach, below, above))
        size = jnp.abs(rows) @ jnp.abs(x)
        return jnp.max(gap / jnp.maximum(size, jnp.finfo(w.dtype).tiny))

    def turn(i: Any, multipliers: Any) -> Any:
        others = multipliers.at[i].set(0)
        rest = w - s * (others @ rows)
        return others.at[i].set(_multiplier(h, rest, s, rows[i], below[i], above[i]))

    def newton(multipliers: Any) -> Any:
        change, target = _newton(h, *at(multipliers), s, rows, below, above, multipliers)
        back = (below < above) & (multipliers * change < 0)  # it may come back to 0, not beyond
        most = jnp.min(jnp.where(back, -multipliers / jnp.where(back, change, 1), jnp.inf))
        # The best length, exactly: singular systems, where nothing is free, do no harm.
        here, goal = w - s * (multipliers @ rows), change @ target
        length = _multiplier(h, here, s, change @ rows, goal, goal)
        length = jnp.clip(length, 0, most)
        trial = multipliers + length * change
        trial = jnp.where(back & (jnp.abs(trial) <= 4 * eps * jnp.abs(multipliers)), 0, trial)
        return jnp.where(jnp.all(jnp.isfinite(trial)), trial, multipliers)

    def advance(state: Any) -> Any:
        multipliers, best, size, k = state
        turns = jnp.where(k % NEWTON == NEWTON - 1, len(rows), 0)
        multipliers = newton(jax.lax.fori_loop(0, turns, turn, multipliers))
        now = residual(multipliers)
        return multipliers, jnp.where(now < size, multipliers, best), jnp.minimum(now, size), k + 1

    def going(state: Any) -> Any:
        return (state[2] > ROUNDINGS * eps) & (state[3] < STEPS)

    start = jnp.zeros(len(rows), w.dtype)
    state = start, start, residual(start), jnp.int32(0)
    multipliers = jax.lax.while_loop(going, advance, state)[1]
    x, y = at(multipliers)
    last, _ = _newton(h, x, y, s, rows, below, above, multipliers)
    finer = h.prox(w - s * (multipliers @ rows) - s * (last @ rows), s)  # with all digits
    misses = [jnp.abs(rows @ u - jnp.clip(rows @ u, below, above)).sum() for u in (x, finer)]
    return jnp.where(misses[1] < misses[0], finer, x)


def _newton(
    h: Pieces, x: Any, y: Any, s: Any, rows: Any, below: Any, above: Any, multipliers: Any
) -> tuple[Any, Any]:
    """The change of λ after which the active rows would hold, if no piece changed; their bounds."""
    upper = (multipliers > 0) | ((multipliers == 0) & (y > above))
    lower = (multipliers < 0) | ((multipliers == 0) & (y < below))
    active = upper | lower | (below == above)
    target = jnp.where(active, jnp.where(upper, above, below), 0)
    gap = jnp.where(active, y - target, 0)
    moving = rows * active[:, None]
    matrix = (moving * (s * h.free(x))) @ moving.T
    floor = 4 * len(rows) * jnp.finfo(x.dtype).eps * jnp.max((s * rows**2).sum(axis=1))
    matrix = matrix + jnp.diag(jnp.where(active, floor, 1.0))
    change = jnp.linalg.solve(matrix, gap)
    wrong = (below < above) & (multipliers == 0) & jnp.where(upper, change < 0, change > 0)
    return jnp.where(jnp.isfinite(change) & active & ~wrong, change, 0), target


def _multiplier(h: Pieces, w: Any, s: Any, row: Any, below: Any, above: Any) -> Any:
    """τ with ⟨row, prox_h(w − sτ·row)⟩ in [below, above]; the one nearest to 0."""
    before = row @ h.prox(w, s)
    violated = (before > above) | (before < below)
    target = jnp.where(violated, jnp.where(before > above, above, below), before)
    scaled = s * row
    at = divide(w - h.breaks(s), jnp.abs(scaled)) * jnp.sign(row)
    # 0 where there is none: a break more does no harm.
    breaks = jnp.sort(jnp.where(jnp.isfinite(at), at, 0).ravel())
    last = breaks.size - 1

    def halve(_: Any, ends: Any) -> Any:
        low, high = ends
        middle = (low + high) // 2
        enough = row @ h.prox(w - scaled * breaks[jnp.maximum(middle, 0)], s) >= target
        return (
            jnp.where(enough & (high - low > 1), middle, low),
            jnp.where(enough | (high - low <= 1), high, middle),
        )

    low, high = jax.lax.fori_loop(0, (last + 2).bit_length(), halve, (-1, last + 1))
    left, right = breaks[jnp.maximum(low, 0)], breaks[jnp.minimum(high, last)]
    inner = (low >= 0) & (high <= last)
    away = jnp.where(low < 0, -1 - abs(left), 1 + abs(right))  # a point of the first, last piece
    middle = jnp.where(inner, (left + right) / 2, left + away)
    x = h.prox(w - scaled * middle, s)
    slope = (scaled * row * h.free(x)).sum()
    root = middle + divide(row @ x - target, slope)
    root = jnp.where(inner, jnp.clip(root, left, right), root)
    return jnp.where(violated, root, 0).astype(w.dtype)
