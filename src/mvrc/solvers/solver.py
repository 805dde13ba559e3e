"""What a solver is: a state, one step, and its own word that it is done."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from mvrc.oracle import Counts
from mvrc.result import Status


class Info(NamedTuple):
    """What a step tells besides the state."""

    counts: Counts  # what it has evaluated
    finite: bool  # whether a number came out of it


class End(NamedTuple):
    """A solver's word that there is nothing more to do."""

    status: Status
    sentence: str  # why, with numbers


class Solver(abc.ABC):
    """init, then step after step; the state is a pytree of arrays, and is all that is saved.

    Attributes:
        step_size: λ at which the gradient mapping is measured.
        notes: what was chosen and why, in sentences.
        draws: whether it draws random samples; if not, all seeds give one run.
        exact: whether its states know Φ exactly, so that nothing need be measured.
        stops: whether it has a word of its own when it is done.
    """

    step_size: float
    notes: tuple[str, ...] = ()
    draws: bool = True
    exact: bool = False
    stops: bool = False

    @abc.abstractmethod
    def init(self, x0: Any) -> tuple[Any, Counts]:
        """The first state, and what it took."""

    @abc.abstractmethod
    def step(self, state: Any) -> tuple[Any, Info]:
        """The next state. It depends on the state alone, so a resumed run is the same run."""

    @abc.abstractmethod
    def point(self, state: Any) -> Any:
        """x, flat."""

    @abc.abstractmethod
    def measured(self, state: Any) -> tuple[Any, Any] | None:
        """Φ and ∇F at the point of a state, flat, where they are known exactly."""

    @abc.abstractmethod
    def told(self, state: Any) -> tuple[Any, Any]:
        """The length of its last step (a share of the undamped one, or η), and the decision."""

    @abc.abstractmethod
    def end(self, state: Any, tolerance_given: bool) -> End | None:
        """Its own word that it is done; with a tolerance of the user's only that it must give up."""
