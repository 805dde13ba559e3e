"""Recipes and methods: estimator × scheme × batch sizes × period."""

from __future__ import annotations

import abc
import dataclasses
import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import numpy as np

from mvrc import checks
from mvrc.estimation import default_step_size
from mvrc.estimators import Estimator
from mvrc.estimators.base import JACOBIANS, chosen
from mvrc.estimators.saga import TABLES
from mvrc.metrics import measure
from mvrc.operators import Composed
from mvrc.oracle import Counts, Geometry, add_counts
from mvrc.problem import Composition
from mvrc.regularizers import Zero
from mvrc.sampling import Sizes
from mvrc.schedules import RESTARTS, Constant, MomentumSchedule, Power
from mvrc.schemes import ProximalScheme, Scheme
from mvrc.solvers.solver import Solver

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
    epoch: str  # evaluations of g an epoch
    memory: str  # numbers kept besides the data
    complexity: str  # the paper's Table 1, or its own paper


@dataclasses.dataclass(frozen=True, eq=False)
class Start:
    """Where a run starts, and the default step size there."""

    problem: Composition
    x: Any
    spent: list[Counts] = dataclasses.field(default_factory=list)  # what was evaluated here
    found: list[float] = dataclasses.field(default_factory=list)  # the default step, if asked for
    restarts: int = 0  # how often it was too long

    def step_size(self) -> float:
        if not self.found:
            self.found.append(default_step_size(self.problem, self.x))
        return self.found[0] * SHORTER**self.restarts

    def again(self, restarts: int) -> Start:
        """The same after so many restarts at a shorter step."""
        return dataclasses.replace(self, spent=[], restarts=restarts)

    def epsilon(self, given: float | str | None, step_size: float) -> float | None:
        """ε of the normalised step; "auto" is RELATIVE_EPSILON·‖𝒢_η(x0)‖, for a pass."""
        if given != "auto":
            return given  # type: ignore[return-value]
        found = measure(self.problem, self.x, step_size).gradient_mapping
        inside, outside = self.problem.inner_source, self.problem.outer_source
        n = inside.everything().size
        N = 1 if outside is None else outside.everything().size
        self.spent.append(Counts(n, n, N, 1))
        return RELATIVE_EPSILON * found if np.isfinite(found) and found > 0 else None


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A method for a problem, how it was chosen, and what the choice has evaluated."""

    method: Method | None  # None: the solver
    notes: tuple[str, ...] = ()  # sentences
    spent: Counts = dataclasses.field(default_factory=Counts)
    seconds: float = 0.0
    x0: Any = None  # where the run starts instead of the user's x0
    solver: Solver | None = None  # of full passes, in the place of a method
    second: Any = None  # a SecantSolver that takes over where the method stalls


class Recipe(eqx.Module):
    """What `minimize` takes as a method: something that becomes a `Method` on a problem."""

    def prepare(self, problem: Composition, geometry: Geometry, start: Start) -> Prepared:
        """The method, with an account of what was chosen and evaluated for it."""
        method = self.resolve(problem, geometry, start)
        return Prepared(method, method.notes, add_counts(*start.spent))

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
    """Check a recipe's arguments by their names before its generated __init__ takes them."""
    generated = cls.__init__  # type: ignore[misc]
    signature = inspect.signature(generated)

    @functools.wraps(generated)
    def checked(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs).arguments
        for name, value in given.items():
            optional = "None" in str(signature.parameters[name].annotation)
            if name in _CHECKS and not (value is None and optional):
                given[name] = _CHECKS[name](name, value)
        generated(**given)

    cls.__init__ = checks.explain_keywords(checked)  # type: ignore[misc]
    return cls


def size() -> Any:
    """A field for a number of samples or steps: static, None by default."""
    return eqx.field(static=True, default=None)


def word(default: str) -> Any:
    """A field for a choice: static."""
    return eqx.field(static=True, default=default)


