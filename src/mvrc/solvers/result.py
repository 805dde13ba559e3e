"""What a run returns: a status in words, the history, the solution."""

from __future__ import annotations

import csv
import dataclasses
import enum
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mvrc.oracle import Counts
from mvrc.solvers.decisions import BROKEN, DECISIONS, LONGER, REJECTED
from mvrc.support import checks, extras

COLUMNS = (
    "epoch", *Counts._fields, "seconds", "wall_seconds", "objective", "gradient_mapping",
    "measured_samples", "step_size", "decision",
)  # fmt: skip


class Status(enum.Enum):
    """Why a run ended; each value is a sentence.

    Examples:
        >>> mvrc.Status.CONVERGED.value
        'Converged to the tolerance.'
    """

    CONVERGED = "Converged to the tolerance."
    PRECISION = "No progress is possible at this precision."
    PLATEAU = "The objective is flat here."
    STALLED = "No step makes progress any more."
    UNBOUNDED = "The objective falls without bound."
    EPOCHS = "Reached the epoch limit."
    SAMPLES = "Reached the sample limit."
    SECONDS = "Reached the time limit."
    CALLBACK = "The callback asked to stop."
    STOPPED = "The caller made no further step."
    INTERRUPTED = "The run was interrupted."
    DIVERGED = "The iterates diverged."


class History:
    """One row per measurement; columns are NumPy arrays: `history["objective"]`.

    `inner_values`, `inner_jacobians`, `outer_gradients` and `prox` count evaluations since the
    start, `seconds` the time of the algorithm alone, `wall_seconds` that with measuring, callbacks
    and saves before the row; neither includes compilation. `objective` and `gradient_mapping` are
    measured on `measured_samples` inner samples. `decision` is what `Auto` decided at that epoch's
    refresh, and `step_size` the length it then gave its steps (of a Newton step: the fraction that
    its damping leaves); for other methods "" and η.

    Examples:
        >>> history = mvrc.minimize(problem, x0).history
        >>> bool(history["objective"][-1] < history["objective"][0])
        True
    """

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getattr__(self, name: str) -> Any:
        """A column as an attribute."""
        if name in COLUMNS:
            return self[name]
        near = checks.nearest(name, COLUMNS)
        raise AttributeError(
            f"History has no attribute {name!r}{near}; its columns are {', '.join(COLUMNS)}."
        )

    def __getitem__(self, column: str) -> np.ndarray:
        if column not in COLUMNS:
            near = checks.nearest(column, COLUMNS)
            raise KeyError(
                f"history has no column {checks.shown(column)}{near}; it has {', '.join(COLUMNS)}."
            )
        return np.array([row[column] for row in self.rows])

    def to_pandas(self) -> Any:
        """The history as a pandas DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise extras.missing("to_pandas() needs pandas", "pandas") from error
        return pandas.DataFrame(self.rows, columns=list(COLUMNS))

    def to_csv(self, path: str | Path | None = None) -> str:
        """The history as CSV, and in a file when there is a path."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        if path is not None:
            Path(path).write_text(text.getvalue(), encoding="utf-8")
        return text.getvalue()

    def __repr__(self) -> str:
        if not self.rows:
            return "History(empty)"
        last = self.rows[-1]
        return (
            f"History({len(self)} rows to epoch {last['epoch']}: objective "
            f"{self.rows[0]['objective']:.6g} → {last['objective']:.6g})"
        )


