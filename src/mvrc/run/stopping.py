"""When a run ends: limits and tolerances, rows beyond return; and what it refuses to begin with."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from mvrc.oracle import Geometry
from mvrc.solvers.result import Status
from mvrc.support import checks

# A run ends before an epoch after which, at the pace so far, it would be this far beyond `seconds`.
# Of the 20 % that are promised it leaves half to an epoch that takes longer than those before it.
OVERTIME = 1.1


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

    def limited(self, epochs: int) -> Stop:
        """With so many epochs when nothing limits the run."""
        if (self.epochs, self.samples, self.seconds) != (None, None, None):
            return self
        return dataclasses.replace(self, epochs=epochs)

    def small(self, mapping: Any, first: Any) -> Any:
        """Whether (or which of) the gradient mappings are down to a tolerance."""
        limit = np.full_like(first, -1.0) if self.tol is None else np.full_like(first, self.tol)
        if self.rtol is not None:
            limit = np.maximum(limit, self.rtol * first)
        return mapping <= limit

    def spent(self, epoch: int, samples: int, seconds: float, ahead: float) -> Status | None:
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


def check_callback(callback: Any) -> None:
    if callback is None:
        return
    try:
        inspect.signature(callback).bind(None)
    except TypeError:
        raise TypeError(
            f"callback must be a function of one argument, the Info of a row, not "
            f"{checks.shown(callback)}."
        ) from None
    except ValueError:  # a built-in without a signature
        return


def check_checkpoint(checkpoint: Any, every: Any) -> None:
    if checkpoint is None:
        if every is not None:
            raise ValueError(f"checkpoint_every is {every!r} but no checkpoint folder is given.")
        return
    if not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint):
        raise TypeError(f"checkpoint must be the path of a folder, not {checks.shown(checkpoint)}.")


def check_step(step: float, geometry: Geometry) -> None:
    dtype = geometry.x.dtype
    if np.asarray(step, dtype) < np.finfo(dtype).tiny:
        raise ValueError(
            f"step_size is {step:.3g}, which is 0 in x0's dtype {dtype}; it must be larger."
        )


def check_start(row: dict[str, Any], overflows: Callable[[], str]) -> None:
    """An infinite objective is an infeasible x0, which the run mends; NaN is a mistake.

    `overflows` says which function is infinite there, and is asked only when something is wrong.
    """
    wrong = np.isnan(row["objective"]).any() or not np.isfinite(row["gradient_mapping"]).all()
    if wrong and (call := overflows()):
        raise ValueError(
            f"x0 gives values of {call} that overflow, as exp of a large number does; subtract the "
            f"largest exponent first, scale the data or start nearer to 0."
        )
    if np.isnan(row["objective"]).any():
        raise ValueError("x0 gives an objective of nan; start where f and g are defined.")
    if not np.isfinite(row["gradient_mapping"]).all():
        raise ValueError(
            "x0 gives a gradient that is not finite, as a root, log or norm does at 0; start "
            "elsewhere (problem.check(x0) says which derivative it is)."
        )
