"""Arguments of a run: what a callback sees, what is refused, in sentences."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mvrc.oracle import Counts
from mvrc.solvers.result import History
from mvrc.support import checks

OUTPUTS = ("last", "random", "best")


class Info(NamedTuple):
    """What a callback sees after each measurement."""

    epoch: int
    x: Any
    objective: float
    gradient_mapping: float
    counts: Counts
    seconds: float
    history: History


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


def check_step(step: float, dtype: Any) -> None:
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
            f"x0 gives values of {call} that overflow, as exp of a large number or a division by 0 "
            f"does; subtract the largest exponent first, scale the data or start elsewhere."
        )
    if np.isnan(row["objective"]).any():
        raise ValueError(
            "x0 gives an objective of nan, as log of a negative number or ∞ − ∞ does; start where "
            "f and g are defined."
        )
    if not np.isfinite(row["gradient_mapping"]).all():
        raise ValueError(
            "x0 gives a gradient that is not finite, as a root, log or norm does at 0 and exp of "
            "a large number; start elsewhere (problem.check(x0) says which derivative it is)."
        )
