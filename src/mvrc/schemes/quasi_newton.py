"""Proximal steps on a model of the curvature, each judged at the refresh that follows."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.oracle import Counts, Oracle, Vector
from mvrc.regularizers import Zero
from mvrc.schemes import curvature
from mvrc.schemes.base import PlainScheme, Prox
from mvrc.schemes.judging import (
    ACCEPTED,
    BACK,
    BROKEN,
    LONGER,
    Log,
    first_log,
    judge,
    mapping_norm,
    rounding,
    whole_prox,
)

_SURPRISE = 0.3  # share of a change of the gradient above which the curvature is measured anew


class QuasiNewtonState(NamedTuple):
    """The good point, the point to be judged next, and the model."""

    x: Vector
    v: Vector  # ∇F(x)
    trial: Vector
    model: Any
    age: Any  # points accepted since the curvature was measured
    pieces: Any  # of the samples, for the next measurement
    damping: Any  # δ
    promise: Any  # decrease of Φ that the model promised at the trial point
    log: Log


class Look(NamedTuple):
    """How the curvature is measured: on `first` pieces of `rows` samples, on up to `most` later."""

    rows: int
    first: int
    most: int


class QuasiNewtonScheme(PlainScheme):
    """Query the trial point u; when it is better than x it becomes x. Then

        u = argmin ⟨∇F(x), u − x⟩ + ½⟨u − x, (B + δI)(u − x)⟩ + r(u).

    B is ∇²F from part of the samples, measured again when it did not foresee a change of the
    gradient (from all that `look` allows when it was new), and between two measurements brought up
    to date by BFGS; without `look` it is limited-memory BFGS. A trial that is no progress, or
    little of what the model promised, raises δ; one that kept most of the promise lowers it.

    Args:
        step_size: η of the gradient mapping; 1/η is the first curvature without `look`.
        first: the first trial point; x0 when None.
        look: the samples for a measurement of the curvature; None: secants only.
        memory: secants that are kept without `look`.
    """

    judges: ClassVar[bool] = True
    takes_composed: ClassVar[bool] = True

    step_size: float
    first: Any = None
    look: Look | None = eqx.field(static=True, default=None)
    memory: int = eqx.field(static=True, default=10)

    def start(self, x: Vector) -> QuasiNewtonState:
        trial = x if self.first is None else self.first
        zero = np.zeros((), x.dtype)
        bend = np.asarray(1 / self.step_size, x.dtype)
        model: curvature.Model
        if self.look is None:
            none = jnp.asarray(np.zeros((self.memory, x.size), x.dtype))
            model = curvature.Secants(bend, none, none)
        else:
            model = curvature.Matrix(jnp.asarray(bend * np.eye(x.size, dtype=x.dtype)))
        pieces = np.int32(0 if self.look is None else self.look.first)
        slope = jnp.asarray(np.zeros(x.shape, x.dtype))
        return QuasiNewtonState(
            x, slope, trial, model, np.int32(0), pieces, zero, zero, first_log(x, 1.0)
        )

    def query(self, state: QuasiNewtonState) -> Vector:
        return state.trial

    def judge(
        self, state: QuasiNewtonState, estimate: Any, v: Vector, objective: Any, oracle: Oracle
    ) -> tuple[QuasiNewtonState, Any]:
        log, trial = state.log, state.trial
        mapping = mapping_norm(trial, v, self.step_size, oracle)
        noise = rounding(objective, estimate)
        verdict = judge(objective, mapping, log, noise, v)
        accept, finite = verdict.accept, verdict.finite
        known = jnp.isfinite(log.objective)  # whether there is a good point with a gradient

        s, y = trial - state.x, v - state.v
        usable = known & finite
        s, y = jnp.where(usable, s, 0), jnp.where(usable, y, 0)
        missed = curvature.surprise(state.model, s, y)
        bend = jnp.vdot(s, curvature.operator(state.model, 0)(s))
        square = jnp.vdot(s, s)
        along = jnp.where(square > 0, bend / jnp.where(square > 0, square, 1), 0)
        along = jnp.where(along > 0, along, 1 / self.step_size)
        # Far from x a secant says little of the curvature there, but much of how far a step may go.
        met = jnp.where(square > 0, jnp.vdot(s, y) / jnp.where(square > 0, square, 1), 0)
        near = accept if self.look is not None else finite
        model = curvature.learn(state.model, jnp.where(near, s, 0), jnp.where(near, y, 0))
        kept = (log.objective - objective) / jnp.where(state.promise > noise, state.promise, noise)
        kept = jnp.where(state.promise > 10 * noise, kept, 1)
        damping = self._damping(state.damping, along, met, verdict, known, kept)

        x = jnp.where(accept, trial, state.x)
        slope = jnp.where(accept, v, state.v)
        look, pieces = jnp.asarray(False), state.pieces
        if self.look is not None:
            surprised = accept & known & (missed > _SURPRISE)
            look = surprised | (accept & ~known)
            pieces = jnp.where(surprised & (state.age == 0), self.look.most, pieces)
            model = jax.lax.cond(
                look,
                lambda: self._measure(x, estimate, model, pieces, log.looks, oracle),
                lambda: model,
            )
        age = jnp.where(look, 0, state.age + accept).astype(jnp.int32)
        u, left, inner = self._solve(model, damping, x, slope, oracle)
        ready = accept | known  # else back to x0, of which nothing is known yet
        tiny = 4 * jnp.finfo(x.dtype).eps * jnp.linalg.norm(x)
        small = (log.left <= 30 * noise) | (jnp.linalg.norm(trial - state.x) <= tiny)
        waiting = jnp.where(small, log.still + 1, log.still)
        decision = jnp.where(finite, BACK, BROKEN)
        decision = jnp.where(accept, jnp.where(damping < state.damping, LONGER, ACCEPTED), decision)
        log = Log(
            decision=decision.astype(jnp.int32),
            objective=jnp.where(accept, objective, log.objective),
            mapping=jnp.where(accept, mapping, log.mapping),
            step=along / (along + damping),
            left=jnp.where(damping > 0.1 * along, jnp.inf, left),
            still=jnp.where(verdict.moved, 0, jnp.where(known, waiting, 0)).astype(jnp.int32),
            looks=(log.looks + look).astype(jnp.int32),
            looked=(log.looked + jnp.where(look, pieces, 0)).astype(jnp.int32),
            inner=(log.inner + inner).astype(jnp.int32),
        )
        trial = jnp.where(ready, u, state.x)
        return QuasiNewtonState(x, slope, trial, model, age, pieces, damping, left, log), estimate

    def advance(self, state: QuasiNewtonState, v: Vector, prox: Prox) -> QuasiNewtonState:
        return state  # the step was chosen when the point was judged

    def restarts(self) -> tuple[str, int]:
        return "never", 1

    def point(self, state: QuasiNewtonState) -> Vector:
        return state.x

    def log(self, state: QuasiNewtonState) -> Log:
        return state.log

    def spent(self, log: Log, problem: Any, d: int) -> Counts:
        """A column of the curvature of a sample counts as a Jacobian, or as an outer gradient.

        As elsewhere a derivative is no evaluation of g; g is known where the curvature is measured.
        """
        looks, inner = int(np.max(log.looks)), int(np.max(log.inner))
        rows = 0 if self.look is None else int(np.max(log.looked)) * self.look.rows
        return Counts(0, looks * problem.n + d * rows, looks * d * problem.N, inner)

    def _damping(
        self, damping: Any, along: Any, met: Any, verdict: Any, known: Any, kept: Any
    ) -> Any:
        """δ after the verdict.

        `along` is the model's curvature in the direction of the step, `met` that which the step
        met, and `kept` the share of the promised decrease that came.
        """
        lower = damping * jnp.where(kept > 0.9, 1 / 16, jnp.where(kept > 0.6, 1 / 4, 1))
        missing = jnp.clip(met - along, 0, 4 * along)
        lower = jnp.where(kept < 0.25, jnp.maximum(2 * damping, missing), lower)
        lower = jnp.where(lower > 1e-12 * along, lower, 0)
        scale = jnp.maximum(damping, along)
        least = jnp.maximum(4 * damping, along)
        higher = jnp.where(
            verdict.finite,
            jnp.clip(met - along, least, jnp.maximum(least, 256 * scale)),
            16 * scale,
        )
        changed = jnp.where(verdict.accept, lower, higher)
        return jnp.where(known, changed, damping)

    def _measure(
        self, x: Vector, estimate: Any, model: Any, pieces: Any, looks: Any, oracle: Oracle
    ) -> curvature.Model:
        """∇²F at x from so many pieces of the samples, every look from others."""
        assert self.look is not None
        source = oracle.problem.inner_source
        oracle = Oracle(oracle.problem, oracle.geometry, {})  # `spent` counts its evaluations
        piece = source.scattered(self.look.rows, (looks * 7919) % source.count)
        batches = oracle.everything()
        hessian = oracle.hessian(x, estimate.inner, estimate.outer, batches, piece, pieces)
        good = jnp.all(jnp.isfinite(hessian))
        fresh = curvature.positive(jnp.where(good, hessian, jnp.eye(x.size, dtype=x.dtype)))
        return curvature.Matrix(jnp.where(good, fresh.matrix, model.matrix))

    def _solve(
        self, model: Any, damping: Any, x: Vector, v: Vector, oracle: Oracle
    ) -> tuple[Vector, Any, Any]:
        """The next trial point, what it promises, and the prox it took."""
        uncounted = Oracle(oracle.problem, oracle.geometry, {})  # `spent` counts its prox
        prox = whole_prox(uncounted)
        apply = curvature.operator(model, damping)
        top = curvature.largest(apply, x)
        plain = isinstance(oracle.problem.regularizer, Zero)
        if plain:
            u, inner = x + curvature.step_without_penalty(model, damping, v), jnp.int32(0)
            short = x - v / top
        else:
            u, short, inner = curvature.minimise_model(model, damping, x, v, prox, top)

        def promised(u: Vector) -> Any:
            s = u - x
            change = 0 if plain else oracle.penalty(u) - oracle.penalty(x)
            return -(jnp.vdot(v, s) + jnp.vdot(s, apply(s)) / 2 + change)

        # Where rounding has spoilt the model, a gradient step does.
        left = promised(u)
        good = jnp.all(jnp.isfinite(u)) & (left >= 0)
        u = jnp.where(good, u, short)
        return u, jnp.maximum(jnp.where(good, left, promised(short)), 0), inner
