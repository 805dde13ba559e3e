"""Methods: estimator × scheme × batch sizes × period."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import equinox as eqx

from mvrc.estimators import Estimator, chosen
from mvrc.methods.recipe import Recipe, Start
from mvrc.oracle import Geometry
from mvrc.problem import Composition, Coupled
from mvrc.regularizers import Composed
from mvrc.sampling import Sizes
from mvrc.schemes import Scheme
from mvrc.support import checks


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

    Examples:
        >>> from mvrc.estimators import Saga
        >>> from mvrc.schemes import MomentumScheme
        >>> scheme = MomentumScheme(0.1, mvrc.Constant(0.8))
        >>> method = mvrc.Method(Saga(), scheme, batch=mvrc.Sizes(10), period=20)
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
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
        checks.instance("estimator", estimator, Estimator)
        checks.instance("scheme", scheme, Scheme)
        self.estimator = estimator
        self.scheme = scheme
        self.batch = Sizes() if batch is None else batch
        self.refresh = Sizes() if refresh is None else refresh
        checks.instance("batch", self.batch, Sizes)
        checks.instance("refresh", self.refresh, Sizes)
        self.period = _optional("period", period)
        self.name = name
        self.notes = notes

    def refreshes_exactly(self, problem: Composition) -> bool:
        """Whether every epoch begins with the exact gradient, so that noise fades with progress."""
        if not self.estimator.roles(problem.two_level):
            return True  # nothing is drawn
        finite_sum = problem.finite
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
        if estimator.is_coupled and not isinstance(problem, Coupled):
            raise ValueError(
                f"{self.name} keeps inner means for the outer samples of a Coupled problem, and "
                f"this one is {problem.kind}; use 'mvrc' or another name of mvrc.METHODS."
            )
        if estimator.keeps_table and not estimator.is_coupled and isinstance(problem, Coupled):
            raise ValueError(
                f"{self.name} keeps a row for every inner sample, and those of a Coupled problem "
                f"are pairs; use 'sox' or 'msvr', which keep a row for every outer sample."
            )
        if self.estimator.keeps_table:
            finite(self.name, problem)
            if self.refresh != Sizes():
                raise ValueError(
                    f"refresh is {self.refresh} but {type(self.estimator).__name__} keeps a row "
                    f"for every sample; leave it out."
                )
        scheme = self.scheme.fitted(geometry, problem.regularizer)
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
                "period is required for a Stream, which has no n; or use MVRC.from_theory."
            )
        notes = (*notes, *_of_sources(problem, estimator.roles(problem.two_level), batch, period))
        return dataclasses.replace(
            self, estimator=estimator, scheme=scheme, batch=batch, refresh=refresh, period=period,
            notes=notes,
        )  # fmt: skip


def _of_sources(
    problem: Composition, roles: tuple[str, ...], batch: Sizes, steps: int
) -> list[str]:
    """What the sources say of the small batches of so many steps."""
    sizes = {role: getattr(batch, role) or 0 for role in roles}
    outer = sizes.pop("outer", 0)
    said = [problem.inner_source.note(steps * sum(sizes.values()))]
    if problem.outer_source is not None:
        said.append(problem.outer_source.note(steps * outer))
    return [note for note in said if note]


def finite(name: str, problem: Composition) -> tuple[int, int]:
    """n and N, or a sentence that names the methods for streams."""
    if problem.n is None or problem.N is None:
        raise ValueError(
            f"{name} is for finite sums and this problem is {problem.kind} (a Stream); use 'mvrc', "
            f"'nested-spider', 'sarah-c' or a single-loop method such as 'storm'."
        )
    return problem.n, problem.N


def _optional(name: str, value: Any) -> int | None:
    return None if value is None else checks.integer(name, value)


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
                f"{name} is required for a Stream, which has no n; or use MVRC.from_theory."
            )
        return min(root, count) if count is not None else root
    if count is not None and size > count:
        raise ValueError(f"{name} is {size} but there are {count} samples; it may be 1 to {count}.")
    return size


def _large(name: str, size: int | None, count: int | None) -> int | None:
    """The size of a refresh; None is every sample."""
    if size is None and count is None:
        raise ValueError(
            f"{name} is required for a Stream: the number of samples of a "
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
