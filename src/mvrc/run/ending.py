"""How a run ends: the point that it returns, and its status in words."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from mvrc.oracle import Counts
from mvrc.oracle.exact import estimated
from mvrc.run.fingerprint import glance
from mvrc.run.measuring import Recorder
from mvrc.run.setup import Setup
from mvrc.run.state import Progress, Row, State, at_seed, readable
from mvrc.run.stopping import Ends, broken_seeds
from mvrc.solvers.decisions import DECISIONS
from mvrc.solvers.result import History, Result, Status
from mvrc.solvers.solver import End
from mvrc.solvers.stages import staged

CONFIDENCE = 1.645  # standard errors on either side that hold 90 % of a normal distribution
SHARE, MOST = 8, 2**22  # samples of an interval: that part of the run's, at most so many
FRESH = 2**31  # the number of the stage that has them, which no run comes to

OUTSIDE = (
    "The last point is outside of the constraint set, where the objective is infinite; more epochs "
    "bring it closer, and of r(Ax) SpiderADMM is inside in the limit only."
)


class Wanted(NamedTuple):
    """What of a run the user wants to have."""

    output: str  # "last", "random" or "best"
    has_tolerance: bool  # whether the user said how small the gradient mapping shall be
    unsaved: str = ""  # why the last save failed


def conclude(
    setup: Setup, recorder: Recorder, progress: Progress, status: Status, wanted: Wanted,
    ends: Any,
) -> list[Result]:  # fmt: skip
    """One result per seed. `ends(state, rows)` says which seeds have ended, and why."""
    state, rows = progress.state, progress.rows
    if status is not Status.DIVERGED and (not rows or rows[-1]["epoch"] != state.epoch):
        rows = [*rows, *recorder.rows((state,))]
    state = readable(state)
    chosen = _outputs(setup, recorder, state, rows, status, wanted)
    objective, mapping = _measured(recorder, state, rows[-1], chosen)
    found: Ends = ends(state, rows)
    word = setup.solver.end(state.core, wanted.has_tolerance)
    unsaved = (wanted.unsaved,) if wanted.unsaved else ()
    data, results = glance(setup.problem), []
    for seed in [None] if setup.axis is None else range(setup.axis):
        made = [row_of(row, seed) for row in (*progress.failed, *rows)]
        own = state._replace(
            core=at_seed(state.core, seed),
            best_point=at_seed(state.best_point, seed),
            best_objective=at_seed(state.best_objective, seed),
        )
        ended = status
        if broken_seeds(made[-1], made[len(progress.failed)]):
            ended = Status.DIVERGED
        elif (
            status is Status.CONVERGED
            and not at_seed(found.small, seed)
            and at_seed(found.stalled, seed)
        ):
            ended = Status.STALLED if word is None else word.status
        results.append(
            Result(
                x=setup.tree(at_seed(chosen, seed)),
                objective=float(at_seed(objective, seed)),
                gradient_mapping=float(at_seed(mapping, seed)),
                status=ended,
                message=_message(setup, recorder, ended, made, word),
                history=History(made),
                counts=recorder.counts(state),
                seconds=float(state.seconds),
                wall_seconds=float(state.wall_seconds),
                step_size=setup.solver.step_size,
                state=own,
                notes=(*setup.notes(int(state.restarts)), *unsaved),
                interval=_interval(setup, at_seed(chosen, seed), recorder.counts(state), seed),
                data=data,
            )
        )
    return results


def _interval(
    setup: Setup, point: np.ndarray, counts: Counts, seed: int | None
) -> tuple[float, float] | None:
    """Of a stream, from fresh samples; of finite sums Φ is known."""
    problem = setup.problem
    if problem.finite:
        return None
    sources = problem.inner_source, problem.outer_source
    rows = max(s.everything().size for s in sources if s is not None and s.count is None)
    rows = min(max(rows, counts.inner_values // SHARE), MOST)
    fresh = staged(problem, setup.seeds[seed or 0], FRESH, rows)
    value, error = estimated(fresh, setup.geometry, np.asarray(point))
    half = CONFIDENCE * error
    return (value - half, value + half) if np.isfinite(half) else None


def row_of(row: Row, seed: int | None) -> Row:
    """The row of one seed, with words and Python numbers."""
    names = ("objective", "gradient_mapping", "step_size")
    own = {name: float(at_seed(row[name], seed)) for name in names}
    return {**row, **own, "decision": DECISIONS[int(at_seed(row["decision"], seed))]}


def array_row(row: Row) -> Row:
    """The inverse of `row_of`, for a run that goes on."""
    names = ("objective", "gradient_mapping", "step_size")
    own = {name: np.asarray(row[name]) for name in names}
    return {**row, **own, "decision": np.asarray(DECISIONS.index(row["decision"]))}


def _measured(recorder: Recorder, state: State, row: Row, chosen: Any) -> tuple[Any, Any]:
    """Φ and ‖𝒢_η‖ of what the run returns, which may be what its last row measured."""
    last = row["epoch"] == state.epoch and np.array_equal(chosen, recorder.point(state))
    if last:
        return row["objective"], row["gradient_mapping"]
    return recorder.measure(jax.device_put(chosen))


def _outputs(
    setup: Setup, recorder: Recorder, state: State, rows: list[Row], status: Status,
    wanted: Wanted,
) -> np.ndarray:  # fmt: skip
    """The flat point(s) that the run returns."""
    last = np.asarray(recorder.point(state))
    use_best = np.asarray(broken_seeds(rows[-1], rows[0]) | (status is Status.DIVERGED))
    if wanted.output == "best" or setup.solver.keeps_best:
        use_best = np.asarray(use_best | (state.best_objective < rows[-1]["objective"]))
    elif wanted.output == "random":
        assert state.core.output is not None
        made = np.asarray(state.core.output.offered)[..., None] > 0
        last = np.where(made, np.asarray(state.core.output.point), last)
    return np.where(use_best[..., None], state.best_point, last)


def _message(
    setup: Setup, recorder: Recorder, status: Status, rows: list[Row], word: End | None
) -> str:
    first, last = rows[0], rows[-1]
    if status is Status.DIVERGED:
        best = min((r for r in rows if np.isfinite(r["objective"])),
                   key=lambda r: r["objective"], default=first)  # fmt: skip
        return (
            f"{status.value} It happened after epoch {last['epoch']}; x is the best point "
            f"recorded, at epoch {best['epoch']}. Try a step_size below "
            f"{setup.solver.step_size:.3g}."
        )
    part = recorder.part()
    measured = "" if part is None else f", both measured on {part[0]:,} of {part[1]:,} samples"
    why = f" {word.sentence}" if word is not None and word.status is status else ""
    if np.isposinf(last["objective"]):
        why += " " + OUTSIDE
    return (
        f"{status.value} Objective {first['objective']:.6g} → {last['objective']:.6g} in "
        f"{last['epoch']} epoch{'' if last['epoch'] == 1 else 's'} and "
        f"{last['inner_values']:,} samples; gradient mapping {last['gradient_mapping']:.3g}"
        f"{measured}.{why}"
    )


def resumed(result: Result, first: State, data: str) -> tuple[State, list[Row]]:
    """State and rows of a result, which must be of such a run on such data."""
    mine, theirs = (str(jax.tree_util.tree_structure(s)) for s in (first, result.state))
    pairs = zip(
        jax.tree_util.tree_leaves(first), jax.tree_util.tree_leaves(result.state), strict=False
    )
    forms = (((np.shape(a), a.dtype), (np.shape(b), b.dtype)) for a, b in pairs)
    key, other = (getattr(state.core, "key", ()) for state in (first, result.state))
    if mine != theirs or any(a != b for a, b in forms) or not np.array_equal(key, other):
        raise ValueError(
            "resume is the result of a different run: problem, x0's shape and dtype, method, seed "
            "and output must be the same, and a table of C-SAGA must not have been lost."
        )
    if result.data != data:
        raise ValueError(
            "resume is a result on other data, whose state would not be true of these; start at "
            "its point instead: x0=result.x."
        )
    return result.state, [array_row(row) for row in result.history.rows]