@dataclasses.dataclass(frozen=True)
class Result:
    """The end of a run.

    Attributes:
        x: the solution, with the structure and dtype of x0, as NumPy arrays.
        objective: Φ(x), exact (of a stream: on its evaluation batch) unless `measure_samples` was
            given: then on that part, as the rows are; `problem.objective(x)` is exact.
        gradient_mapping: ‖𝒢_λ(x)‖ at λ = step size, likewise.
        status: why the run ended.
        message: the same in a sentence, with numbers.
        history: all measurements.
        counts: evaluations in total.
        seconds: time of the algorithm alone.
        wall_seconds: the same with measuring, callbacks and saves; no compilation.
        step_size: the η that was used.
        state: the whole state of the run, one pytree; without the table of C-SAGA when the run was
            interrupted or diverged, as an epoch changes it in place.
        notes: what `Auto` chose, and why, in sentences.
        interval: of a stream, where Φ(x) lies with 90 % confidence, by fresh samples that no step
            has seen: an eighth of the run's, or `evaluation_size` if that is more. None of finite
            sums, where Φ is exact.
        data: a checksum of some rows of the data, which a run that resumes compares.

    Examples:
        >>> result = mvrc.minimize(problem, x0)
        >>> result.status is mvrc.Status.CONVERGED, result.x.shape, result.counts.inner_values > 0
        (True, (3,), True)
    """

    x: Any
    objective: float
    gradient_mapping: float
    status: Status
    message: str
    history: History
    counts: Counts
    seconds: float
    wall_seconds: float
    step_size: float
    state: Any = dataclasses.field(repr=False)
    notes: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    interval: tuple[float, float] | None = None
    data: str = dataclasses.field(default="", repr=False)

    @property
    def epochs(self) -> int:
        """Epochs made."""
        return int(np.max(self.state.core.epoch))

    @property
    def fun(self) -> float:
        """`objective`, as SciPy calls it."""
        return self.objective

    @property
    def success(self) -> bool:
        """Whether the run converged, or came as far as its precision allows."""
        return self.status in (Status.CONVERGED, Status.PRECISION)

    def __getattr__(self, name: str) -> Any:
        """The right name for one that other libraries have."""
        known = _ELSEWHERE.get(name)
        hint = f"; it is result.{known}" if known else checks.nearest(name, _OWN)
        raise AttributeError(f"Result has no attribute {name!r}{hint}.")

    def to_dict(self) -> dict[str, Any]:
        """What can be written as JSON or as a row of a table: numbers and words, without state.

        x is a list of numbers, or a dictionary of lists by the paths of its arrays.
        """
        leaves = jax.tree_util.tree_leaves_with_path(self.x)
        named = {
            jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf).tolist()
            for path, leaf in leaves
        }
        return {
            "status": self.status.name,
            "message": self.message,
            "success": self.success,
            "x": named.get("", named),
            "objective": self.objective,
            "gradient_mapping": self.gradient_mapping,
            "epochs": self.epochs,
            **self.counts._asdict(),
            "seconds": self.seconds,
            "wall_seconds": self.wall_seconds,
            "step_size": self.step_size,
            "interval": None if self.interval is None else list(self.interval),
            "notes": list(self.notes),
        }

    def explain(self) -> str:
        """What was chosen and why, what happened, and how the run ended, one sentence per line."""
        return "\n".join([*self.notes, *_happened(self.history), self.message])

    @checks.explain_keywords
    def plot(self, best: float | None = None, ax: Any = None) -> Any:
        """Objective (or its gap to `best`) and gradient mapping over samples; needs matplotlib.

        Args:
            best: a known optimal value; the gap to it is shown on a log axis.
            ax: a pair of matplotlib axes; made when missing.
        """
        from mvrc.solvers.plotting import plot_history

        return plot_history(self.history, best, ax)

    def save(self, path: str | Path) -> None:
        """Keep the result in a file, for `Result.load` and `minimize(resume=…)`."""
        plain = jax.tree_util.tree_map(np.asarray, (self.x, self.state))
        kept = dataclasses.replace(self, x=plain[0], state=plain[1])
        Path(path).write_bytes(pickle.dumps(kept))

    @staticmethod
    def load(path: str | Path) -> Result:
        """A result that was saved. Load only files that you trust, as with every pickle."""
        data = Path(path).read_bytes()
        try:
            found = pickle.loads(data)
        except Exception as error:
            raise ValueError(
                f"the file {str(path)!r} is no result that was saved, or not by this version of "
                f"mvrc ({type(error).__name__})."
            ) from error
        return checks.instance(f"the file {str(path)!r}", found, Result)

    def _repr_html_(self) -> str:
        from mvrc.solvers.html import of_result

        return of_result(self)

    def __repr__(self) -> str:
        return (
            f"Result({self.status.name}: {self.message}\n"
            f"  objective = {self.objective:.8g}, gradient mapping = {self.gradient_mapping:.3g}, "
            f"epochs = {self.epochs}, inner values = {self.counts.inner_values:,}, "
            f"seconds = {self.seconds:.3g})"
        )


# Names of other libraries, and ours.
_ELSEWHERE = {
    **dict.fromkeys(("nit", "n_iter", "n_iter_", "nepochs", "iterations"), "epochs"),
    **dict.fromkeys(("value", "loss", "f", "fval", "objective_"), "objective"),
    **dict.fromkeys(("jac", "grad", "gradient", "grad_norm"), "gradient_mapping"),
    **dict.fromkeys(("nfev", "njev", "evaluations"), "counts"),
    **dict.fromkeys(("params", "weights", "solution", "coef_", "x_opt"), "x"),
    **dict.fromkeys(("time", "elapsed", "runtime", "solve_time"), "wall_seconds"),
    **dict.fromkeys(("reason", "msg"), "message"),
    **dict.fromkeys(("converged",), "success"),
    **dict.fromkeys(("losses", "trace", "log", "objectives"), 'history["objective"]'),
    **{name: f"history.{name}" for name in ("to_pandas", "to_csv")},
}
_OWN = (*(field.name for field in dataclasses.fields(Result)), "epochs", "fun", "success")


def _happened(history: History) -> list[str]:
    """The decisions of a run in sentences; none of a method that makes none."""
    made = [(row["epoch"], row["decision"]) for row in history.rows if row["decision"]]
    if not made:
        return []
    good = sum(word.startswith("accepted") for _, word in made)
    sentences = [f"Points tried: {len(made)}; progress, and accepted: {good}."]
    for code, text in ((REJECTED, "Φ did not fall as predicted"), (BROKEN, "Φ was not finite")):
        epochs = [epoch for epoch, word in made if word == DECISIONS[code]]
        if epochs:
            listed = ", ".join(map(str, epochs[:8])) + (", …" if len(epochs) > 8 else "")
            sentences.append(
                f"At epoch{'s' if len(epochs) > 1 else ''} {listed} {text}: the point was rejected "
                f"and the next step was shorter."
            )
    longer = sum(word == DECISIONS[LONGER] for _, word in made)
    if longer:
        times = "once" if longer == 1 else f"{longer} times"
        sentences.append(f"After progress the steps were lengthened {times}.")
    return sentences
