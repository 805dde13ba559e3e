"""Assessing a refresh, where Φ and ∇F are known: was it progress, did it move?

For the guarded momentum, which keeps the last good point and goes back to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.oracle import Oracle, Vector

PATIENCE = 3  # assessed points in a row without measurable progress before a run gives up
NOISY_PATIENCE = 10  # the same where Φ is an estimate


# What a safeguarded run decided at an epoch: places in DECISIONS.
DECISIONS = (
    "",  # nothing decided yet
    "accepted",
    "accepted, longer steps",
    "rejected, shorter steps",
    "rejected, not finite",
)
ACCEPTED, LONGER, REJECTED, BROKEN = 1, 2, 3, 4


class Log(NamedTuple):
    """What a scheme decided last and what it knows of the point that it keeps; one per seed."""

    decision: Any  # place in DECISIONS
    objective: Any  # Φ
    mapping: Any  # ‖𝒢_η‖
    step: Any  # length of a step: η times a factor
    stalled: Any  # assessed points in a row without measurable progress


def first_log(like: Vector, step: Any) -> Log:
    """Before anything is assessed."""
    none, infinite = np.int32(0), np.asarray(np.inf, like.dtype)
    return Log(none, infinite, infinite, np.asarray(step, like.dtype), none)


def rounding(objective: Any, estimate: Any) -> Any:
    """How much of Φ = f(g̃) + r is rounding: that of f, and of g̃ carried through f."""
    carried = jnp.vdot(jnp.abs(estimate.outer), jnp.abs(estimate.inner))
    size = jnp.abs(objective) + carried
    return 4 * jnp.finfo(estimate.inner.dtype).eps * jnp.where(jnp.isfinite(size), size, 0)


def mapping_norm(point: Vector, v: Vector, step: Any, oracle: Oracle) -> Any:
    """‖𝒢_step‖ at a point with gradient v."""
    return jnp.linalg.norm(point - oracle.prox(point - step * v, step)) / step


class Assessed(NamedTuple):
    """On a trial point against the good one."""

    accept: Any
    finite: Any
    moved: Any  # whether progress could be measured


def assess(objective: Any, mapping: Any, good: Log, noise: Any, v: Vector) -> Assessed:
    """A fall of Φ beyond the noise is progress; within it the gradient mapping decides."""
    finite = jnp.isfinite(objective) & jnp.all(jnp.isfinite(v)) & jnp.isfinite(mapping)
    fell = objective < good.objective - noise
    level = jnp.abs(objective - good.objective) <= noise
    first = ~jnp.isfinite(good.objective)
    accept = finite & (fell | first | (level & (mapping < good.mapping)))
    moved = accept & (fell | first | (mapping < 0.9 * good.mapping))
    return Assessed(accept, finite, moved)


def choose(flag: Any, yes: Any, no: Any) -> Any:
    """`yes` where the flag holds, for two states of one structure."""
    return jax.tree_util.tree_map(lambda a, b: jnp.where(flag, a, b), yes, no)
