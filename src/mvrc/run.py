"""The loop: between epochs it measures (off the clock, off the count), records, saves and stops."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from mvrc import checks, methods
from mvrc.checkpoint import Checkpoint, fingerprint
from mvrc.engine import Core, Epoch, compile_epoch, first_core
from mvrc.metrics import block_size, measurement
from mvrc.oracle import Counts, Geometry
from mvrc.problem import Composition
from mvrc.progress import Bar
from mvrc.result import History, Result, Status
from mvrc.schemes.judging import DECISIONS, NOISY_PATIENCE, PATIENCE
from mvrc.stopping import (
    Stop,
    broken_lanes,
    broken_rows,
    check_callback,
    check_checkpoint,
    check_start,
    check_step,
    solved,
)

OUTPUTS = ("last", "random", "best")
EPOCHS = 100  # when no limit is given
JUDGED_EPOCHS = 1000  # of a method that stops by itself, and whose epoch may be a single pass

# Recorded points wait until a block of them is measured together, but not longer than this; where
# rows are so rare that measuring costs little anyway, none waits.
SECONDS, RARE = 1.0, 8


class State(NamedTuple):
    """The whole state of a run, one pytree; in `minimize_many` with a leading axis of seeds."""

    core: Core  # what an epoch maps to itself
    counts: np.ndarray  # evaluations so far, in the order of Counts
    seconds: np.ndarray  # time of the algorithm so far
    best_point: np.ndarray  # flat x with the lowest recorded objective
    best_objective: np.ndarray


class Trail(NamedTuple):
    """How far a run is: where it stands, its rows, and the recorded states without a row yet."""

    state: State
    rows: list[Any]
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
        lanes: int | None,  # None: one run without a leading axis
        stop: Stop,
        record_every: Any,
        output: Any,
        callback: Any,
        progress: Any,
        checkpoint: Any,
        checkpoint_every: Any,
    ) -> None:
        if not isinstance(problem, Composition):
            raise TypeError(f"problem must be a Composition, not {checks.shown(problem)}.")
        check_callback(callback)
        check_checkpoint(checkpoint, checkpoint_every)
        self.problem, self.seeds, self.lanes = problem, seeds, lanes
        self.record_every = checks.whole("record_every", record_every)
        self.output = checks.choice("output", output, OUTPUTS)
        self.callback, self.progress = callback, progress
        if checkpoint_every is not None:
            checks.whole("checkpoint_every", checkpoint_every)
        self.checkpoint_every = checkpoint_every
        self.x0 = problem.start(x0)
        recipe = methods.find(method)
        with problem.precision(self.x0):
            geometry = problem.geometry(self.x0)
            self.geometry: Geometry = dataclasses.replace(geometry, lanes=lanes or 1)
            start = methods.Start(problem, self.x0)
            self.prepared = recipe.prepare(problem, self.geometry, start)
            if self.prepared.x0 is not None:
                self.x0 = self.prepared.x0
            self.method = self.prepared.method
            self.judged = self.method.scheme.judges
            if self.judged and self.output == "random":
                raise ValueError(
                    "output is 'random', which is for methods with a theorem on it, and Auto goes "
                    "back from bad points; it may be 'last' or 'best', or name a method."
                )
            # Where a refresh is exact, what a judging scheme saw there is the measurement.
            self.measured = self.judged and problem.n is not None and problem.N is not None
            self.stop = stop.limited(JUDGED_EPOCHS if self.judged else EPOCHS)
            step = self.method.scheme.step_size
            check_step(step, self.geometry)
            self.block, self.measurement = 1, self._measurement("one" if lanes is None else "each")
            self.checkpoint: Checkpoint | None = None
            if checkpoint is not None:
                described = fingerprint(
                    problem, self.geometry, self.x0, self.method,
                    {"seeds": seeds, "lanes": lanes, "output": output,
                     "record_every": record_every},
                )  # fmt: skip
                self.checkpoint = Checkpoint(Path(checkpoint), described)

    def solve(self) -> list[Result]:
        with self.problem.precision(self.x0):
            return self._solve()

    def _solve(self) -> list[Result]:
        state = self._first()
        rows: list[Any] = []
        if self._patient():
            self.block = block_size(self.problem, self.geometry, state.core)
        if self.block > 1:
            self.measurement = self._measurement("together")
        if self.checkpoint is not None:
            state, rows = self.checkpoint.load(state, rows)
            state = state._replace(core=jax.device_put(state.core))
            # A row off the grid was the end of an earlier call, not part of this run's history.
            rows = [row for row in rows if row["epoch"] % self.record_every == 0]
        trail = Trail(state, rows, (), time.monotonic())
        bar = Bar(self.progress, self.stop)
        status: Status | None = None
        with bar:
            try:
                if not rows:
                    trail = self._settle(trail._replace(waiting=(state,)))
                    check_start(trail.rows[0])
                status = self._end(trail)
                compiled = None
                while status is None:
                    if compiled is None:  # not when a finished run is merely read back
                        compiled = compile_epoch(
                            self.problem, self.geometry, self.method, state.core, self.lanes,
                            keep=self.checkpoint is not None,  # which alone looks at estimates
                        )  # fmt: skip
                    trail, status = self._advance(compiled, trail)
                    bar.update(trail.rows[-1], _epoch(trail.state))
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
            if trail.waiting:
                trail = self._settle(trail)
                if broken_rows(trail.rows[-1:], trail.rows[0])[0]:
                    status = Status.DIVERGED
                bar.update(trail.rows[-1], _epoch(trail.state))
        if self.checkpoint is not None and trail.rows:
            self.checkpoint.save(trail.state, trail.rows)
        return self._results(trail.state, trail.rows, status)

    def _advance(self, compiled: Epoch, trail: Trail) -> tuple[Trail, Status | None]:
        """One epoch and what belongs to it; returns new values, so an interrupt tears nothing."""
        state = trail.state
        start = time.perf_counter()
        core, finite = compiled.run(state.core)
        healthy = bool(np.asarray(finite).any())  # waits for the epoch
        seconds = state.seconds + (time.perf_counter() - start)
        if not healthy:
            return trail, Status.DIVERGED
        state = state._replace(
            core=core, seconds=seconds, counts=state.counts + np.array(compiled.counts, np.int64)
        )
        trail = trail._replace(state=state)
        epoch = _epoch(state)
        if epoch % self.record_every == 0:
            trail = trail._replace(waiting=(*trail.waiting, state))
        save = self._save_is_due(epoch)
        if trail.waiting and (save or self._measuring_is_due(trail)):
            trail = self._settle(trail)
            asked = self._ask(trail.state, trail.rows)
            status = self._end(trail) or asked
        else:
            status = self._spent(state)
        if save:
            assert self.checkpoint is not None
            self.checkpoint.save(trail.state, trail.rows)
        return trail, status

    def _save_is_due(self, epoch: int) -> bool:
        if self.checkpoint is None:
            return False
        every = self.checkpoint_every
        return self.checkpoint.due() if every is None else epoch % every == 0

    def _measuring_is_due(self, trail: Trail) -> bool:
        return len(trail.waiting) >= self.block or time.monotonic() - trail.since >= SECONDS

    def _patient(self) -> bool:
        """Whether nobody asks for a row as soon as its epoch is made."""
        asked = (self.stop.tol, self.stop.rtol, self.callback) != (None, None, None)
        return not (asked or self.judged) and self.lanes is None and self.record_every < RARE

    def _first(self) -> State:
        flat = self.geometry.x.flatten(self.x0)
        random = self.output == "random"
        core, counts = first_core(
            self.problem, self.geometry, self.method, flat, self.seeds, self.lanes, random
        )
        shape = () if self.lanes is None else (self.lanes,)
        best = np.broadcast_to(np.asarray(flat), (*shape, flat.size))
        spent = np.array(counts, np.int64) + np.array(self.prepared.spent, np.int64)
        seconds = np.asarray(self.prepared.seconds)
        return State(core, spent, seconds, best, np.full(shape, np.inf))

    def _measurement(self, points: str) -> Any:
        return measurement(self.problem, self.geometry, self.method.scheme.step_size, points)

    def _measure(self, points: list[Any]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Φ and ‖𝒢_η‖ at the points (each with its lanes), at most a block of them."""
        if self.block == 1:
            return [_doubles(self.measurement(point)) for point in points]
        padded = points + points[-1:] * (self.block - len(points))
        objective, mapping = _doubles(self.measurement(np.stack(padded)))
        return [(objective[i, ...], mapping[i, ...]) for i in range(len(points))]

    def _log(self, state: State) -> Any:
        """The log of a scheme that judges, one number a lane."""
        return jax.tree_util.tree_map(np.asarray, self.method.scheme.log(state.core.scheme))

    def _counts(self, state: State) -> Counts:
        """What has been evaluated so far."""
        counts = Counts(*(int(n) for n in state.counts))
        if not self.measured:
            return counts
        more = self.method.scheme.spent(self._log(state), self.problem, self.geometry.x.size)
        return Counts(*(a + b for a, b in zip(counts, more, strict=True)))

    def _rows(self, states: tuple[State, ...]) -> list[dict[str, Any]]:
        """The rows of some states, measured where their logs do not tell."""
        known = [self._judgement(state) for state in states]
        asked = [s for s, found in zip(states, known, strict=True) if found is None]
        measured = iter(self._measure([self._point(s) for s in asked]))
        return [
            self._row(state, *(next(measured) if found is None else found))
            for state, found in zip(states, known, strict=True)
        ]

    def _judgement(self, state: State) -> tuple[np.ndarray, np.ndarray] | None:
        """Φ and ‖𝒢_η‖ where the last refresh of a judging scheme was exact."""
        if not self.measured or not _epoch(state):
            return None
        log = self._log(state)
        if not np.all(np.isfinite(log.objective)):
            return None
        return log.objective.astype(float), log.mapping.astype(float)

    def _row(self, state: State, objective: Any, mapping: Any) -> dict[str, Any]:
        epoch = _epoch(state)
        log = self._log(state) if self.judged and epoch else None
        same = np.full(np.shape(objective), float(self.method.scheme.step_size))
        return {
            "epoch": epoch,
            **self._counts(state)._asdict(),
            "seconds": float(state.seconds),
            "objective": objective,
            "gradient_mapping": mapping,
            "step_size": same if log is None else log.step.astype(float),
            "decision": np.zeros(np.shape(same), int) if log is None else log.decision,
        }

    def _settle(self, trail: Trail) -> Trail:
        """With the rows of all that waits; a run beyond return is as it was when it got there."""
        measured = self._rows(trail.waiting)
        rows, now = list(trail.rows), trail.state
        lost = broken_rows(measured, (rows or measured)[0])
        for state, row, end in zip(trail.waiting, measured, lost, strict=True):
            rows.append(row)
            better = row["objective"] < now.best_objective
            if better.any():
                points = np.asarray(self._point(state))
                now = now._replace(
                    best_point=np.where(better[..., None], points, now.best_point),
                    best_objective=np.where(better, row["objective"], now.best_objective),
                )
            if end:
                now = state._replace(best_point=now.best_point, best_objective=now.best_objective)
                break
        return Trail(now, rows, (), time.monotonic())

    def _point(self, state: State) -> Any:
        # By the class: to bind a method, equinox takes the module apart and together again.
        return type(self.method.scheme).point(self.method.scheme, state.core.scheme)

    def _spent(self, state: State) -> Status | None:
        return self.stop.spent(
            _epoch(state),
            self._counts(state).inner_values,
            float(state.seconds),
        )

    def _end(self, trail: Trail) -> Status | None:
        broken, small, stuck = self._ends(trail.state, trail.rows)
        if broken.all():
            return Status.DIVERGED
        if np.all(broken | small | stuck):
            return Status.CONVERGED if np.any(small) else Status.PRECISION
        return self._spent(trail.state)

    def _ends(self, state: State, rows: list[Any]) -> tuple[Any, Any, Any]:
        """Which lanes have left the numbers, reached the tolerance, cannot go further."""
        row, first = rows[-1], rows[0]
        broken = broken_lanes(row, first)
        small = self.stop.small(row["gradient_mapping"], first["gradient_mapping"])
        if not self.judged or not row["epoch"]:
            return broken, small, np.zeros_like(broken)
        log = self._log(state)
        if self.measured and self.stop.tol is None and self.stop.rtol is None:
            small = small | solved(log.left, row["objective"], first["objective"], log.left.dtype)
        return broken, small, log.still >= (PATIENCE if self.measured else NOISY_PATIENCE)

    def _ask(self, state: State, rows: list[Any]) -> Status | None:
        if self.callback is None:
            return None
        row = rows[-1]
        info = Info(
            row["epoch"],
            self._tree(self._point(state)),
            float(row["objective"]),
            float(row["gradient_mapping"]),
            self._counts(state),
            row["seconds"],
            History([_lane_row(r, None) for r in rows]),
        )
        answer = self.callback(info)
        return Status.CALLBACK if answer is not None and np.any(answer) else None

    def _tree(self, flat: Any) -> Any:
        return self.geometry.x.unflatten(np.asarray(flat))

    def _results(self, state: State, rows: list[Any], status: Status) -> list[Result]:
        if status is not Status.DIVERGED and (not rows or rows[-1]["epoch"] != _epoch(state)):
            rows = [*rows, *self._rows((state,))]
        state = _readable(state)
        chosen = self._outputs(state, rows, status)
        objective, mapping = self._measured_output(state, rows[-1], chosen)
        results = []
        _, small, stuck = self._ends(state, rows)
        for lane in [None] if self.lanes is None else range(self.lanes):
            history = History([_lane_row(row, lane) for row in rows])
            own = State(
                _at(state.core, lane),
                state.counts,
                state.seconds,
                _at(state.best_point, lane),
                _at(state.best_objective, lane),
            )
            ended = status
            if broken_lanes(history.rows[-1], history.rows[0]):
                ended = Status.DIVERGED
            elif status is Status.CONVERGED and not _at(small, lane):
                ended = Status.PRECISION if _at(stuck, lane) else ended
            results.append(
                Result(
                    x=self._tree(_at(chosen, lane)),
                    objective=float(_at(objective, lane)),
                    gradient_mapping=float(_at(mapping, lane)),
                    status=ended,
                    message=self._message(ended, history),
                    history=history,
                    counts=self._counts(state),
                    seconds=float(state.seconds),
                    step_size=float(self.method.scheme.step_size),
                    state=own,
                    notes=self.prepared.notes,
                )
            )
        return results

    def _measured_output(self, state: State, row: dict[str, Any], chosen: Any) -> tuple[Any, Any]:
        """Φ and ‖𝒢_η‖ of what the run returns, which may be what its last row measured."""
        last = row["epoch"] == _epoch(state) and np.array_equal(chosen, self._point(state))
        if last and not self.judged:
            return row["objective"], row["gradient_mapping"]
        return self._measure([jax.device_put(chosen)])[0]

    def _outputs(self, state: State, rows: list[Any], status: Status) -> np.ndarray:
        """The flat point(s) that the run returns."""
        last = np.asarray(self._point(state))
        use_best = np.asarray(broken_lanes(rows[-1], rows[0]) | (status is Status.DIVERGED))
        if self.output == "best" or self.judged:
            use_best = np.asarray(use_best | (state.best_objective < rows[-1]["objective"]))
        elif self.output == "random":
            assert state.core.output is not None
            made = np.asarray(state.core.output.offered)[..., None] > 0
            last = np.where(made, np.asarray(state.core.output.point), last)
        return np.where(use_best[..., None], state.best_point, last)

    def _message(self, status: Status, history: History) -> str:
        first, last = history.rows[0], history.rows[-1]
        if status is Status.DIVERGED:
            best = min((r for r in history if np.isfinite(r["objective"])),
                       key=lambda r: r["objective"], default=first)  # fmt: skip
            return (
                f"{status.value} It happened after epoch {last['epoch']}; x is the best point "
                f"recorded, of epoch {best['epoch']}. Try a step_size below "
                f"{self.method.scheme.step_size:.3g}."
            )
        return (
            f"{status.value} Objective {first['objective']:.6g} → {last['objective']:.6g} in "
            f"{last['epoch']} epochs and {last['inner_values']:,} samples; gradient mapping "
            f"{last['gradient_mapping']:.3g}."
        )


def _epoch(state: State) -> int:
    return int(np.asarray(state.core.epoch).flat[0])  # all lanes are in the same


def _readable(state: State) -> State:
    """Without an estimate that a later epoch, which came to nothing, has overwritten."""
    leaves = jax.tree_util.tree_leaves(state.core.estimator)
    gone = any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)
    return state._replace(core=state.core._replace(estimator=None)) if gone else state


def _doubles(measured: tuple[Any, Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    objective, mapping, _ = measured
    return np.asarray(objective, np.float64), np.asarray(mapping, np.float64)


def _at(tree: Any, lane: int | None) -> Any:
    return tree if lane is None else jax.tree_util.tree_map(lambda a: a[lane], tree)


def _lane_row(row: dict[str, Any], lane: int | None) -> dict[str, Any]:
    names = ("objective", "gradient_mapping", "step_size")
    own = {name: float(_at(row[name], lane)) for name in names}
    return {**row, **own, "decision": DECISIONS[int(_at(row["decision"], lane))]}
