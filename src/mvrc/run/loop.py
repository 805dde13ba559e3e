"""The loop: between epochs it measures (off the count), records, saves and stops.

Longer than other files: the one loop, with all that happens between two epochs.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np

from mvrc.run import peers
from mvrc.run.arguments import (
    OUTPUTS,
    Info,
    check_callback,
    check_checkpoint,
    check_start,
    check_step,
)
from mvrc.run.checkpoint import Checkpoint
from mvrc.run.ending import Wanted, conclude, resumed, row_of
from mvrc.run.fingerprint import fingerprint, glance
from mvrc.run.measuring import Recorder
from mvrc.run.progress import Bar
from mvrc.run.setup import Setup
from mvrc.run.state import Progress, Row, State, on_device, with_best
from mvrc.run.stopping import Ends, Stop, broken_rows, lost_rows
from mvrc.run.together import Clock, Together
from mvrc.solvers.result import History, Result, Status
from mvrc.support import checks

# Recorded points are pending until a block of them is measured together, but not longer than this;
# where rows are so rare that measuring costs little anyway, none is.
SECONDS, RARE = 1.0, 8


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
        resume: Any = None,
    ) -> None:
        check_callback(callback)
        check_checkpoint(checkpoint, checkpoint_every)
        self.record_every = checks.integer("record_every", record_every)
        if mapping_step is not None:
            mapping_step = checks.positive("mapping_step", mapping_step)
        if measure_samples is not None:
            measure_samples = checks.integer("measure_samples", measure_samples)
        self.output = checks.choice("output", output, OUTPUTS)
        if checkpoint_every is not None:
            checks.integer("checkpoint_every", checkpoint_every)
        if resume is not None:
            checks.instance("resume", resume, Result)
        self.callback, self.progress, self.resume = callback, progress, resume
        self.checkpoint_every = checkpoint_every
        keep = checkpoint is not None
        self.setup = Setup(problem, x0, method, seeds, axis, output == "random", keep)
        if self.setup.solver.on_host and self.output == "random":
            raise ValueError(
                "output is 'random', which is for methods with a theorem about it, and Auto "
                "rejects bad points; it may be 'last' or 'best', or choose a method."
            )
        self.stop = stop.limited(self.setup.solver.epochs, self.setup.solver.samples)
        check_step(self.setup.solver.step_size, self.setup.geometry.x.dtype)
        self.together = Together(self.setup.problem)
        self.clock = Clock()
        self.measuring = mapping_step, measure_samples
        with self.setup.precision():
            self.recorder = self._recorder()
            self.began = 0.0  # when the wall time was 0, by a clock that stands while we compile
            self.unsaved = ""  # why the last save failed
            self.checkpoint: Checkpoint | None = None
            if checkpoint is not None:
                described = fingerprint(
                    self.setup.problem, self.setup.geometry, self.setup.x0, self.setup.method,
                    {"seeds": seeds, "axis": axis, "output": output,
                     "record_every": record_every, "mapping_step": mapping_step,
                     "measure_samples": measure_samples},
                )  # fmt: skip
                self.checkpoint = Checkpoint(Path(checkpoint), described, self.together)

    def solve(self) -> list[Result]:
        folder = None if self.checkpoint is None else self.checkpoint.path.parent
        watched = peers.watched(self.together.many, folder)
        with self.setup.precision(), self.together.patient(), watched:
            results = self._solve()
        return results if self.setup.copies is None else results * self.setup.copies

    def _solve(self) -> list[Result]:
        state, rows = self._loaded()
        self.recorder.begin(state.core)
        if not rows:
            self._compile(state)
        self.began = time.perf_counter() - float(state.wall_seconds)
        latest = max((i for i, row in enumerate(rows) if row["epoch"] == 0), default=0)
        now = Progress(state, rows[:latest], rows[latest:], (), time.monotonic())
        bar = Bar(self.progress if self.together.first else False, self.stop)
        self._agree(now)
        status: Status | None = None
        with bar:
            try:
                if not rows:
                    now = self._flush(now._replace(pending=(state,)))
                    check_start(now.rows[0], self.setup.overflows)
                now, status = self._after_rows(now)
                made_for = None
                while status is None:
                    if made_for is not self.setup.solver:  # not when a finished run is read back
                        self._compile(now.state)
                        made_for = self.setup.solver
                    now, status = self._advance(now)
                    bar.update(now.rows[-1], now.state.epoch)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
            if now.pending:
                now = self._flush(now)
                if broken_rows(now.rows[-1:], now.rows[0])[0]:
                    status = Status.DIVERGED
                bar.update(now.rows[-1], now.state.epoch)
        if now.rows:
            self._save(now)
        assert status is not None
        now = now._replace(state=self._timed(now.state))
        wanted = Wanted(self.output, self.stop.has_tolerance, self.unsaved)
        return conclude(self.setup, self.recorder, now, status, wanted, self._ends)

    def _loaded(self) -> tuple[State, list[Row]]:
        """The first state, or that of an earlier run with its rows."""
        state = self.setup.first()
        rows: list[Row] = []
        if self.resume is not None:
            state, rows = resumed(self.resume, state, glance(self.setup.problem))
        if self.checkpoint is not None:
            state, rows = self.checkpoint.load(state, rows)
        if not rows:
            return state, rows
        if not self.setup.solver.on_host:
            state = state._replace(core=on_device(state.core))
        if state.restarts:
            self.setup.shorten(int(state.restarts))
            self.recorder = self._recorder()
        # A row off the grid was the end of an earlier call, not part of this run's history.
        return state, [row for row in rows if row["epoch"] % self.record_every == 0]

    def _compile(self, state: State) -> None:
        """The programs of the run, while its clock stands."""
        start = time.perf_counter()
        self.recorder.compile(state)
        self.setup.solver.compile(state.core)
        self.recorder.wait()
        self.began += time.perf_counter() - start

    def _agree(self, now: Progress) -> None:
        """Process 0 says how late it is, before all decide on it."""
        if not self.together.many:
            return
        saving = self.checkpoint is not None and self.checkpoint.due()
        told = self.together.told(
            float(now.state.seconds), time.perf_counter() - self.began, self.recorder.seconds,
            time.monotonic() - now.since >= SECONDS, saving, self.together.interrupted,
        )  # fmt: skip
        seconds, wall, measuring, *flags = told
        self.clock = Clock(seconds, wall, measuring, *map(bool, flags))
        self.recorder.seconds = self.clock.measuring
        if self.clock.interrupted:
            raise KeyboardInterrupt

    def _wall(self) -> float:
        return self.clock.wall if self.together.many else time.perf_counter() - self.began

    def _timed(self, state: State) -> State:
        return state._replace(wall_seconds=np.asarray(self._wall()))

    def _advance(self, now: Progress) -> tuple[Progress, Status | None]:
        """One epoch and what belongs to it; returns new values, so an interrupt tears nothing."""
        state = now.state
        start = time.perf_counter()
        core, info = self.setup.solver.step(state.core)
        self.began += info.compiling
        seconds = state.seconds + (time.perf_counter() - start - info.compiling)
        state = self._timed(state)._replace(
            seconds=seconds, counts=state.counts + np.array(info.counts, np.int64)
        )
        self._agree(now._replace(state=state))
        if self.together.many:
            state = self._timed(state)._replace(seconds=np.asarray(self.clock.seconds))
        if not info.finite:
            return self._broken(now, state)
        state = state._replace(core=core)
        now = now._replace(state=state)
        if state.epoch % self.record_every == 0:
            now = now._replace(pending=(*now.pending, state))
        save, status = self._save_is_due(state.epoch), self._limit(now)
        if now.pending and (save or status or self._measuring_is_due(now)):
            now = self._flush(now)
            now, status = self._after_rows(now, self._ask(now))
        if save:
            self._save(now)
        return now, status

    def _after_rows(
        self, now: Progress, asked: Status | None = None
    ) -> tuple[Progress, Status | None]:
        """Whether the run ends after its last row; or its start at a shorter default step."""
        status = self._end(now) or asked
        lost = asked is None and self._lost(now, now.rows[-1:])[0]
        if lost and status in (None, Status.DIVERGED, Status.EPOCHS) and self._may_start_again(now):
            return self._start_again(now), None
        return now, status

    def _broken(self, now: Progress, after: State) -> tuple[Progress, Status | None]:
        """After an epoch without a finite number, which has taken what `after` says."""
        if now.pending:
            now = self._flush(now)
        if not self._may_start_again(now):
            return now, Status.DIVERGED
        if not self._lost(now, now.rows[-1:])[0]:  # else it was lost before that epoch
            state = now.state._replace(counts=after.counts, seconds=after.seconds)
            now = now._replace(state=state)
        return self._start_again(now), None

    def _may_start_again(self, now: Progress) -> bool:
        """Whether a shorter step may be tried and no limit is reached but that on epochs."""
        every = dataclasses.replace(self.stop, epochs=None)
        return self.setup.may_shorten(now.state) and self._limit(now, every) is None

    def _start_again(self, now: Progress) -> Progress:
        """At x0 with a shorter default step; counts, times and the best point go on."""
        old = now.state
        self.setup.shorten(int(old.restarts) + 1)
        self.recorder = self._recorder()
        state = self.setup.first()
        self.recorder.begin(state.core)
        state = self._timed(state)._replace(
            counts=state.counts + old.counts, seconds=old.seconds,
            best_point=old.best_point, best_objective=old.best_objective,
            restarts=old.restarts + 1,
        )  # fmt: skip
        failed = [*now.failed, *now.rows]
        return self._flush(Progress(state, failed, [], (state,), time.monotonic()))

    def _recorder(self) -> Recorder:
        setup = self.setup
        return Recorder(
            setup.problem, setup.geometry, setup.solver, setup.axis, self._may_defer(),
            *self.measuring,
        )  # fmt: skip

    def _lost(self, now: Progress, rows: list[Row]) -> np.ndarray:
        exact = self.setup.refreshes_exactly()
        may_shorten, dtype = self.setup.may_shorten(now.state), self.setup.geometry.x.dtype
        return lost_rows(rows, (now.rows or rows)[0], may_shorten, exact, dtype)

    def _save(self, now: Progress) -> None:
        if self.checkpoint is not None and self.together.first:
            rows = [*now.failed, *now.rows]
            self.unsaved = self.checkpoint.try_to_save(self._timed(now.state), rows)

    def _save_is_due(self, epoch: int) -> bool:
        if self.checkpoint is None:
            return False
        every = self.checkpoint_every
        if every is not None:
            return epoch % every == 0
        return self.clock.saving if self.together.many else self.checkpoint.due()

    def _measuring_is_due(self, now: Progress) -> bool:
        late = time.monotonic() - now.since >= SECONDS
        if self.together.many:
            late = self.clock.pending
        return len(now.pending) >= self.recorder.block or late

    def _may_defer(self) -> bool:
        """Whether nobody asks for a row as soon as its epoch is made."""
        asked = (self.stop.tol, self.stop.rtol, self.callback) != (None, None, None)
        return (
            not (asked or self.setup.solver.on_host)
            and self.setup.axis is None
            and self.record_every < RARE
        )

    def _flush(self, now: Progress) -> Progress:
        """With the rows of what is pending; a run beyond return is as it was when it got there."""
        measured = self.recorder.rows(now.pending)
        state = now.state
        lost = self._lost(now, measured)
        if lost.any():
            measured = measured[: int(lost.argmax()) + 1]
            state = now.pending[len(measured) - 1]
        state = state._replace(
            best_point=now.state.best_point, best_objective=now.state.best_objective
        )
        points = [self.recorder.point(pending) for pending in now.pending]
        state = with_best(state, points, [row["objective"] for row in measured])
        rows = [*now.rows, *measured]
        return now._replace(state=state, rows=rows, pending=(), since=time.monotonic())

    def _limit(self, now: Progress, stop: Stop | None = None) -> Status | None:
        state = now.state
        samples = self.recorder.counts(state).inner_values
        return (stop or self.stop).reached(state.epoch, samples, self._wall(), self._ahead(now))

    def _ahead(self, now: Progress) -> float:
        """What another epoch would take, and after it the measuring of rows and output."""
        epoch = now.state.seconds - now.rows[0]["seconds"]
        solver = self.setup.solver
        passes = 1 + (self.record_every > 1) + (self.output != "last" or solver.keeps_best)
        mean = epoch / max(1, now.state.epoch)
        return float(mean * solver.ahead(now.state.core) + passes * self.recorder.seconds)

    def _ends(self, state: State, rows: list[Row]) -> Ends:
        stalled = self.setup.solver.stalled(state.core, self.stop.has_tolerance)
        return self.stop.ends(rows, stalled)

    def _end(self, now: Progress) -> Status | None:
        word = self.setup.solver.end(now.state.core, self.stop.has_tolerance)
        own = None if word is None else word.status
        return self.stop.status(self._ends(now.state, now.rows), own) or self._limit(now)

    def _ask(self, now: Progress) -> Status | None:
        if self.callback is None:
            return None
        state, row = now.state, now.rows[-1]
        info = Info(
            row["epoch"],
            self.setup.tree(self.recorder.point(state)),
            float(row["objective"]),
            float(row["gradient_mapping"]),
            self.recorder.counts(state),
            row["seconds"],
            History([row_of(r, None) for r in (*now.failed, *now.rows)]),
        )
        stop = False
        if self.together.first:
            answer = self.callback(info)
            stop = answer is not None and bool(np.any(answer))
        return Status.CALLBACK if self.together.told(float(stop))[0] else None
