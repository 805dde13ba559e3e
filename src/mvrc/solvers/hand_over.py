"""Small random steps first, secant steps from where those stall; only these may say CONVERGED."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from mvrc.solvers.epochs import EpochSolver
from mvrc.solvers.full_state import FullPassState
from mvrc.solvers.secants import SecantSolver
from mvrc.solvers.solver import CoreSolver, End, Info


class HandOverState(NamedTuple):
    """The states of both, of which one is at work."""

    epoch: Any
    handed: Any  # whether the second is
    epochs: Any  # of the first
    full_passes: FullPassState  # of the second


class HandOver(CoreSolver):
    """The first solver until it stalls, then the second.

    Args:
        first: on small batches.
        second: on full passes.
    """

    safeguarded = True

    def __init__(self, first: EpochSolver, second: SecantSolver) -> None:
        self.first, self.second = first, second
        self.step_size = first.step_size
        self.notes = first.notes

    def init(self, x0: Any) -> tuple[HandOverState, Info]:
        state, info = self.first.init(x0)
        blank = self.second.blank(np.asarray(x0))
        return HandOverState(np.asarray(0), np.asarray(False), state, blank), info

    def compile(self, state: HandOverState) -> None:
        if not state.handed:
            self.first.compile(state.epochs)

    def step(self, state: HandOverState) -> tuple[HandOverState, Info]:
        state = state._replace(epoch=np.asarray(state.epoch + 1))
        if state.handed:
            passes, info = self.second.step(state.full_passes)
            return state._replace(full_passes=passes), info
        if self.first.stalled(state.epochs, False):
            passes, info = self.second.init(np.asarray(self.first.point(state.epochs)))
            return state._replace(handed=np.asarray(True), full_passes=passes), info
        core, info = self.first.step(jax.device_put(state.epochs))
        return state._replace(epochs=core), info

    def point(self, state: HandOverState) -> Any:
        if state.handed:
            return self.second.point(state.full_passes)
        return self.first.point(state.epochs)

    def measured(self, state: HandOverState, step: float | None) -> tuple[Any, Any] | None:
        if state.handed:
            return self.second.measured(state.full_passes, step or self.step_size)
        return self.first.measured(state.epochs, step)

    def told(self, state: HandOverState) -> tuple[Any, Any] | None:
        if state.handed:
            return self.second.told(state.full_passes)
        return self.first.told(state.epochs)

    def stalled(self, state: HandOverState, tolerance_given: bool) -> Any:
        return np.asarray(self.end(state, tolerance_given) is not None)

    def end(self, state: HandOverState, tolerance_given: bool) -> End | None:
        return self.second.end(state.full_passes, tolerance_given) if state.handed else None
