"""Where a run of full passes stands, and what its end is called."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from mvrc.solvers.result import Status
from mvrc.solvers.solver import End

# What a state says of its end.
GOING, CONVERGED, PLATEAU, PRECISION, STALLED, UNBOUNDED, NOT_FINITE = range(7)


class Trial(NamedTuple):
    """The point to be evaluated next, and what the model says of it."""

    point: Any
    predicted: Any  # decrease of Φ
    slope: Any  # derivative of Φ along the step
    length: Any  # ‖Ds‖
    damped: Any  # whether the radius shortened it
    share: Any  # of the undamped step: λ/(λ + δ) along it


class FullPassState(NamedTuple):
    """Where a run stands. All numbers are float64; those of `inner` and `outer` have x's dtype."""

    epoch: Any  # passes made
    x0: Any
    x: Any
    objective: Any  # Φ(x); ∞ before the first pass
    gradient: Any  # ∇F(x)
    scale: Any  # the size of the terms of Φ
    inner: Any  # g(x)
    outer: Any  # ∇f(g(x))
    squares: Any  # D²
    radius: Any  # Δ; ∞ before the first pass
    model: Any
    trial: Trial
    decrease: Any  # what the undamped model predicts at x
    newton: Any  # its step
    end: Any  # one of GOING, …
    decision: Any  # place in DECISIONS
    level: Any  # trials in a row within rounding
    rejected: Any  # trials rejected in a row
    rejections: Any  # in all
    runaway: Any  # good steps in a row to the boundary of a model without a sure minimum
    unsure: Any  # whether the model has no sure minimum
    first_scale: Any
    first_decrease: Any  # −1 before there is one
    mark: Any  # Φ at the last multiple of KINKED_PASSES


class Assessment(NamedTuple):
    """What an undamped and unfloored model at x predicts."""

    decrease: float  # of Φ, predicted
    step: np.ndarray
    minimum: bool  # it has one
    sure: bool  # and that is beyond rounding
    point: np.ndarray | None = None  # with r: x + step rounds off bounds and zeros, this does not


def explained(code: int, state: FullPassState, rounding: float) -> End:
    """The end of that code, with its sentence; `rounding` is that of Φ."""
    decrease = float(state.decrease)
    way = direction(state.trial.point - state.x0, state.x - state.x0)
    predicted = "the model has no minimum"
    if np.isfinite(decrease):
        predicted = f"the model predicts a further decrease of {max(decrease, 0.0) + 0.0:.2g}"
    sentences = {
        CONVERGED: f"With curvature measured at this point {predicted}.",
        PLATEAU: "Along one unknown Φ has neither slope nor curvature any more: it is flat there, "
        "and lower values, if any, are elsewhere (or a kink hides the slope, as |t| does at 0).",
        PRECISION: f"Steps change Φ by less than its rounding, about {rounding:.2g}.",
        STALLED: f"Steps gain almost nothing although {predicted}: f or g may have a kink "
        f"here (max, |·|, a comparison), or a wrong derivative (problem.check(x) compares). "
        f"Smooth the kink, for example max(t, 0) as (t + √(t² + δ²))/2.",
        UNBOUNDED: f"It falls along x + t·({way}).",
        NOT_FINITE: "",
    }
    statuses = {
        CONVERGED: Status.CONVERGED, PLATEAU: Status.PLATEAU, PRECISION: Status.PRECISION,
        STALLED: Status.STALLED, UNBOUNDED: Status.UNBOUNDED, NOT_FINITE: Status.DIVERGED,
    }  # fmt: skip
    return End(statuses[code], sentences[code])


def direction(*ways: np.ndarray) -> str:
    """The first of them that goes anywhere, in words."""
    way = next((way for way in ways if np.any(way)), ways[-1])
    size = np.abs(way[np.isfinite(way)]).max(initial=0.0)
    shown = way / size if size > 0 else way
    few = ", ".join(f"{v:.3g}" for v in shown[:6])
    return few + (", …" if len(shown) > 6 else "")


def plain(leaf: Any) -> Any:
    """Scalars as Python's own numbers."""
    return leaf.item() if np.ndim(leaf) == 0 else np.asarray(leaf)


S = TypeVar("S")


def arrays(state: S) -> S:
    return jax.tree_util.tree_map(np.asarray, state)