class Method(Recipe):
    """Any estimator with any scheme.

    Args:
        estimator: estimates ∇F at the scheme's query points.
        scheme: moves the iterate.
        batch: sizes of the small batches; `None` entries become ⌊√max(n, N)⌋.
        refresh: sizes of the refresh; `None` entries are every sample.
        period: steps of an epoch, from one refresh to the next; when None ⌊√max(n, N)⌋, or one
            pass over the samples for an estimator without refreshes.
        name: shown in tables.
        notes: sentences for `result.notes`.
    """

    estimator: Estimator
    scheme: Scheme
    batch: Sizes = eqx.field(static=True)
    refresh: Sizes = eqx.field(static=True)
    period: int | None = eqx.field(static=True)
    name: str = eqx.field(static=True)
    notes: tuple[str, ...] = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(
        self,
        estimator: Estimator,
        scheme: Scheme,
        batch: Sizes | None = None,
        refresh: Sizes | None = None,
        period: int | None = None,
        name: str = "method",
        notes: tuple[str, ...] = (),
    ) -> None:
        refuse_unless("estimator", estimator, Estimator)
        refuse_unless("scheme", scheme, Scheme)
        self.estimator = estimator
        self.scheme = scheme
        self.batch = Sizes() if batch is None else batch
        self.refresh = Sizes() if refresh is None else refresh
        refuse_unless("batch", self.batch, Sizes)
        refuse_unless("refresh", self.refresh, Sizes)
        self.period = _optional("period", period)
        self.name = name
        self.notes = notes

    def refreshes_exactly(self, problem: Composition) -> bool:
        """Whether every epoch begins with the exact gradient, so that noise fades with progress."""
        if not self.estimator.roles(problem.two_level):
            return True  # nothing is drawn
        finite_sum = problem.n is not None and problem.N is not None
        return self.estimator.refreshes and finite_sum and self.refresh == Sizes()

    @property
    def steps(self) -> int:
        """Steps of an epoch, once resolved."""
        assert self.period is not None
        return self.period

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        estimator, notes = chosen(self.estimator, geometry)
        _refuse_what_is_not_drawn(
            estimator.roles(problem.two_level), problem.two_level, self.batch, self.refresh
        )
        if isinstance(problem.regularizer, Composed) and not self.scheme.takes_composed:
            raise ValueError(
                f"method {self.name!r} needs the prox of the regularizer, and r(Ax) has none in "
                f"closed form; use 'auto' or 'spider-admm'."
            )
        if self.estimator.keeps_table:
            finite(self.name, problem)
            if self.refresh != Sizes():
                raise ValueError(
                    f"refresh is {self.refresh} but {type(self.estimator).__name__} keeps a row "
                    f"for every sample; leave it out."
                )
        root = root_size(problem)
        batch = Sizes(
            _small("batch_size", self.batch.values, problem.n, root),
            _small(
                "jacobian_batch_size", self.batch.jacobians or self.batch.values, problem.n, root
            ),
            _small("outer_batch_size", self.batch.outer, problem.N, root),
        )
        refresh = Sizes(
            _large("refresh_size", self.refresh.values, problem.n),
            _large(
                "jacobian_refresh_size",
                self.refresh.jacobians or self.refresh.values,
                problem.n,
            ),
            _large("outer_refresh_size", self.refresh.outer, problem.N),
        )
        period = root if self.period is None else self.period
        if self.period is None and not self.estimator.refreshes and problem.n is not None:
            period = math.ceil(problem.n / (batch.values or problem.n))  # about one pass
        if period is None:
            raise ValueError(
                "period must be given for an online problem (a Stream), where no n sets it; "
                "or use MVRC.from_theory."
            )
        return dataclasses.replace(
            self, estimator=estimator, batch=batch, refresh=refresh, period=period, notes=notes
        )


