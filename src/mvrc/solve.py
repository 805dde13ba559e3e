"""minimize and minimize_many: the only loop.

Between epochs it measures (off the clock, off the count), records, reports, saves and stops.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from mvrc import checks, methods
from mvrc.checkpoint import Checkpoint, fingerprint
from mvrc.engine import Core, Epoch, compile_epoch, first_core
from mvrc.estimation import default_step_size
from mvrc.metrics import measure_flat
from mvrc.oracle import Counts, Geometry
from mvrc.problem import Composition
from mvrc.progress import Bar
from mvrc.result import History, Result, Status

OUTPUTS = ("last", "random", "best")


class State(NamedTuple):
    """The whole state of a run, one pytree; in `minimize_many` with a leading axis of seeds."""

    core: Core  # what an epoch maps to itself
    counts: np.ndarray  # evaluations so far, in the order of Counts
    seconds: np.ndarray  # time of the algorithm so far
    best_point: np.ndarray  # flat x with the lowest recorded objective
    best_objective: np.ndarray


class Info(NamedTuple):
    """What a callback sees after each measurement."""

    epoch: int
    x: Any
    objective: float
    gradient_mapping: float
    counts: Counts
    seconds: float
    history: History


@dataclasses.dataclass(frozen=True)
class Stop:
    """When to stop; whatever comes first."""

    epochs: int | None
    samples: int | None
    seconds: float | None
    tol: float | None

    @classmethod
    def checked(cls, epochs: Any, samples: Any, seconds: Any, tol: Any) -> Stop:
        """From the user's arguments; 100 epochs when nothing limits the run."""
        if epochs is None and samples is None and seconds is None:
            epochs = 100
        return cls(
            None if epochs is None else checks.whole("epochs", epochs, least=0),
            None if samples is None else checks.whole("samples", samples),
            None if seconds is None else checks.positive("seconds", seconds),
            None if tol is None else checks.positive("tol", tol),
        )

    def spent(self, epoch: int, samples: int, seconds: float) -> Status | None:
        """The limit that has been reached, if any."""
        if self.epochs is not None and epoch >= self.epochs:
            return Status.EPOCHS
        if self.samples is not None and samples >= self.samples:
            return Status.SAMPLES
        if self.seconds is not None and seconds >= self.seconds:
            return Status.SECONDS
        return None


@checks.explain_keywords
def minimize(
    problem: Composition,
    x0: Any,
    method: Any = None,
    *,
    epochs: int | None = None,
    samples: int | None = None,
    seconds: float | None = None,
    tol: float | None = None,
    seed: int = 0,
    record_every: int = 1,
    output: str = "last",
    callback: Callable[[Info], Any] | None = None,
    progress: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1,
) -> Result:
    """Minimise f(E g(x)) + r(x) from x0.

    The run stops at whichever limit comes first, between two epochs. Ctrl-C ends it with what it
    has. A run that diverges returns the best point it recorded.

    Args:
        problem: the composition.
        x0: start, an array or pytree; its dtype is that of the iterates.
        method: a recipe such as `MVRC(step_size=1e-3)`, a name of `mvrc.METHODS`, or None.
        epochs: limit on epochs; 100 when no limit at all is given.
        samples: limit on evaluations of g (the column `inner_values`).
        seconds: limit on the time of the algorithm alone (the column `seconds`).
        tol: stop when the norm of the gradient mapping, at a recorded epoch, is at most this.
        seed: the source of all randomness of the run.
        record_every: epochs between two rows of the history; first and last are always there.
        output: "last" iterate, "random" (z_ζ, uniform over all steps, as the theorems have it)
            or "best" (lowest recorded objective).
        callback: called with an `Info` after each recorded epoch; a true value stops the run.
        progress: show a progress bar (needs rich).
        checkpoint: folder in which the whole state is saved; a second call with the same
            arguments continues from it, bit for bit.
        checkpoint_every: epochs between two saves.
    """
    checks.whole("seed", seed, least=0)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of one argument, not {callback!r}.")
    run = _Run(
        problem, x0, method, [seed], None, Stop.checked(epochs, samples, seconds, tol),
        record_every, output, callback, progress, checkpoint, checkpoint_every,
    )  # fmt: skip
    return run.solve()[0]


