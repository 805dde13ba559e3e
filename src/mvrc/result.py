"""What a run returns: a status in words, the history, the solution."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import Any

import numpy as np

from mvrc import checks
from mvrc.oracle import Counts

COLUMNS = ("epoch", *Counts._fields, "seconds", "objective", "gradient_mapping")


class Status(enum.Enum):
    """Why a run ended; each value is a sentence."""

    CONVERGED = "The norm of the gradient mapping fell to the tolerance."
    EPOCHS = "The number of epochs asked for was made."
    SAMPLES = "The number of samples allowed was reached."
    SECONDS = "The time allowed was used up."
    CALLBACK = "The callback asked to stop."
    INTERRUPTED = "The run was interrupted from the keyboard."
    DIVERGED = "The run diverged: its values left all bounds."


class History:
    """One row a measurement; columns are NumPy arrays: `history["objective"]`.

    `inner_values`, `inner_jacobians`, `outer_gradients` and `prox` count evaluations since the
    start, `seconds` the time of the algorithm alone (no compilation, no measuring).
    """

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

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
            raise ImportError("to_pandas() needs pandas: pip install 'mvrc[pandas]'.") from error
        return pandas.DataFrame(self.rows, columns=list(COLUMNS))

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
        x: the solution, in the structure and dtype of x0, as NumPy arrays.
        objective: Φ(x), exact (of a stream: on its evaluation batch).
        gradient_mapping: ‖𝒢_λ(x)‖ at λ = step size.
        status: why the run ended.
        message: the same in a sentence, with numbers.
        history: all measurements.
        counts: evaluations in all.
        seconds: time of the algorithm alone.
        step_size: the η that was used.
        state: the whole state of the run, one pytree.
    """

    x: Any
    objective: float
    gradient_mapping: float
    status: Status
    message: str
    history: History
    counts: Counts
    seconds: float
    step_size: float
    state: Any = dataclasses.field(repr=False)

    @property
    def epochs(self) -> int:
        """Epochs made."""
        return int(np.max(self.state.core.epoch))

    @checks.explain_keywords
    def plot(self, best: float | None = None, ax: Any = None) -> Any:
        """Objective (or its gap to `best`) and gradient mapping over samples; needs matplotlib.

        Args:
            best: a known optimal value; the gap to it is shown on a log axis.
            ax: a pair of matplotlib axes; made when missing.
        """
        from mvrc.plotting import plot_history

        return plot_history(self.history, best, ax)

    def __repr__(self) -> str:
        return (
            f"Result({self.status.name}: {self.message}\n"
            f"  objective = {self.objective:.8g}, gradient mapping = {self.gradient_mapping:.3g}, "
            f"epochs = {self.epochs}, inner values = {self.counts.inner_values:,}, "
            f"seconds = {self.seconds:.3g})"
        )