def refuse_unless(name: str, value: Any, kind: type) -> None:
    """A sentence unless the value is of that class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be of class {kind.__name__}, not {checks.shown(value)}.")


def finite(name: str, problem: Composition) -> tuple[int, int]:
    """n and N, or a sentence that names the methods for streams."""
    if problem.n is None or problem.N is None:
        raise ValueError(
            f"{name} is for finite sums and this problem is {problem.kind} (a Stream); use 'mvrc', "
            f"'nested-spider', 'sarah-c' or a single-loop method such as 'storm'."
        )
    return problem.n, problem.N


def dominant(name: str, value: Any, problem: Any) -> float:
    """v of gradient dominance, of a problem for which it says something."""
    refuse_unless("problem", problem, Composition)
    if problem.two_level or not isinstance(problem.regularizer, Zero):
        raise ValueError(
            f"{name} is for one outer function and no regularizer, and this problem is "
            f"{problem.kind} with {type(problem.regularizer).__name__}; leave it out."
        )
    return checks.positive(name, value)


def single_sizes(batch: int | None, outer: int | None, problem: Composition) -> tuple[Sizes, Sizes]:
    """Batches of a single-loop method, one sample by default, and its first batch, as large."""
    outside = (outer or 1) if problem.two_level else outer
    sizes = Sizes(batch or 1, None, outside)
    return sizes, sizes


def single_loop(
    chosen: Any,
    name: str,
    estimator: Estimator,
    problem: Composition,
    geometry: Geometry,
    start: Start,
    decay: Power | None = None,
    epsilon: float | None = None,
) -> Method:
    """A single-loop estimator with proximal steps."""
    batch, first = single_sizes(chosen.batch_size, chosen.outer_batch_size, problem)
    scheme = ProximalScheme(chosen.step_size or start.step_size(), epsilon, decay)
    return Method(estimator, scheme, batch, first, chosen.period, name).resolve(
        problem, geometry, start
    )


def available_memory() -> int:
    """Bytes of memory that are free for new arrays, as far as the system says."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _step(name: str, value: Any) -> float:
    """A step size; how it may fall is said by other arguments."""
    if callable(value) or isinstance(value, Power | MomentumSchedule):
        raise TypeError(
            f"{name} must be a positive number, not a schedule; it falls by step_decay of the "
            f"single-loop methods, and momentum=Momentum(alpha, beta=…, lam=…) scales it with t."
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


_WHOLE = (
    "batch_size", "outer_batch_size", "jacobian_batch_size", "period",
    "refresh_size", "outer_refresh_size", "jacobian_refresh_size", "restart_every",
)  # fmt: skip
_POSITIVE = ("step_size", "rho", "theta", "alpha", "a", "b", "bound")
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(_WHOLE, checks.whole),
    **dict.fromkeys(_POSITIVE, checks.positive),
    "step_size": lambda name, value: _step(name, value),
    **dict.fromkeys(("tau1", "tau2", "step_decay"), checks.fraction),
    "epsilon": lambda name, value: value if value == "auto" else checks.positive(name, value),
    "restart": lambda name, value: checks.choice(name, value, RESTARTS),
    "independent": lambda name, value: checks.boolean(name, value),
    "steps": lambda name, value: checks.choice(
        name, value, ("auto", "newton", "secant", "momentum")
    ),
    "jacobian": lambda name, value: checks.choice(name, value, JACOBIANS),
    "table": lambda name, value: checks.choice(name, value, ("auto", *TABLES)),
    "momentum": _momentum,
    **dict.fromkeys(
        ("average", "forget", "forget_jacobian", "forget_gradient", "tau", "weight"), _power
    ),
}


def _optional(name: str, value: Any) -> int | None:
    return None if value is None else checks.whole(name, value)


def root_size(problem: Composition) -> int | None:
    """⌊√max(n, N)⌋, the theory's period and batch size; None for streams."""
    counts = [count for count in (problem.n, problem.N) if count is not None]
    return None if problem.n is None or problem.N is None else math.isqrt(max(counts))


def _small(name: str, size: int | None, count: int | None, root: int | None) -> int:
    """The size of a small batch from `count` samples (None: a stream)."""
    if size is None:
        if count == 1:
            return 1
        if root is None:
            raise ValueError(
                f"{name} must be given for an online problem (a Stream), where no n sets it; "
                f"or use MVRC.from_theory."
            )
        return min(root, count) if count is not None else root
    if count is not None and size > count:
        raise ValueError(f"{name} is {size} but there are {count} samples; it may be 1 to {count}.")
    return size


def _large(name: str, size: int | None, count: int | None) -> int | None:
    """The size of a refresh; None is every sample."""
    if size is None and count is None:
        raise ValueError(
            f"{name} must be given for an online problem (a Stream): the number of samples of a "
            f"refresh; or use MVRC.from_theory."
        )
    if size is not None and count is not None and size > count:
        raise ValueError(f"{name} is {size} but there are {count} samples; it may be 1 to {count}.")
    return None if size == count else size


def _refuse_what_is_not_drawn(
    roles: tuple[str, ...], two_level: bool, batch: Sizes, refresh: Sizes
) -> None:
    if two_level:
        return
    given = {
        "jacobian_batch_size": None if "jacobians" in roles else batch.jacobians,
        "outer_batch_size": batch.outer,
        "jacobian_refresh_size": None if "jacobians" in roles else refresh.jacobians,
        "outer_refresh_size": refresh.outer,
    }
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} is {value} but this problem has a single outer function (no outer_data), "
                f"where one batch serves values and Jacobians; leave it out."
            )
