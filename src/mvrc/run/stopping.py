"""When a run ends: limits, tolerances, a solver's own word, rows beyond return."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from mvrc.solvers.result import Status
from mvrc.support import checks

# A run ends before an epoch after which, at the pace so far, it would be this far beyond `seconds`.
# Of the 20 % that are promised it leaves half to an epoch that takes longer than those before it.
OVERTIME = 1.1


class Ends(NamedTuple):
    """Which seeds have ended, and why."""

    broken: Any  # left the numbers, or beyond return
    small: Any  # reached the user's tolerance
    stalled: Any  # by the solver's own word


@dataclasses.dataclass(frozen=True)
class Stop:
    """When to stop; whatever comes first."""

    epochs: int | None
    samples: int | None
    seconds: float | None
    tol: float | None
    rtol: float | None

    @classmethod
    def checked(cls, epochs: Any, samples: Any, seconds: Any, tol: Any, rtol: Any) -> Stop:
        """From the user's arguments."""
        return cls(
            None if epochs is None else checks.integer("epochs", epochs, least=0),
            None if samples is None else checks.integer("samples", samples),
            None if seconds is None else checks.positive("seconds", seconds),
            None if tol is None else checks.positive("tol", tol),
            None if rtol is None else checks.positive("rtol", rtol),
        )

    @property
    def has_tolerance(self) -> bool:
        """Whether the user said how small the gradient mapping shall be."""
        return self.tol is not None or self.rtol is not None

    def limited(self, epochs: int, samples: int | None) -> Stop:
        """With so many epochs and samples when nothing limits the run."""
        if (self.epochs, self.samples, self.seconds) != (None, None, None):
            return self
        return dataclasses.replace(self, epochs=epochs, samples=samples)

    def small(self, mapping: Any, first: Any) -> Any:
        """Whether (or which of) the gradient mappings are down to a tolerance."""
        limit = np.full_like(first, -1.0) if self.tol is None else np.full_like(first, self.tol)
        if self.rtol is not None:
            limit = np.maximum(limit, self.rtol * first)
        return mapping <= limit

    def ends(self, rows: list[dict[str, Any]], stalled: Any) -> Ends:
        """After the last of some rows."""
        row, first = rows[-1], rows[0]
        small = self.small(row["gradient_mapping"], first["gradient_mapping"])
        return Ends(broken_seeds(row, first), small, stalled)

    def status(self, ends: Ends, own: Status | None) -> Status | None:
        """Why a run ends here, limits apart; `own` is the solver's word."""
        if ends.broken.all():
            return Status.DIVERGED
        if np.all(ends.broken | ends.small):
            return Status.CONVERGED
        if own is not None:
            return own
        if np.all(ends.broken | ends.small | ends.stalled):  # some seeds this, some that
            return Status.CONVERGED
        return None

    def reached(self, epoch: int, samples: int, seconds: float, ahead: float) -> Status | None:
        """The limit that has been reached, if any.

        `seconds` is wall time, of which another epoch would take `ahead` until the run has ended.
        One epoch is made whatever it takes.
        """
        if self.epochs is not None and epoch >= self.epochs:
            return Status.EPOCHS
        if self.samples is not None and samples >= self.samples:
            return Status.SAMPLES
        if self.seconds is None or not epoch:
            return None
        late = seconds >= self.seconds or seconds + ahead > OVERTIME * self.seconds
        return Status.SECONDS if late else None


def broken_seeds(row: dict[str, Any], first: dict[str, Any]) -> Any:
    """Whether a row, or which of its seeds, has left the numbers or is beyond return.

    An objective of +∞ alone has not: it is a point outside a constraint set, as averaged and
    normalised steps from an infeasible x0 are for a while. A finite one is beyond return when it
    and the gradient mapping are many orders above the start.
    """
    objective, mapping = np.asarray(row["objective"]), np.asarray(row["gradient_mapping"])
    start, slope = np.asarray(first["objective"]), np.asarray(first["gradient_mapping"])
    finite = np.isfinite(start) & np.isfinite(objective)
    start = np.where(finite, start, 0)
    high = finite & (np.where(finite, objective, 0) - start > 1e8 * (1 + np.abs(start)))
    lost = high & (mapping > 1e4 * slope)
    return np.asarray(np.isnan(objective) | np.isneginf(objective) | ~np.isfinite(mapping) | lost)


def broken_rows(rows: list[dict[str, Any]], first: dict[str, Any]) -> np.ndarray:
    """Which of some rows are broken in all their seeds."""
    names = ("objective", "gradient_mapping")
    broken = broken_seeds({name: np.stack([row[name] for row in rows]) for name in names}, first)
    return broken.reshape(len(rows), -1).all(axis=1)


def risen_seeds(row: dict[str, Any], first: dict[str, Any], dtype: Any) -> Any:
    """Whether a row, or which of its seeds, is above the start by more than a step was to gain.

    That is η‖𝒢_η(x0)‖² and rounding. With exact refreshes a step that is short enough never is.
    """
    objective, start = np.asarray(row["objective"]), np.asarray(first["objective"])
    gain = first["step_size"] * first["gradient_mapping"] ** 2
    with np.errstate(invalid="ignore"):  # ∞ − ∞ of an infeasible start
        rounding = float(np.finfo(dtype).eps) ** (3 / 4) * np.abs(start)
        return np.isfinite(objective) & (objective - start > gain + rounding)


def lost_rows(
    rows: list[dict[str, Any]], first: dict[str, Any], may_shorten: bool, exact: bool, dtype: Any
) -> np.ndarray:
    """Which of some rows are beyond return in all seeds; where the step may be shortened, in any
    seed, and where refreshes are `exact` also those that have risen."""
    if not may_shorten:
        return broken_rows(rows, first)
    lost = [broken_seeds(row, first) for row in rows]
    if exact:
        lost = [a | risen_seeds(row, first, dtype) for a, row in zip(lost, rows, strict=True)]
    return np.array([bool(np.any(each)) for each in lost])
