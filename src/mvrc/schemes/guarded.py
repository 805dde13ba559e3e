"""The accelerated MVRC momentum, assessed at every refresh and rejected when Φ rose."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mvrc.oracle import Oracle, Vector
from mvrc.sampling import Batch
from mvrc.schemes.assessing import (
    ACCEPTED,
    BROKEN,
    LONGER,
    REJECTED,
    Log,
    assess,
    choose,
    first_log,
    mapping_norm,
    rounding,
)
from mvrc.schemes.base import Penalty, Scheme

_RUN = 2  # successes in a row after which steps grow
_PAUSE = 4  # successes more that are asked for after a failure
_GROWTH = 1.5
_SPREAD = 1024  # samples from which the standard error of Φ is told


class GuardedState(NamedTuple):
    """The momentum's pair of sequences, and the last good refresh."""

    x: Vector  # xₜ
    y: Vector  # yₜ
    t: Any  # steps since the momentum was restarted
    good: Vector  # the point of the last good refresh
    estimate: Any  # its estimate; None before the first
    noise: Any  # standard error of Φ there
    run: Any  # successes in a row, negative after a failure
    log: Log


class GuardedScheme(Scheme):
    """MVRC's momentum beyond the theorems' range of λ, restarted at every refresh:

        αₜ = 2/(min(t, cap) + 2),   λₜ = β/αₜ₊₁,
        zₜ = (1 − αₜ₊₁)yₜ + αₜ₊₁xₜ,   xₜ₊₁ = prox_{λₜr}(xₜ − λₜvₜ),
        yₜ₊₁ = zₜ + (β/λₜ)(xₜ₊₁ − xₜ) = (1 − αₜ₊₁)yₜ + αₜ₊₁xₜ₊₁,

    so y stays where r is finite. The momentum starts anew (t = 0, x = y) when it points uphill,
    ⟨vₜ, yₜ₊₁ − yₜ⟩ > 0. β = η times a factor that is halved when Φ rose at a refresh beyond its
    noise (and the run goes back to the refresh before), and grows after two successes in a row.

    Args:
        step_size: η.
        cap: the t from which α and λ stay.
        noisy: whether Φ at a refresh has a standard error, as from a stream.
    """

    refreshes_at_query: ClassVar[bool] = True
    safeguarded: ClassVar[bool] = True

    step_size: float
    cap: int = eqx.field(static=True, default=16)
    noisy: bool = eqx.field(static=True, default=False)
    empty: Any = None  # an estimate of zeros, the structure of what is kept

    def init(self, x: Vector) -> GuardedState:
        zero, none = np.zeros((), x.dtype), np.int32(0)
        return GuardedState(x, x, none, x, self.empty, zero, none, first_log(x, self.step_size))

    def begin(self, state: GuardedState) -> GuardedState:
        return state

    def anchor(self, state: GuardedState) -> Vector:
        return state.x

    def query(self, state: GuardedState) -> Vector:
        alpha = self._alpha(state)
        return (1 - alpha) * state.y + alpha * state.x

    def assess(
        self, state: GuardedState, estimate: Any, v: Vector, objective: Any, oracle: Oracle
    ) -> tuple[GuardedState, Any]:
        log, point = state.log, state.x
        mapping = mapping_norm(point, v, self.step_size, oracle)
        known = jnp.isfinite(log.objective)
        error = self._standard_error(point, estimate, oracle)
        # Far away Φ is noisy, too: what explains a rise is not more than the noise at a good point.
        error = jnp.where(known, jnp.minimum(error, 2 * state.noise), error)
        noise = rounding(objective, estimate) + 2 * jnp.sqrt(error**2 + state.noise**2)
        assessed = assess(objective, mapping, log, noise, v)
        accept, moved = assessed.accept, assessed.moved
        if self.noisy:  # a rise within the noise is none, and the point has moved on
            level = assessed.finite & (objective <= log.objective + noise)
            accept, moved = accept | level, accept & (objective < log.objective - noise)
        run = jnp.where(accept, state.run + moved, -_PAUSE)
        grow = accept & known & (run >= _RUN)
        factor = jnp.where(accept, 1, jnp.where(assessed.finite, 0.5, 0.25))
        step = log.step * jnp.where(grow, _GROWTH, factor).astype(point.dtype)
        decision = jnp.where(assessed.finite, REJECTED, BROKEN)
        decision = jnp.where(accept, jnp.where(grow, LONGER, ACCEPTED), decision)
        tiny = 4 * jnp.finfo(point.dtype).eps * jnp.linalg.norm(state.good)
        close = jnp.linalg.norm(point - state.good) <= tiny
        lost = jnp.abs(objective - log.objective) <= noise
        stalled = log.stalled + (close | lost | self.noisy)
        good = jnp.where(accept, point, state.good)
        estimate = choose(accept, estimate, state.estimate)
        mapping = jnp.where(accept, mapping, log.mapping)
        kept = jnp.where(assessed.accept, objective, log.objective)
        if self.noisy:  # a low value may be luck: what is level is averaged, not the lowest kept
            kept = jnp.where(accept & ~moved & known, (log.objective + objective) / 2, kept)
            kept = jnp.where(accept | ~known, kept, kept + noise / 4)
        log = Log(
            decision=decision.astype(jnp.int32),
            objective=kept,
            mapping=mapping,
            step=step,
            stalled=jnp.where(moved | ~known, 0, stalled).astype(jnp.int32),
        )
        noise = jnp.where(assessed.accept, error, state.noise)
        run = jnp.where(grow, 0, run).astype(jnp.int32)
        return GuardedState(good, good, jnp.int32(0), good, estimate, noise, run, log), estimate

    def advance(self, state: GuardedState, v: Vector, penalty: Penalty) -> GuardedState:
        alpha = self._alpha(state)
        lam = state.log.step / alpha
        x = penalty.prox(state.x - lam * v, lam)
        y = (1 - alpha) * state.y + alpha * x
        uphill = jnp.vdot(v, y - state.y) > 0
        t = jnp.where(uphill, 0, state.t + 1).astype(jnp.int32)
        return state._replace(x=jnp.where(uphill, y, x), y=y, t=t)

    def point(self, state: GuardedState) -> Vector:
        return state.good

    def log(self, state: GuardedState) -> Log:
        return state.log

    def restarts(self) -> tuple[str, int]:
        return "never", 1

    def _alpha(self, state: GuardedState) -> Any:
        t = jnp.minimum(state.t + 1, self.cap).astype(state.x.dtype)
        return 2 / (t + 2)

    def _standard_error(self, point: Vector, estimate: Any, oracle: Oracle) -> Any:
        """Of Φ at a refresh from part of the samples: that of ⟨∇f, gᵢ⟩, and of fₖ outside."""
        zero = jnp.zeros((), point.dtype)
        if not self.noisy:
            return zero
        inner, outer = oracle.batch("values"), oracle.batch("outer")
        assert inner is not None
        error = zero
        if not inner.complete:
            projected = oracle.projected(point, estimate.outer, _first(inner))
            error = jnp.var(projected) / inner.size
        if outer is not None and not outer.complete:
            error = (
                error
                + jnp.var(oracle.functions.outer_values(estimate.inner, _first(outer))) / outer.size
            )
        return jnp.sqrt(error)


def _first(batch: Batch) -> Any:
    """Some samples of a batch, enough for a variance."""
    return batch.piece(0, min(batch.size, _SPREAD))
