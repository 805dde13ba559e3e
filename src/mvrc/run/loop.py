"""The loop: between epochs it measures (off the count), records, saves and stops."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from mvrc import methods
from mvrc.engine import Core
from mvrc.oracle import Counts, Geometry, add_counts
from mvrc.problem import Composition
from mvrc.run.checkpoint import Checkpoint, fingerprint
from mvrc.run.measuring import Recorder, Row, State
from mvrc.run.progress import Bar
from mvrc.run.stopping import (
    Stop,
    broken_rows,
    broken_seeds,
    check_callback,
    check_checkpoint,
    check_start,
    check_step,
    risen_seeds,
)
from mvrc.schemes.judging import DECISIONS
from mvrc.solvers import catalogue
from mvrc.solvers.epochs import EpochSolver
from mvrc.solvers.hand_over import HandOver
from mvrc.solvers.result import History, Result, Status
from mvrc.solvers.solver import End, Solver
from mvrc.support import checks

OUTPUTS = ("last", "random", "best")
EPOCHS = 100  # when no limit is given
OVERFLOWING = 4096  # samples of which it is asked whether g overflows at x0
JUDGED_EPOCHS = 1000  # of a method that stops by itself, and whose epoch may be a single pass

# Recorded points wait until a block of them is measured together, but not longer than this; where
# rows are so rare that measuring costs little anyway, none waits.
SECONDS, RARE = 1.0, 8


class Trail(NamedTuple):
    """How far a run is: where it stands, its rows, and the recorded states without a row yet."""

    state: State
    failed: list[Row]  # of attempts at longer default steps
    rows: list[Row]
    waiting: tuple[State, ...]
    since: float  # when nothing waited last, by the clock of the wall


class Info(NamedTuple):
    """What a callback sees after each measurement."""

    epoch: int
    x: Any
    objective: float
    gradient_mapping: float
    counts: Counts
    seconds: float
    history: History


class Run:
    """One call of minimize or minimize_many: prepared here, looped in `solve`."""

    def __init__(
        self,
        problem: Any,
        x0: Any,
        method: Any,
        seeds: list[int],
        axis: int | None,  # of seeds; None: one run without a leading axis
        stop: Stop,
        record_every: Any,
        mapping_step: Any,
        measure_samples: Any,
        output: Any,
        callback: Any,
        progress: Any,
        checkpoint: Any,
        checkpoint_every: Any,
    ) -> None:
        if not isinstance(problem, Composition):
            raise TypeError(f"problem must be a Composition, not {checks.shown(problem)}.")
        _refuse_fork()
        check_callback(callback)
        check_checkpoint(checkpoint, checkpoint_every)
        self.problem, self.seeds, self.axis = problem, seeds, axis
        self.record_every = checks.integer("record_every", record_every)
        if mapping_step is not None:
            mapping_step = checks.positive("mapping_step", mapping_step)
        if measure_samples is not None:
            measure_samples = checks.integer("measure_samples", measure_samples)
        self.output = checks.choice("output", output, OUTPUTS)
        self.callback, self.progress = callback, progress
        if checkpoint_every is not None:
            checks.integer("checkpoint_every", checkpoint_every)
        self.checkpoint_every = checkpoint_every
        problem, x0, self.rest = problem.in_numbers(x0)
        self.problem, self.x0 = problem, problem.start(x0)
        recipe = catalogue.find(method)
        with problem.precision(self.x0):
            geometry = problem.geometry(self.x0)
            self.geometry: Geometry = dataclasses.replace(geometry, seeds=axis or 1)
            self.recipe, self.start = recipe, methods.Start(problem, self.x0)
            self.prepared = recipe.prepare(problem, self.geometry, self.start)
            if self.prepared.x0 is not None:
                self.x0 = self.prepared.x0
            self.method = recipe if self.prepared.method is None else self.prepared.method
            self.solver = self._solver(checkpoint is not None)
            self.judged = self.solver.safeguarded
            self.copies = None if self.solver.draws else axis  # equal runs are one
            self.axis = axis if self.solver.draws else None
            if self.judged and self.output == "random":
                raise ValueError(
                    "output is 'random', which is for methods with a theorem on it, and Auto goes "
                    "back from bad points; it may be 'last' or 'best', or name a method."
                )
            self.stop = stop.limited(JUDGED_EPOCHS if self.judged else EPOCHS)
            check_step(self.solver.step_size, self.geometry)
            self.measuring = mapping_step, measure_samples
            self.recorder = self._recorder()
            self.began = 0.0  # when the wall time was 0, by a clock that stands while we compile
            self.unsaved = ""  # why the last save failed
            self.checkpoint: Checkpoint | None = None
            if checkpoint is not None:
                described = fingerprint(
                    problem, self.geometry, self.x0, self.method,
                    {"seeds": seeds, "axis": axis, "output": output,
                     "record_every": record_every, "mapping_step": mapping_step,
                     "measure_samples": measure_samples},
                )  # fmt: skip
                self.checkpoint = Checkpoint(Path(checkpoint), described)

    def _solver(self, keep: bool) -> Solver:
        if self.prepared.solver is not None:
            return self.prepared.solver
        method, random = self.prepared.method, self.output == "random"
        assert method is not None
        epochs = EpochSolver(
            self.problem, self.geometry, method, self.seeds, self.axis, random, keep
        )
        second = self.prepared.second
        return epochs if second is None or self.axis is not None else HandOver(epochs, second)

    def solve(self) -> list[Result]:
        with self.problem.precision(self.x0):
            results = self._solve()
        return results if self.copies is None else results * self.copies

    def _solve(self) -> list[Result]:
        state = self._first()
        rows: list[Any] = []
        if self.checkpoint is not None:
            state, rows = self.checkpoint.load(state, rows)
            if self.solver.draws:
                state = state._replace(core=jax.device_put(state.core))
            # A row off the grid was the end of an earlier call, not part of this run's history.
            rows = [row for row in rows if row["epoch"] % self.record_every == 0]
            if state.restarts:
                self._shorten(int(state.restarts))
        self.recorder.begin(state.core)
        if not rows:
            self.recorder.compile(state)
        self.began = time.perf_counter() - float(state.wall_seconds)
        latest = max((i for i, row in enumerate(rows) if row["epoch"] == 0), default=0)
        trail = Trail(state, rows[:latest], rows[latest:], (), time.monotonic())
        bar = Bar(self.progress, self.stop)
        status: Status | None = None
        with bar:
            try:
                if not rows:
                    trail = self._settle(trail._replace(waiting=(state,)))
                    check_start(trail.rows[0], self._overflows)
                trail, status = self._judge(trail)
                made_for = None
                while status is None:
                    if made_for is not self.solver:  # not when a finished run is merely read back
                        self._compile(trail.state)
                        made_for = self.solver
                    trail, status = self._advance(trail)
                    bar.update(trail.rows[-1], trail.state.epoch)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
            if trail.waiting:
                trail = self._settle(trail)
                if broken_rows(trail.rows[-1:], trail.rows[0])[0]:
                    status = Status.DIVERGED
                bar.update(trail.rows[-1], trail.state.epoch)
        if trail.rows:
            self._save(trail)
        return self._results(trail, status)

    def _compile(self, state: State) -> None:
        """The programs of the run, while its clock stands."""
        start = time.perf_counter()
        self.recorder.compile(state)
        self.solver.compile(state.core)
        self.began += time.perf_counter() - start

    def _wall(self) -> float:
        return time.perf_counter() - self.began

    def _timed(self, state: State) -> State:
        return state._replace(wall_seconds=np.asarray(self._wall()))

    def _overflows(self) -> str:
        """Which of the functions at x0 is +∞ for one of its samples; "" for none."""
        problem = self.problem

        def some(source: Any) -> Any:
            batch = source.everything()
            return batch.piece(0, min(batch.size, OVERFLOWING))

        values = jax.vmap(problem.inner, (None, 0))(self.x0, some(problem.inner_source))
        leaves = [np.asarray(a) for a in jax.tree_util.tree_leaves(values)]
        if any(np.isposinf(a).any() for a in leaves):
            return "inner(x, sample)"
        y = jax.tree_util.tree_map(lambda a: a.mean(axis=0), values)
        if not problem.two_level:
            return "outer(y)" if np.isposinf(np.asarray(problem.outer(y))) else ""
        outside = jax.vmap(problem.outer, (None, 0))(y, some(problem.outer_source))
        return "outer(y, sample)" if np.isposinf(np.asarray(outside)).any() else ""

    def _advance(self, trail: Trail) -> tuple[Trail, Status | None]:
        """One epoch and what belongs to it; returns new values, so an interrupt tears nothing."""
        state = trail.state
        start = time.perf_counter()
        core, info = self.solver.step(state.core)
        self.began += info.compiling
        seconds = state.seconds + (time.perf_counter() - start - info.compiling)
        state = self._timed(state)._replace(
            seconds=seconds, counts=state.counts + np.array(info.counts, np.int64)
        )
        if not info.finite:
            return self._broken(trail, state)
        state = state._replace(core=core)
        trail = trail._replace(state=state)
        if state.epoch % self.record_every == 0:
            trail = trail._replace(waiting=(*trail.waiting, state))
        save, status = self._save_is_due(state.epoch), self._spent(trail)
        if trail.waiting and (save or status or self._measuring_is_due(trail)):
            trail = self._settle(trail)
            trail, status = self._judge(trail, self._ask(trail))
        if save:
            self._save(trail)
        return trail, status

    def _judge(self, trail: Trail, asked: Status | None = None) -> tuple[Trail, Status | None]:
        """Whether the run ends after its last row; or its start at a shorter default step."""
        status = self._end(trail) or asked
        lost = asked is None and self._lost(trail, trail.rows[-1:])[0]
        if (
            lost
            and status in (None, Status.DIVERGED, Status.EPOCHS)
            and self._may_start_again(trail)
        ):
            return self._start_again(trail), None
        return trail, status

    def _broken(self, trail: Trail, spent: State) -> tuple[Trail, Status | None]:
        """After an epoch without a finite number, which has taken what `spent` says."""
        if trail.waiting:
            trail = self._settle(trail)
        if not self._may_start_again(trail):
            return trail, Status.DIVERGED
        if not self._lost(trail, trail.rows[-1:])[0]:  # else it was lost before that epoch
            state = trail.state._replace(counts=spent.counts, seconds=spent.seconds)
            trail = trail._replace(state=state)
        return self._start_again(trail), None

    def _may_start_again(self, trail: Trail) -> bool:
        """Whether a shorter step may be tried and no limit is reached but that on epochs."""
        every = dataclasses.replace(self.stop, epochs=None)
        return self._may_shorten(trail.state) and self._spent(trail, every) is None

    def _may_shorten(self, state: State) -> bool:
        """Whether the step is the default one, and not the shortest; the user's own is kept."""
        by_default = bool(self.start.found) and not self.judged
        return by_default and int(state.restarts) < methods.MOST_RESTARTS

    def _start_again(self, trail: Trail) -> Trail:
        """At x0 with a shorter default step; counts, times and the best point go on."""
        old = trail.state
        self._shorten(int(old.restarts) + 1)
        state = self._first()
        self.recorder.begin(state.core)
        state = self._timed(state)._replace(
            counts=state.counts + old.counts, seconds=old.seconds,
            best_point=old.best_point, best_objective=old.best_objective,
            restarts=old.restarts + 1,
        )  # fmt: skip
        failed = [*trail.failed, *trail.rows]
        return self._settle(Trail(state, failed, [], (state,), time.monotonic()))

    def _shorten(self, restarts: int) -> None:
        """The method after so many restarts."""
        start = self.start.again(restarts)
        self.prepared = self.recipe.prepare(self.problem, self.geometry, start)
        assert self.prepared.method is not None
        self.method = self.prepared.method
        self.solver = self._solver(self.checkpoint is not None)
        self.recorder = self._recorder()

    def _recorder(self) -> Recorder:
        return Recorder(
            self.problem, self.geometry, self.solver, self.axis, self._patient(), *self.measuring
        )

    def _lost(self, trail: Trail, rows: list[Row]) -> np.ndarray:
        """Which of some rows are beyond return in all seeds; where the step may be shortened in
        any seed, and also those that have risen though refreshes are exact."""
        first = (trail.rows or rows)[0]
        if not self._may_shorten(trail.state):
            return broken_rows(rows, first)
        lost = [broken_seeds(row, first) for row in rows]
        if isinstance(self.method, methods.Method) and self.method.refreshes_exactly(self.problem):
            dtype = self.geometry.x.dtype
            risen = [risen_seeds(row, first, dtype) for row in rows]
            lost = [a | b for a, b in zip(lost, risen, strict=True)]
        return np.array([bool(np.any(each)) for each in lost])

    def _save(self, trail: Trail) -> None:
        """A save that fails costs no result: the run goes on, and says so."""
        if self.checkpoint is None:
            return
        try:
            self.checkpoint.save(self._timed(trail.state), [*trail.failed, *trail.rows])
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self.unsaved = (
                f"The checkpoint could not be saved ({reason}); what is in its folder is older."
            )
            warnings.warn(self.unsaved, stacklevel=2)
        else:
            self.unsaved = ""

    def _save_is_due(self, epoch: int) -> bool:
        if self.checkpoint is None:
            return False
        every = self.checkpoint_every
        return self.checkpoint.due() if every is None else epoch % every == 0

    def _measuring_is_due(self, trail: Trail) -> bool:
        return (
            len(trail.waiting) >= self.recorder.block or time.monotonic() - trail.since >= SECONDS
        )

    def _patient(self) -> bool:
        """Whether nobody asks for a row as soon as its epoch is made."""
        asked = (self.stop.tol, self.stop.rtol, self.callback) != (None, None, None)
        return not (asked or self.judged) and self.axis is None and self.record_every < RARE

    def _first(self) -> State:
        flat = self.geometry.x.flatten(self.x0)
        start = time.perf_counter()
        core, info = self.solver.init(flat)
        took = 0.0 if self.solver.draws else time.perf_counter() - start - info.compiling
        shape = () if self.axis is None else (self.axis,)
        best = np.broadcast_to(np.asarray(flat), (*shape, flat.size))
        counts = np.array(add_counts(info.counts, self.prepared.spent), np.int64)
        seconds = np.asarray(self.prepared.seconds + took)
        none = np.full(shape, np.inf)
        return State(core, counts, seconds, seconds, best, none, np.asarray(0))

    def _settle(self, trail: Trail) -> Trail:
        """With the rows of all that waits; a run beyond return is as it was when it got there."""
        measured = self.recorder.rows(trail.waiting)
        now = trail.state
        lost = self._lost(trail, measured)
        if lost.any():
            measured = measured[: int(lost.argmax()) + 1]
            now = trail.waiting[len(measured) - 1]
        now = self._with_best(now._replace(
            best_point=trail.state.best_point, best_objective=trail.state.best_objective
        ), trail.waiting, measured)  # fmt: skip
        rows = [*trail.rows, *measured]
        return trail._replace(state=now, rows=rows, waiting=(), since=time.monotonic())

    def _with_best(self, now: State, states: tuple[State, ...], measured: list[Row]) -> State:
        """`now`, knowing the best of some rows; several rows are those of a single run."""
        objective = np.stack([row["objective"] for row in measured])
        objective = np.where(np.isnan(objective), np.inf, objective)
        lowest = objective.min(axis=0)
        better = lowest < now.best_objective
        if not better.any():
            return now
        points = np.asarray(self.recorder.point(states[int(objective.argmin(axis=0).max())]))
        return now._replace(
            best_point=np.where(better[..., None], points, now.best_point),
            best_objective=np.where(better, lowest, now.best_objective),
        )

    def _spent(self, trail: Trail, stop: Stop | None = None) -> Status | None:
        state = trail.state
        samples = self.recorder.counts(state).inner_values
        return (stop or self.stop).spent(state.epoch, samples, self._wall(), self._ahead(trail))

    def _ahead(self, trail: Trail) -> float:
        """What another epoch would take, and after it the measuring of rows and output."""
        epoch = trail.state.seconds - trail.rows[0]["seconds"]
        passes = 1 + (self.record_every > 1) + (self.output != "last" or self.judged)
        return float(epoch / max(1, trail.state.epoch) + passes * self.recorder.seconds)

    def _end(self, trail: Trail) -> Status | None:
        broken, small, stalled = self._ends(trail.state, trail.rows)
        if broken.all():
            return Status.DIVERGED
        if np.all(broken | small):
            return Status.CONVERGED
        own = self.solver.end(trail.state.core, self.stop.has_tolerance)
        if own is not None:
            return own.status
        if np.all(broken | small | stalled):  # some seeds this, some that
            return Status.CONVERGED
        return self._spent(trail)

    def _ends(self, state: State, rows: list[Any]) -> tuple[Any, Any, Any]:
        """Which seeds have left the numbers, reached the tolerance, ended by the solver's word."""
        row, first = rows[-1], rows[0]
        broken = broken_seeds(row, first)
        small = self.stop.small(row["gradient_mapping"], first["gradient_mapping"])
        return broken, small, self.solver.stalled(state.core, self.stop.has_tolerance)

    def _ask(self, trail: Trail) -> Status | None:
        if self.callback is None:
            return None
        state, row = trail.state, trail.rows[-1]
        info = Info(
            row["epoch"],
            self._tree(self.recorder.point(state)),
            float(row["objective"]),
            float(row["gradient_mapping"]),
            self.recorder.counts(state),
            row["seconds"],
            History([_row_of(r, None) for r in (*trail.failed, *trail.rows)]),
        )
        answer = self.callback(info)
        return Status.CALLBACK if answer is not None and np.any(answer) else None

    def _tree(self, flat: Any) -> Any:
        tree = self.geometry.x.unflatten(np.asarray(flat))
        return tree if self.rest is None else eqx.combine(tree, self.rest)

    def _results(self, trail: Trail, status: Status) -> list[Result]:
        state, rows = trail.state, trail.rows
        if status is not Status.DIVERGED and (not rows or rows[-1]["epoch"] != state.epoch):
            rows = [*rows, *self.recorder.rows((state,))]
        state = _readable(state)
        chosen = self._outputs(state, rows, status)
        objective, mapping = self._measured_output(state, rows[-1], chosen)
        state = self._timed(state)
        results = []
        _, small, stalled = self._ends(state, rows)
        word = self.solver.end(state.core, self.stop.has_tolerance)
        for seed in [None] if self.axis is None else range(self.axis):
            made = [_row_of(row, seed) for row in (*trail.failed, *rows)]
            own = state._replace(
                core=_at(state.core, seed),
                best_point=_at(state.best_point, seed),
                best_objective=_at(state.best_objective, seed),
            )
            ended = status
            if broken_seeds(made[-1], made[len(trail.failed)]):
                ended = Status.DIVERGED
            elif status is Status.CONVERGED and not _at(small, seed) and _at(stalled, seed):
                ended = Status.STALLED if word is None else word.status
            results.append(
                Result(
                    x=self._tree(_at(chosen, seed)),
                    objective=float(_at(objective, seed)),
                    gradient_mapping=float(_at(mapping, seed)),
                    status=ended,
                    message=self._message(ended, made, word),
                    history=History(made),
                    counts=self.recorder.counts(state),
                    seconds=float(state.seconds),
                    wall_seconds=float(state.wall_seconds),
                    step_size=self.solver.step_size,
                    state=own,
                    notes=self._notes(int(state.restarts)),
                )
            )
        return results

    def _measured_output(self, state: State, row: dict[str, Any], chosen: Any) -> tuple[Any, Any]:
        """Φ and ‖𝒢_η‖ of what the run returns, which may be what its last row measured."""
        last = row["epoch"] == state.epoch and np.array_equal(chosen, self.recorder.point(state))
        if last:
            return row["objective"], row["gradient_mapping"]
        return self.recorder.measure(jax.device_put(chosen))

    def _outputs(self, state: State, rows: list[Any], status: Status) -> np.ndarray:
        """The flat point(s) that the run returns."""
        last = np.asarray(self.recorder.point(state))
        use_best = np.asarray(broken_seeds(rows[-1], rows[0]) | (status is Status.DIVERGED))
        if self.output == "best" or self.judged:
            use_best = np.asarray(use_best | (state.best_objective < rows[-1]["objective"]))
        elif self.output == "random":
            assert state.core.output is not None
            made = np.asarray(state.core.output.offered)[..., None] > 0
            last = np.where(made, np.asarray(state.core.output.point), last)
        return np.where(use_best[..., None], state.best_point, last)

    def _notes(self, restarts: int) -> tuple[str, ...]:
        notes = list(self.prepared.notes)
        if restarts:
            times = "once, at a quarter of it"
            if restarts > 1:
                times = f"{restarts} times, each time at a quarter"
            step = self.solver.step_size
            notes.append(
                f"The default step of {step / methods.SHORTER**restarts:.3g} was too long: the run "
                f"started again {times}, and ended with {step:.3g}. "
                f"Counts, seconds and history have the failed attempts, too."
            )
        return (*notes, self.unsaved) if self.unsaved else tuple(notes)

    def _message(self, status: Status, rows: list[Row], word: End | None) -> str:
        first, last = rows[0], rows[-1]
        if status is Status.DIVERGED:
            best = min((r for r in rows if np.isfinite(r["objective"])),
                       key=lambda r: r["objective"], default=first)  # fmt: skip
            return (
                f"{status.value} It happened after epoch {last['epoch']}; x is the best point "
                f"recorded, of epoch {best['epoch']}. Try a step_size below "
                f"{self.solver.step_size:.3g}."
            )
        part = self.recorder.part()
        measured = "" if part is None else f", both measured on {part[0]:,} of {part[1]:,} samples"
        why = f" {word.sentence}" if word is not None and word.status is status else ""
        return (
            f"{status.value} Objective {first['objective']:.6g} → {last['objective']:.6g} in "
            f"{last['epoch']} epochs and {last['inner_values']:,} samples; gradient mapping "
            f"{last['gradient_mapping']:.3g}{measured}.{why}"
        )


_process: list[int] = []  # the one that made the first run


def _refuse_fork() -> None:
    """JAX has threads, which a fork does not take along: a run in a forked process would hang."""
    if not _process:
        _process.append(os.getpid())
    if _process[0] != os.getpid():
        raise RuntimeError(
            "this process was forked from one that had already used mvrc, where JAX would hang; "
            "start processes by multiprocessing.get_context('spawn')."
        )


def _readable(state: State) -> State:
    """Without an estimate that a later epoch, which came to nothing, has overwritten."""
    if not isinstance(state.core, Core):
        return state
    leaves = jax.tree_util.tree_leaves(state.core.estimator)
    gone = any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)
    return state._replace(core=state.core._replace(estimator=None)) if gone else state


def _at(tree: Any, seed: int | None) -> Any:
    return tree if seed is None else jax.tree_util.tree_map(lambda a: a[seed], tree)


def _row_of(row: dict[str, Any], seed: int | None) -> dict[str, Any]:
    names = ("objective", "gradient_mapping", "step_size")
    own = {name: float(_at(row[name], seed)) for name in names}
    return {**row, **own, "decision": DECISIONS[int(_at(row["decision"], seed))]}
