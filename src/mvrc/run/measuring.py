"""Recording: rows of the history from the states of a run, measured one by one or in blocks."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from mvrc.oracle import Counts, Geometry
from mvrc.oracle.exact import Measuring, block_size
from mvrc.problem import Composition
from mvrc.run.state import Row, State
from mvrc.solvers.solver import CoreSolver


class Recorder:
    """What is told of a state: its point, its counts, its row.

    Args:
        problem, geometry, solver: of the run.
        axis: length of the leading axis of seeds; None for one run without it.
        may_defer: whether rows may wait for each other.
        mapping_step: λ of the gradient mapping; None for the method's own step size.
        most: inner and outer samples that a row is measured on, at most; None for all. What is
            known without measuring stays exact.
    """

    def __init__(
        self, problem: Composition, geometry: Geometry, solver: CoreSolver, axis: int | None,
        may_defer: bool, mapping_step: float | None = None, most: int | None = None,
    ) -> None:  # fmt: skip
        self.problem, self.geometry, self.solver = problem, geometry, solver
        self._mapping_step = mapping_step
        finite = problem.n is not None and problem.N is not None
        # Of what such a solver knows exactly nothing is measured.
        self._known = solver.on_host and finite
        self._most = None if self._known else most
        self.samples = problem.inner_source.part(self._most).size
        self.block = 1
        self.seconds = 0.0  # what the last measuring took
        self._may_defer = may_defer
        self._measurement = self._measuring("one" if axis is None else "each")
        self._program: Any = None

    def begin(self, core: Any) -> None:
        """Once, with the first state: how many points are measured together."""
        if self._may_defer:
            self.block = block_size(self.problem, self.geometry, core, self._most)
        if self.block > 1:
            self._measurement = self._measuring("together")

    def compile(self, state: State) -> None:
        """The program that measures, for states like this one."""
        if not self._known:
            self._program = self._measurement.compile(self._stacked([self.point(state)]))

    def wait(self) -> None:
        """Until it is compiled."""
        if self._program is not None:
            self._program.wait()

    def rows(self, states: tuple[State, ...]) -> list[Row]:
        """The rows of some states, measured where the solver does not know."""
        known = [self.solver.measured(state.core, self._mapping_step) for state in states]
        asked = [s for s, found in zip(states, known, strict=True) if found is None]
        measured = iter(self._all([self.point(s) for s in asked]))
        return [
            self._row(state, *(next(measured) if found is None else found))
            for state, found in zip(states, known, strict=True)
        ]

    def part(self) -> tuple[int, int] | None:
        """Inner samples measured on, and of how many; None when all are."""
        every = self.problem.inner_source.everything().size
        return None if self.samples == every else (self.samples, every)

    def measure(self, point: Any) -> tuple[np.ndarray, np.ndarray]:
        """Φ and ‖𝒢_η‖ at a point (of every seed)."""
        return self._all([point])[0]

    def point(self, state: State) -> Any:
        """x, flat."""
        return self.solver.point(state.core)

    def counts(self, state: State) -> Counts:
        """What has been evaluated so far."""
        return Counts(*state.counts.tolist())

    def _measuring(self, points: str) -> Any:
        step = self._mapping_step or self.solver.step_size
        return Measuring(self.problem, self.geometry, step, points, self._most)

    def _all(self, points: list[Any]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Φ and ‖𝒢_η‖ at the points, at most a block of them."""
        if not points:
            return []
        if self._known:
            return [self.solver.measure(point, self._mapping_step) for point in points]
        start = time.perf_counter()
        objective, mapping = _doubles(self._measurement(self._stacked(points)))
        self.seconds = time.perf_counter() - start
        if self.block == 1:
            return [(objective, mapping)]
        return [(objective[i, ...], mapping[i, ...]) for i in range(len(points))]

    def _stacked(self, points: list[Any]) -> Any:
        """A point as it is, or several filled up to a block."""
        if self.block == 1:
            (point,) = points
            return point
        return np.stack(points + points[-1:] * (self.block - len(points)))

    def _row(self, state: State, objective: Any, mapping: Any) -> Row:
        epoch = state.epoch
        told = self.solver.told(state.core) if epoch else None
        if told is None:
            shape = np.shape(objective)
            told = np.full(shape, self.solver.step_size), np.zeros(shape, int)
        step, decision = told
        return {
            "epoch": epoch,
            **self.counts(state)._asdict(),
            "seconds": float(state.seconds),
            "wall_seconds": float(state.wall_seconds),
            "objective": objective,
            "gradient_mapping": mapping,
            "measured_samples": self.samples,
            "step_size": step,
            "decision": decision,
        }


def _doubles(measured: tuple[Any, Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    objective, mapping, _ = measured
    return np.asarray(objective, np.float64), np.asarray(mapping, np.float64)
