"""Averaged small steps for many unknowns and samples; secant steps from where noise stops them.

Longer than other files: one solver with its race, its checks and its programs.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.compiler import quick
from mvrc.engine import Core, compile_epoch, first_core
from mvrc.estimators import Ema
from mvrc.methods import Method
from mvrc.methods.recipe import Start
from mvrc.oracle import Counts, Geometry, Oracle, Vector, add_counts
from mvrc.problem import Composition
from mvrc.regularizers import Zero
from mvrc.sampling import Sizes
from mvrc.schedules import Power
from mvrc.schemes import OnlineAdamScheme, ScheduleFreeScheme, Scheme
from mvrc.solvers.decisions import ACCEPTED, BROKEN, REJECTED
from mvrc.solvers.secants import SecantSolver
from mvrc.solvers.solver import CoreSolver, End, Info
from mvrc.solvers.stages import SAMPLES, staged
from mvrc.support import cache
from mvrc.support.partition import Signature, Static, combine, partition, signature

# Chosen on ten problems with networks, apart from those of the benchmarks.
FORGET = 0.1  # weight of a batch in the average of g
BATCH, MOST = 256, 2048  # samples of a step, at first and at most
ENOUGH = 256  # samples of a batch from which on long estimates are cut
CHUNK = 100  # steps of one program
CHECK, PASSES = 400, 6  # steps between checks: at least, and in passes
SHARE, LONGEST = 8, 16  # later a share of all steps, but not more than so many times the first
FALL = 1e-3  # a fall by less than this share of Φ, or of what was gained, is none
RATE, APART = 1e-2, 10**0.5  # the first step size of the race, and the factor between two
FURTHEST = 12  # factors on either side
RACE = 8192  # samples on which it is decided
SECOND_LEG = 4  # chunks that the best two go on for
BAD = 3  # checks in a row without a fall before the step is halved
HALVINGS = 3  # in a row without a fall before secants take over
ONLINE_BATCH, ONLINE_RACE = 64, 2048  # of a stream: samples of a step, and of the race and checks


class AveragedState(NamedTuple):
    """Where the run stands, the best point that was checked, and the secants after it."""

    epoch: Any
    core: Core
    best: Core
    objective: Any  # Φ at the point of `best`
    mapping: Any  # ‖∇F‖ there, or of the gradient mapping
    first: Any  # Φ at x0
    rate: Any  # 0 before the race
    batch: Any
    bad: Any  # checks in a row without a fall
    halvings: Any  # in a row
    decision: Any  # place in DECISIONS
    handed: Any  # whether secants are at work
    full_passes: Any  # their `FullPassState`; None of a stream


class AveragedSolver(CoreSolver):
    """Schedule-free Adam on tracked estimates, v = g'_A(x)ᵀ∇f(y), y ← 0.9y + 0.1g_A(x).

    The step size is found in a race of short runs. Φ is evaluated at the average after several
    passes: three checks in a row without a fall, or a rise above half of what was gained, lead back
    to the best point with half the step and twice the batch. After three halvings without a fall
    secant steps on full passes take over; only these may say CONVERGED.

    Of a stream the steps are `OnlineAdamScheme`'s, race and checks are on some fresh samples, the
    same for both, only a rise leads back, and nothing takes over.

    Args:
        problem, geometry: finite sums or streams.
        x0: the start, flat.
        seed: of the draws.
        notes: what was chosen and why.
    """

    on_host, epochs = True, 1000

    def __init__(
        self, problem: Composition, geometry: Geometry, x0: Any, seed: int,
        notes: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.problem, self.geometry, self.seed, self.notes = problem, geometry, seed, notes
        self.finite = self.keeps_best = problem.finite
        self.samples = None if self.finite else SAMPLES
        self.second = SecantSolver(problem, geometry) if self.finite else None
        self.race = RACE if self.finite else ONLINE_RACE
        self.batch = max(1, min(BATCH, _least(problem) // 8)) if self.finite else ONLINE_BATCH
        self.step_size = 1.0
        self._start = Start(problem, geometry.x.unflatten(np.asarray(x0)))
        self._plain = isinstance(problem.regularizer, Zero)
        self._packed = staged(problem, seed, 0, self.race).packed(geometry)
        self._counts, self._compiling = Counts(), 0.0

    def init(self, x0: Any) -> tuple[AveragedState, Info]:
        self._reset()
        x = np.asarray(x0)
        core = self._new(x, RATE, self.batch)
        objective, mapping = self._checked(x)
        numbers = jax.tree_util.tree_map(
            np.asarray, (objective, mapping, objective, 0.0, self.batch, 0, 0, 0, False)
        )
        blank = None if self.second is None else self.second.blank(x)
        state: Any = AveragedState
        return state(np.asarray(0), core, core, *numbers, blank), self._info(True)

    def compile(self, state: AveragedState) -> None:
        if not state.handed:
            self._epoch(state.core, float(state.rate) or RATE, int(state.batch))
            if not state.rate:
                self._part(self.point(state))

    def step(self, state: AveragedState) -> tuple[AveragedState, Info]:
        self._reset()
        state = state._replace(epoch=np.asarray(state.epoch + 1))
        if self.second is not None and state.handed:
            passes, info = self.second.step(state.full_passes)
            return state._replace(full_passes=passes), info
        if self.second is not None and int(state.halvings) >= HALVINGS:
            passes, info = self.second.init(np.asarray(self._at(state.best)))
            return state._replace(handed=np.asarray(True), full_passes=passes), info
        if not state.rate:
            state = self._race(state)
        return self._after(state), self._info(True)

    def _after(self, state: AveragedState) -> AveragedState:
        """After the steps to the next check, and the check."""
        rate, batch = float(state.rate), int(state.batch)
        core, made = state.core, int(state.core.scheme.k)
        n = _least(self.problem) if self.finite else 0
        steps = max(CHECK, PASSES * n // batch)
        steps = min(max(steps, made // SHARE), LONGEST * steps)
        core = self._run(core, rate, batch, -(-steps // CHUNK))
        x = np.asarray(self._at(core))
        objective, mapping = self._checked(x) if np.all(np.isfinite(x)) else (np.inf, np.inf)
        best = float(state.objective)
        bad, halvings = int(state.bad) + 1, int(state.halvings)
        finite, gained = np.isfinite(objective), abs(float(state.first) - best)
        far = not finite or objective > best + 0.5 * gained
        if objective < best - FALL * min(abs(best), gained) or not (self.finite or far):
            # Of a stream it is not known better.
            found = (core, core, min(objective, best), mapping, rate, batch, 0, 0, ACCEPTED)
            return self._with(state, *found)
        if objective < best:
            state = self._with(state, core, core, objective, mapping)
            best = objective
        if bad < BAD and not far:
            found = (core, state.best, best, state.mapping, rate, batch, bad, halvings, 0)
            return self._with(state, *found)
        # Back to the best point: averaging begins anew, with what is known of g.
        begun = self._scheme(rate, batch).init(jnp.asarray(self._at(state.best)))
        core = state.best._replace(scheme=begun, epoch=core.epoch)
        decision = REJECTED if finite else BROKEN
        if self.finite:
            batch = max(min(2 * batch, MOST, n // 8), batch)
        found = (core, core, best, state.mapping, rate / 2, batch, 0, halvings + 1, decision)
        return self._with(state, *found)

    @staticmethod
    def _with(state: AveragedState, core: Core, best: Core, *numbers: Any) -> AveragedState:
        names = ("objective", "mapping", "rate", "batch", "bad", "halvings", "decision")
        new: Any = dict(zip(names, map(np.asarray, numbers), strict=False))
        return state._replace(core=core, best=best, **new)

    def _race(self, state: AveragedState) -> AveragedState:
        """Short runs at step sizes apart by √10, to the better side until it is worse."""
        x, batch = np.asarray(self._at(state.core)), int(state.batch)
        runs: dict[int, tuple[float, Core]] = {}

        def at(place: int) -> float:
            if place not in runs:
                rate = RATE * APART**place
                core = self._run(self._new(x, rate, batch), rate, batch, 1)
                runs[place] = self._part(np.asarray(self._at(core))), core
            return runs[place][0]

        place = 0
        while True:
            best = min((place, place - 1, place + 1), key=at)
            if best == place or abs(best) > FURTHEST:
                break
            place = best
        last = []
        for place in sorted(runs, key=at)[:2]:
            rate = RATE * APART**place
            core = self._run(runs[place][1], rate, batch, SECOND_LEG)
            last.append((self._part(np.asarray(self._at(core))), rate, core))
        _, rate, core = min(last, key=lambda found: found[0])
        return state._replace(rate=np.asarray(rate), core=core)

    # Programs.

    def _scheme(self, rate: float, batch: int) -> Scheme:
        if not self.finite:
            return OnlineAdamScheme(rate, 1.0, not self._plain)
        return ScheduleFreeScheme(rate, 1.0, batch >= ENOUGH, not self._plain)

    def _method(self, rate: float, batch: int) -> Method:
        N = self.problem.N
        outer = min(batch, batch if N is None else N) if self.problem.two_level else None
        sizes = Sizes(batch, None, outer)
        scheme = self._scheme(rate, batch)
        method = Method(Ema(Power(FORGET)), scheme, sizes, sizes, CHUNK, "auto")
        return method.resolve(self.problem, self.geometry, self._start)

    def _new(self, x: Any, rate: float, batch: int) -> Core:
        method = self._method(rate, batch)
        start = time.perf_counter()
        given = self.problem, self.geometry, method, jnp.asarray(x)
        core, counts = first_core(*given, [self.seed], None, False)
        self._compiling += time.perf_counter() - start
        self._add(counts)
        return core

    def _epoch(self, core: Core, rate: float, batch: int) -> Any:
        start = time.perf_counter()
        method = self._method(rate, batch)
        epoch = compile_epoch(self.problem, self.geometry, method, core, None)
        self._compiling += time.perf_counter() - start
        return epoch

    def _run(self, core: Core, rate: float, batch: int, chunks: int) -> Core:
        core = jax.device_put(core)
        epoch = self._epoch(core, rate, batch)
        for _ in range(chunks):
            core, _ = epoch.run(core)
            self._add(epoch.counts)
        return jax.block_until_ready(core)

    def _part(self, x: np.ndarray) -> float:
        """Φ on a part of the samples; ∞ where it is no number."""
        numbers, static = partition(self._packed, self.geometry.x.dtype)
        given = numbers, x.astype(self.geometry.x.dtype)
        start = time.perf_counter()
        program, fresh = _value(static, self.geometry, signature(given))
        if fresh:
            program.wait()
            fresh.clear()
            self._compiling += time.perf_counter() - start
        n, N = (self.race if a is None else a for a in (self.problem.n, self.problem.N))
        self._add(Counts(min(self.race, n), 0, min(self.race, N), 0))
        found = float(program(*given))
        return found if np.isfinite(found) else np.inf

    def _checked(self, x: np.ndarray) -> tuple[float, float]:
        """Φ and the gradient mapping by a counted pass; of a stream Φ on some samples."""
        if self.second is None:
            return self._part(x), np.nan
        self.second.passes.compiling = 0.0
        n, N = self.problem.n, self.problem.N
        assert n is not None and N is not None
        objective, mapping = self.second.measure(x, self.step_size)
        self._compiling += self.second.passes.compiling
        self._add(Counts(n, n, N, 1))
        found = float(objective)
        return (found if np.isfinite(found) else np.inf), float(mapping)

    def _add(self, counts: Counts) -> None:
        self._counts = add_counts(self._counts, counts)

    def _reset(self) -> None:
        self._counts, self._compiling = Counts(), 0.0

    def _info(self, finite: bool) -> Info:
        return Info(self._counts, finite, self._compiling)

    def _at(self, core: Core) -> Any:
        return core.scheme.x

    # What the loop asks.

    def point(self, state: AveragedState) -> Any:
        if self.second is not None and state.handed:
            return self.second.point(state.full_passes)
        return self._at(state.best)

    def measured(self, state: AveragedState, step: float | None) -> tuple[Any, Any] | None:
        if self.second is None:
            return None
        if state.handed:
            return self.second.measured(state.full_passes, step or self.step_size)
        if step is not None and not self._plain:
            return self.second.measure(np.asarray(self.point(state)), step)
        return np.asarray(state.objective), np.asarray(state.mapping)

    def measure(self, point: Any, step: float | None) -> tuple[Any, Any]:
        assert self.second is not None
        return self.second.measure(np.asarray(point), step or self.step_size)

    def told(self, state: AveragedState) -> tuple[Any, Any] | None:
        if self.second is not None and state.handed:
            return self.second.told(state.full_passes)
        return state.rate, state.decision

    def stalled(self, state: AveragedState, tolerance_given: bool) -> Any:
        return np.asarray(self.end(state, tolerance_given) is not None)

    def end(self, state: AveragedState, tolerance_given: bool) -> End | None:
        if self.second is None or not state.handed:
            return None
        return self.second.end(state.full_passes, tolerance_given)


def _least(problem: Composition) -> int:
    """n of a finite sum."""
    assert problem.n is not None
    return problem.n


@cache.remember
def _value(static: Static, geometry: Geometry, given: Signature) -> tuple[Any, list[bool]]:
    """Φ on a fixed part of the samples, and a list that is empty once it has been asked for."""

    def value(numbers: Any, x: Vector) -> Any:
        problem = combine(numbers, static)
        oracle = Oracle(problem.functions(geometry))
        outside = None
        if problem.outer_source is not None:
            outside = problem.outer_source.part(RACE)
        inner = oracle.values(x, problem.inner_source.part(RACE))
        return oracle.outer_value(inner, outside) + oracle.functions.penalty(x)

    return quick.Program(value, given.specs()), [True]
