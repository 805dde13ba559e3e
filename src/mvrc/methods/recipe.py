"""Recipes: what `minimize` takes as a method, with fields that are checked."""

from __future__ import annotations

import abc
import dataclasses
import functools
import inspect
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import equinox as eqx
import numpy as np

from mvrc.estimators import JACOBIANS
from mvrc.oracle import Counts, Geometry, add_counts
from mvrc.oracle.exact import measure
from mvrc.problem import Composition
from mvrc.schedules import RESTARTS, Constant, MomentumSchedule, Power
from mvrc.support import checks
from mvrc.theory.smoothness import default_step_size

if TYPE_CHECKING:
    from mvrc.methods.method import Method

# ε of the normalised step of Nested-SPIDER and of MVRC on two levels, relative to the gradient
# mapping at x0: a step is at most a tenth as long as the first one would be. Chosen on the
# simulated houses of the sparse additive model (seed 0): ten epochs at the default step size
# reached the minimum with 0.03, 0.1 and 0.3, were slow with 0.01, and ran away with 1 and with
# θ ≡ 1. On the real houses and on seed 7, which had no part in it, 0.1 reached it with four of
# four seeds, 0.3 with three.
RELATIVE_EPSILON = 0.1

# A run that diverges at its default step starts again at this share of it, so many times at most.
SHORTER, MOST_RESTARTS = 0.25, 4


@dataclasses.dataclass(frozen=True)
class About:
    """What a reader of a table wants to know of a method."""

    title: str
    reference: str
    problems: str  # classes of the paper's notation
    regularizer: str  # what r may be
    epoch: str  # evaluations of g per epoch
    memory: str  # numbers kept besides the data
    complexity: str  # the paper's Table 1, or its own paper


@dataclasses.dataclass(frozen=True, eq=False)
class Start:
    """Where a run starts, and the default step size there."""

    problem: Composition
    x: Any
    setup_counts: list[Counts] = dataclasses.field(default_factory=list)  # what was evaluated here
    found: list[float] = dataclasses.field(default_factory=list)  # the default step, if asked for
    restarts: int = 0  # how often it was too long
    seed: int = 0  # of the run, the first of many

    def step_size(self) -> float:
        if not self.found:
            self.found.append(default_step_size(self.problem, self.x))
        return self.found[0] * SHORTER**self.restarts

    def again(self, restarts: int) -> Start:
        """The same after so many restarts at a shorter step."""
        return dataclasses.replace(self, setup_counts=[], restarts=restarts)

    def epsilon(self, given: float | str | None, step_size: float) -> float | None:
        """ε of the normalised step; "auto" is RELATIVE_EPSILON·‖𝒢_η(x0)‖, for a pass."""
        if given != "auto":
            return given  # type: ignore[return-value]
        found = measure(self.problem, self.x, step_size).gradient_mapping
        inside, outside = self.problem.everything()
        N = 1 if outside is None else outside.size
        self.setup_counts.append(Counts(inside.size, inside.size, N, 1))
        return RELATIVE_EPSILON * found if np.isfinite(found) and found > 0 else None


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A method for a problem, how it was chosen, and what the choice has evaluated."""

    method: Method | None  # None: the solver
    notes: tuple[str, ...] = ()  # sentences
    setup_counts: Counts = dataclasses.field(default_factory=Counts)
    seconds: float = 0.0
    x0: Any = None  # where the run starts instead of the user's x0
    solver: Any = None  # on the host, in the place of a method


class Recipe(eqx.Module):
    """What `minimize` takes as a method: something that becomes a `Method` on a problem."""

    def prepare(self, problem: Composition, geometry: Geometry, start: Start) -> Prepared:
        """The method, with an account of what was chosen and evaluated for it."""
        method = self.resolve(problem, geometry, start)
        return Prepared(method, method.notes, add_counts(*start.setup_counts))

    @abc.abstractmethod
    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        """The method with every default filled in and checked against the problem.

        `start` estimates a step size there, which costs time, only when it is asked for one.
        """


class NamedRecipe(Recipe):
    """A recipe of `METHODS`: plain fields, and what a table says of it."""

    about: ClassVar[About]


R = TypeVar("R", bound=type)


def recipe(cls: R) -> R:
    """Check a recipe's arguments, each as its field says, before its generated __init__."""
    generated = cls.__init__  # type: ignore[misc]
    signature = inspect.signature(generated)
    fields = {field.name: field for field in dataclasses.fields(cls)}

    @functools.wraps(generated)
    def checked(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs).arguments
        for name, value in given.items():
            check = fields[name].metadata.get("check") if name in fields else None
            optional = name in fields and "None" in str(fields[name].type)
            if check is not None and not (value is None and optional):
                given[name] = check(name, value)
        generated(**given)

    cls.__init__ = checks.explain_keywords(checked)  # type: ignore[misc]
    return cls


def checked(check: Callable[[str, Any], Any], default: Any = None, static: bool = False) -> Any:
    """A field whose argument goes through `check(name, value)`."""
    return eqx.field(default=default, static=static, metadata={"check": check})


def size(default: int | None = None) -> Any:
    """A number of samples, steps or epochs."""
    return checked(checks.integer, default, static=True)


def word(default: str, choices: tuple[str, ...]) -> Any:
    """One of some words."""
    return checked(lambda name, value: checks.choice(name, value, choices), default, static=True)


def flag(default: bool) -> Any:
    return checked(checks.boolean, default, static=True)


def positive(default: float | None = None) -> Any:
    return checked(checks.positive, default)


def fraction(default: float) -> Any:
    """A number from 0 to 1."""
    return checked(checks.fraction, default)


def step() -> Any:
    """A step size; None for the default one."""
    return checked(_step)


def jacobian() -> Any:
    """How an estimator keeps g'."""
    return word("auto", JACOBIANS)


def restart() -> Any:
    return word("never", RESTARTS)


def epsilon(default: float | str | None = None) -> Any:
    """ε of the normalised step."""
    check = lambda name, v: v if v == "auto" else checks.positive(name, v)  # noqa: E731
    return checked(check, default)


def power(default: Power | None = None) -> Any:
    """A schedule scale·k^(−exponent); a number is a constant one."""
    return checked(_power, default)


def momentum(default: MomentumSchedule) -> Any:
    """A schedule of momentum weights; a number is a constant one."""
    return checked(_momentum, default)


def _step(name: str, value: Any) -> float:
    """A step size; how it may fall is said by other arguments."""
    if callable(value) or isinstance(value, Power | MomentumSchedule):
        raise TypeError(
            f"{name} must be a positive number, not a schedule; step_decay of the single-loop "
            f"methods makes it fall, and momentum=Momentum(alpha, beta=…, lam=…) scales it with t."
        )
    return checks.positive(name, value)


def _momentum(name: str, value: Any) -> MomentumSchedule:
    """A schedule; a number is the weight of a constant one."""
    if isinstance(value, numbers.Real):
        return Constant(checks.fraction(name, value))
    if not isinstance(value, MomentumSchedule):
        raise TypeError(
            f"{name} must be a number in [0, 1], Constant(alpha), Diminishing() or "
            f"Momentum(alpha=…), not {checks.shown(value)}."
        )
    return value


def _power(name: str, value: Any) -> Power:
    """A schedule scale·k^(−exponent); a number is a constant one."""
    if isinstance(value, numbers.Real):
        return Power(checks.positive(name, value))
    if not isinstance(value, Power):
        raise TypeError(
            f"{name} must be a positive number or Power(scale, exponent), "
            f"not {checks.shown(value)}."
        )
    return value
