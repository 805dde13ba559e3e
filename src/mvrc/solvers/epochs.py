"""Compiled epochs as a solver: any estimator with any scheme."""

from __future__ import annotations

from typing import Any

import numpy as np

from mvrc.engine import Core, Epoch, compile_epoch, first_core
from mvrc.methods import Method
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.solvers.solver import CoreSolver, Info


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
