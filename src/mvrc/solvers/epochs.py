"""Compiled epochs as a solver: any estimator with any scheme."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from mvrc.engine import Core, Epoch, compile_epoch, first_core
from mvrc.methods import Method
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.schemes.assessing import NOISY_PATIENCE, PATIENCE
from mvrc.solvers.result import Status
from mvrc.solvers.solver import CoreSolver, End, Info


class EpochSolver(CoreSolver):
    """A refresh and the small steps after it are one step of the solver, and one program.

    Args:
        problem, geometry, method: resolved.
        seeds: of the run, one for each place of the leading axis.
        axis: length of that axis; None for one run without it.
        random: whether the random output of the theorems is wanted.
        keep: whether states are to be kept whole; else an epoch may change a table in place.
    """

    def __init__(
        self, problem: Composition, geometry: Geometry, method: Method, seeds: list[int],
        axis: int | None, random: bool, keep: bool,
    ) -> None:  # fmt: skip
        self.problem, self.geometry, self.method = problem, geometry, method
        self.seeds, self.axis, self.random, self.keep = seeds, axis, random, keep
        self.notes = method.notes
        self.step_size = float(method.scheme.step_size)
        self.safeguarded = method.scheme.safeguarded
        self._exact = self.safeguarded and problem.n is not None and problem.N is not None
        self._epoch: Epoch | None = None

    def init(self, x0: Any) -> tuple[Core, Info]:
        arguments = (self.problem, self.geometry, self.method, x0)
        core, counts = first_core(*arguments, self.seeds, self.axis, self.random)
        return core, Info(counts, True)

    def compile(self, state: Core) -> None:
        arguments = (self.problem, self.geometry, self.method, state)
        self._epoch = compile_epoch(*arguments, self.axis, keep=self.keep)

    def step(self, state: Core) -> tuple[Core, Info]:
        assert self._epoch is not None
        core, finite = self._epoch.run(state)
        healthy = bool(np.asarray(finite).any())  # waits for the epoch
        return core, Info(self._epoch.counts, healthy)

    def point(self, state: Core) -> Any:
        # By the class: to bind a method, equinox takes the module apart and together again.
        return type(self.method.scheme).point(self.method.scheme, state.scheme)

    def _log(self, state: Core) -> Any:
        return jax.tree_util.tree_map(np.asarray, self.method.scheme.log(state.scheme))

    def measured(self, state: Core, step: float | None) -> tuple[Any, Any] | None:
        if not self._exact or step is not None or not np.any(state.epoch):
            return None
        log = self._log(state)
        if not np.all(np.isfinite(log.objective)):
            return None
        return log.objective.astype(float), log.mapping.astype(float)

    def told(self, state: Core) -> tuple[Any, Any] | None:
        if not self.safeguarded or not np.any(state.epoch):
            return None
        log = self._log(state)
        return log.step.astype(float), log.decision

    def stalled(self, state: Core, tolerance_given: bool) -> Any:
        if not self.safeguarded or not np.any(state.epoch):
            return super().stalled(state, tolerance_given)
        return self._log(state).stalled >= (PATIENCE if self._exact else NOISY_PATIENCE)

    def end(self, state: Core, tolerance_given: bool) -> End | None:
        if not np.all(self.stalled(state, tolerance_given)):
            return None
        if self._exact:
            return End(
                Status.STALLED,
                "Small random steps no longer lower Φ by more than its rounding; that is no proof "
                "of a minimum, and Auto(steps='secant') may continue from here.",
            )
        return End(
            Status.PRECISION,
            f"Φ has not fallen by more than twice its standard error at {NOISY_PATIENCE} "
            f"refreshes.",
        )
