"""A run step by step, for your own loops; `minimize` is these steps and a stopping rule."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from mvrc.oracle import Counts
from mvrc.run.arguments import check_step
from mvrc.run.ending import Wanted, array_row, conclude, row_of
from mvrc.run.measuring import Recorder
from mvrc.run.setup import Setup
from mvrc.run.state import Progress, Row, State, on_device, with_best
from mvrc.run.stopping import Stop
from mvrc.solvers.result import Result, Status
from mvrc.support import checks


class StepInfo(NamedTuple):
    """What a step reports besides the state."""

    counts: Counts  # what it has evaluated
    finite: bool  # whether a number came out of it
    done: Status | None  # the solver's own word that it is done
    why: str  # its sentence


class Solver:
    """One epoch at a time: `init`, then `step` after `step`, with `measure` and `result` between.

        solver = mvrc.Solver(problem, "mvrc", seed=0)
        state = solver.init(x0)
        for _ in range(10):
            state, info = solver.step(state)
        result = solver.result(state)

    The state is a pytree of arrays; the next one depends on it alone, so it can be kept, saved and
    returned to. (C-SAGA copies its table for that, which `minimize` does not.)

    Args:
        problem: the composition.
        method: as in `minimize`.
        seed: the source of all randomness.

    Examples:
        >>> solver = mvrc.Solver(problem, mvrc.MVRC(step_size=0.1))
        >>> state = solver.init(x0)
        >>> for _ in range(10):
        ...     state, info = solver.step(state)
        >>> round(solver.result(state).objective, 2)
        -0.08
    """

    @checks.explain_keywords
    def __init__(self, problem: Any, method: Any = None, *, seed: int = 0) -> None:
        self.problem, self.method, self.seed = problem, method, checks.seed("seed", seed)
        self._setup: Setup | None = None
        self._stop = Stop.checked(None, None, None, None, None)

    def init(self, x0: Any) -> State:
        """The state at x0, from which the method takes its defaults; the programs are compiled."""
        setup = Setup(self.problem, x0, self.method, [self.seed], None, False, True)
        check_step(setup.solver.step_size, setup.geometry.x.dtype)
        with setup.precision():
            state = setup.first()
            self._recorder = Recorder(
                setup.problem, setup.geometry, setup.solver, None, may_defer=False
            )
            self._recorder.begin(state.core)
            self._recorder.compile(state)
            setup.solver.compile(state.core)
            self._recorder.wait()
            self._first = row_of(self._recorder.rows((state,))[0], None)
        self._setup = setup
        return with_best(state, [self._recorder.point(state)], [self._first["objective"]])

    def step(self, state: State) -> tuple[State, StepInfo]:
        """One epoch: the next state, and what it took."""
        setup = self._ready()
        with setup.precision():
            start = time.perf_counter()
            before = state.core if setup.solver.on_host else on_device(state.core)
            core, info = setup.solver.step(before)
            took = time.perf_counter() - start - info.compiling
            if not info.finite:
                core = state.core
            state = state._replace(
                core=core,
                counts=state.counts + np.array(info.counts, np.int64),
                seconds=state.seconds + took,
                wall_seconds=state.wall_seconds + took,
            )
            word = setup.solver.end(state.core, False)
            known = setup.solver.measured(state.core, None)
            if known is not None:
                state = with_best(state, [self._recorder.point(state)], [known[0]])
        if word is None:
            return state, StepInfo(info.counts, info.finite, None, "")
        return state, StepInfo(info.counts, info.finite, word.status, word.sentence)

    def measure(self, state: State) -> Row:
        """Φ, ‖𝒢‖, counts and times of a state, off the count: a row of a history."""
        with self._ready().precision():
            return row_of(self._recorder.rows((state,))[0], None)

    def result(self, state: State, rows: list[Row] | None = None) -> Result:
        """What `minimize` would return for this state; `rows` are measured ones for its history."""
        setup = self._ready()
        made = [self._first, *(row for row in rows or [] if row["epoch"] > 0)]
        progress = Progress(state, [], [array_row(row) for row in made], (), 0.0)
        with setup.precision():
            word = setup.solver.end(state.core, False)
            status = Status.STOPPED if word is None else word.status
            return conclude(
                setup, self._recorder, progress, status, Wanted("last", False), self._ends
            )[0]

    def _ends(self, state: State, rows: list[Row]) -> Any:
        assert self._setup is not None
        return self._stop.ends(rows, self._setup.solver.stalled(state.core, False))

    def _ready(self) -> Setup:
        if self._setup is None:
            raise RuntimeError("call init(x0) first: the method takes its defaults from there.")
        return self._setup