@checks.explain_keywords
def minimize_many(
    problem: Composition,
    x0: Any,
    method: Any = None,
    *,
    seeds: int | Sequence[int] = 10,
    epochs: int | None = None,
    samples: int | None = None,
    seconds: float | None = None,
    tol: float | None = None,
    record_every: int = 1,
    output: str = "last",
    progress: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1,
) -> list[Result]:
    """The same run for many seeds in one vmapped program; one `Result` a seed.

    Args:
        seeds: how many (0, 1, …) or which.
        tol: the runs stop together, when all have reached it.
        samples: limit for each seed.
        seconds: limit for all seeds together; so is the column `seconds`.

    The other arguments are those of `minimize`.
    """
    if isinstance(seeds, int):
        seeds = range(checks.whole("seeds", seeds))
    numbers = [checks.whole("seeds", seed, least=0) for seed in seeds]
    if not numbers:
        raise ValueError("seeds is empty; give at least one.")
    run = _Run(
        problem, x0, method, numbers, len(numbers), Stop.checked(epochs, samples, seconds, tol),
        record_every, output, None, progress, checkpoint, checkpoint_every,
    )  # fmt: skip
    return run.solve()


class _Run:
    """One call of minimize or minimize_many: prepared here, looped in `solve`."""

    def __init__(
        self,
        problem: Composition,
        x0: Any,
        method: Any,
        seeds: list[int],
        lanes: int | None,  # None: one run without a leading axis
        stop: Stop,
        record_every: int,
        output: str,
        callback: Callable[[Info], Any] | None,
        progress: bool,
        checkpoint: str | Path | None,
        checkpoint_every: int,
    ) -> None:
        if not isinstance(problem, Composition):
            raise TypeError(f"problem must be a Composition, not {type(problem).__name__}.")
        self.problem, self.seeds, self.lanes, self.stop = problem, seeds, lanes, stop
        self.record_every = checks.whole("record_every", record_every)
        self.output = checks.choice("output", output, OUTPUTS)
        self.callback, self.progress = callback, progress
        self.checkpoint_every = checks.whole("checkpoint_every", checkpoint_every)
        self.x0 = problem.start(x0)
        recipe = methods.find(method)
        with problem.precision(self.x0):
            self.geometry: Geometry = problem.geometry(self.x0)
            self.method = recipe.resolve(
                problem, self.geometry, lambda: default_step_size(problem, self.x0)
            )
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
        state, rows = self._first()
        if self.checkpoint is not None:
            state, rows = self.checkpoint.load(state, rows)
            state = state._replace(core=jax.device_put(state.core))
            # A row off the grid was the end of an earlier call, not part of this run's history.
            rows = [row for row in rows if row["epoch"] % self.record_every == 0]
        bar = Bar(self.progress, self.stop)
        status: Status | None = None
        with bar:
            try:
                if not rows:
                    state, rows = self._record(state, rows)
                status = self._end(state, rows)
                compiled = None
                while status is None:
                    if compiled is None:  # not when a finished run is merely read back
                        compiled = compile_epoch(
                            self.problem, self.geometry, self.method, state.core, self.lanes
                        )
                    state, rows, status = self._advance(compiled, state, rows)
                    bar.update(rows[-1], int(np.max(state.core.epoch)))
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        if self.checkpoint is not None:
            self.checkpoint.save(state, rows)
        return self._results(state, rows, status)

    def _advance(
        self, compiled: Epoch, state: State, rows: list[Any]
    ) -> tuple[State, list[Any], Status | None]:
        """One epoch and what belongs to it; returns new values, so an interrupt tears nothing."""
        start = time.perf_counter()
        core, finite = compiled.run(state.core)
        healthy = bool(np.any(finite))  # waits for the epoch
        seconds = state.seconds + (time.perf_counter() - start)
        if not healthy:
            return state, rows, Status.DIVERGED
        state = state._replace(
            core=core, seconds=seconds, counts=state.counts + np.array(compiled.counts, np.int64)
        )
        epoch = int(np.max(core.epoch))
        if epoch % self.record_every == 0:
            state, rows = self._record(state, rows)
            asked = self._ask(state, rows)
            status = self._end(state, rows) or asked
        else:
            status = self._spent(state)
        if self.checkpoint is not None and epoch % self.checkpoint_every == 0:
            self.checkpoint.save(state, rows)
        return state, rows, status

    def _first(self) -> tuple[State, list[Any]]:
        flat = self.geometry.x.flatten(self.x0)
        random = self.output == "random"
        core, counts = first_core(
            self.problem, self.geometry, self.method, flat, self.seeds, self.lanes, random
        )
        shape = () if self.lanes is None else (self.lanes,)
        best = np.broadcast_to(np.asarray(flat), (*shape, flat.size))
        return State(
            core, np.array(counts, np.int64), np.zeros(()), best, np.full(shape, np.inf)
        ), []

    def _measure(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        objective, mapping, _ = measure_flat(
            self.problem, self.geometry, points, self.method.scheme.step_size, self.lanes
        )
        return np.asarray(objective, np.float64), np.asarray(mapping, np.float64)

    def _row(self, state: State, points: Any) -> dict[str, Any]:
        objective, mapping = self._measure(points)
        return {
            "epoch": int(np.max(state.core.epoch)),
            **{name: int(n) for name, n in zip(Counts._fields, state.counts, strict=True)},
            "seconds": float(state.seconds),
            "objective": objective,
            "gradient_mapping": mapping,
        }

    def _record(self, state: State, rows: list[Any]) -> tuple[State, list[Any]]:
        points = self.method.scheme.point(state.core.scheme)
        row = self._row(state, points)
        better = row["objective"] < state.best_objective
        state = state._replace(
            best_point=np.where(better[..., None], np.asarray(points), state.best_point),
            best_objective=np.where(better, row["objective"], state.best_objective),
        )
        return state, [*rows, row]

    def _spent(self, state: State) -> Status | None:
        return self.stop.spent(
            int(np.max(state.core.epoch)), int(state.counts[0]), float(state.seconds)
        )

    def _end(self, state: State, rows: list[Any]) -> Status | None:
        row = rows[-1]
        if not np.isfinite(row["objective"]).any() and row["epoch"] > 0:
            return Status.DIVERGED
        if self.stop.tol is not None and np.all(row["gradient_mapping"] <= self.stop.tol):
            return Status.CONVERGED
        return self._spent(state)

    def _ask(self, state: State, rows: list[Any]) -> Status | None:
        if self.callback is None:
            return None
        row = rows[-1]
        info = Info(
            row["epoch"],
            self._tree(self.method.scheme.point(state.core.scheme)),
            float(row["objective"]),
            float(row["gradient_mapping"]),
            Counts(*(int(n) for n in state.counts)),
            row["seconds"],
            History([_lane_row(r, None) for r in rows]),
        )
        return Status.CALLBACK if self.callback(info) else None

    def _tree(self, flat: Any) -> Any:
        return self.geometry.x.unflatten(np.asarray(flat))

    def _results(self, state: State, rows: list[Any], status: Status) -> list[Result]:
        if status is not Status.DIVERGED and (
            not rows or rows[-1]["epoch"] != int(np.max(state.core.epoch))
        ):
            points = self.method.scheme.point(state.core.scheme)
            rows = [*rows, self._row(state, points)]
        chosen = self._outputs(state, rows, status)
        objective, mapping = self._measure(jax.device_put(chosen))
        results = []
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
            if not np.isfinite(history.rows[-1]["objective"]) and len(history) > 1:
                ended = Status.DIVERGED
            results.append(
                Result(
                    x=self._tree(_at(chosen, lane)),
                    objective=float(_at(objective, lane)),
                    gradient_mapping=float(_at(mapping, lane)),
                    status=ended,
                    message=self._message(ended, history),
                    history=history,
                    counts=Counts(*(int(n) for n in state.counts)),
                    seconds=float(state.seconds),
                    step_size=float(self.method.scheme.step_size),
                    state=own,
                )
            )
        return results

    def _outputs(self, state: State, rows: list[Any], status: Status) -> np.ndarray:
        """The flat point(s) that the run returns."""
        last = np.asarray(self.method.scheme.point(state.core.scheme))
        final = np.asarray(rows[-1]["objective"])
        if self.output == "random" and status is not Status.DIVERGED:
            assert state.core.output is not None
            made = np.asarray(state.core.output.offered)[..., None] > 0
            return np.where(made, np.asarray(state.core.output.point), last)
        use_best = ~np.isfinite(final)
        if status is Status.DIVERGED:
            use_best = np.ones_like(use_best)
        if self.output == "best":
            use_best = use_best | (state.best_objective < final)
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


def _at(tree: Any, lane: int | None) -> Any:
    return tree if lane is None else jax.tree_util.tree_map(lambda a: a[lane], tree)


def _lane_row(row: dict[str, Any], lane: int | None) -> dict[str, Any]:
    own = {name: float(_at(row[name], lane)) for name in ("objective", "gradient_mapping")}
    return {**row, **own}
