"""What a solver is: a state, one step, and its own word that it is done."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np

from mvrc.oracle import Counts
from mvrc.solvers.result import Status


class Info(NamedTuple):
    """What a step tells besides the state."""

    counts: Counts  # what it has evaluated
    finite: bool  # whether a number came out of it
    compiling: float = 0.0  # seconds of it that went into compiling programs


class End(NamedTuple):
    """A solver's word that there is nothing more to do."""

    status: Status
    sentence: str  # why, with numbers


class CoreSolver(abc.ABC):
    """`init`, then `step` after `step`. The state is a pytree of arrays, and is all that is saved.

    Attributes:
        step_size: λ at which the gradient mapping is measured.
        notes: what was chosen and why, in sentences.
        draws: whether it draws random samples; if not, all seeds give one run.
        on_host: whether its state is NumPy's, of one seed, and it rejects bad points.
        keeps_best: whether a run returns the best of its points.
        epochs, samples: limits of a run for which none is given.
    """

    step_size: float
    notes: tuple[str, ...] = ()
    draws: bool = True
    on_host: bool = False
    keeps_best: bool = False
    epochs: int = 100
    samples: int | None = None

    @abc.abstractmethod
    def init(self, x0: Any) -> tuple[Any, Info]:
        """The first state, and what it took."""

    def compile(self, state: Any) -> None:
        """Compile what every step needs, before the clock runs."""
        return

    @abc.abstractmethod
    def step(self, state: Any) -> tuple[Any, Info]:
        """The next state. It depends on the state alone, so a resumed run is the same run."""

    @abc.abstractmethod
    def point(self, state: Any) -> Any:
        """x, flat."""

    def measured(self, state: Any, step: float | None) -> tuple[Any, Any] | None:
        """Φ and ‖𝒢‖ (at λ = `step`, or at `step_size`) where they are known exactly."""
        return None

    def measure(self, point: Any, step: float | None) -> tuple[Any, Any]:
        """The same at any point; of a solver that draws nothing, whose full pass tells it."""
        raise NotImplementedError

    def ahead(self, state: Any) -> float:
        """What the next step takes, in means of those before it."""
        return 1.0

    def told(self, state: Any) -> tuple[Any, Any] | None:
        """The length of its steps and its last decision (a place in DECISIONS), if it decides."""
        return None

    def stalled(self, state: Any, tolerance_given: bool) -> Any:
        """Whether, or for which seeds, it has ended by its own word."""
        return np.zeros(np.shape(self.point(state))[:-1], bool)

    def end(self, state: Any, tolerance_given: bool) -> End | None:
        """Its own word that it is done; with a tolerance of the user's, that it must give up."""
        return None
