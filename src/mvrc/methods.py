"""Methods = estimator × scheme × batch sizes × period; the named recipes and METHODS."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx

from mvrc import checks, theory
from mvrc.estimators import Estimator, Spider
from mvrc.estimators.base import JACOBIANS
from mvrc.problem import Composition
from mvrc.sampling import Sizes
from mvrc.schedules import Constant, Diminishing, Momentum, MomentumSchedule
from mvrc.schemes import MomentumScheme, ProximalScheme, Scheme


class Recipe(eqx.Module):
    """What `minimize` takes as a method: something that becomes a `Method` on a problem."""

    @abc.abstractmethod
    def resolve(self, problem: Composition, default_step: Callable[[], float]) -> Method:
        """The method with every default filled in and checked against the problem.

        `default_step` estimates a step size; it is called only when none was given.
        """


class Method(Recipe):
    """Any estimator with any scheme.

    Args:
        estimator: estimates ∇F at the scheme's query points.
        scheme: moves the iterate.
        batch: sizes of the small batches; `None` entries become ⌊√max(n, N)⌋.
        refresh: sizes of the refresh; `None` entries are every sample.
        period: steps from one refresh to the next; ⌊√max(n, N)⌋ when None.
        name: shown in tables.
    """

    estimator: Estimator
    scheme: Scheme
    batch: Sizes = eqx.field(static=True)
    refresh: Sizes = eqx.field(static=True)
    period: int | None = eqx.field(static=True)
    name: str = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(
        self,
        estimator: Estimator,
        scheme: Scheme,
        batch: Sizes | None = None,
        refresh: Sizes | None = None,
        period: int | None = None,
        name: str = "method",
    ) -> None:
        _refuse_unless("estimator", estimator, Estimator)
        _refuse_unless("scheme", scheme, Scheme)
        self.estimator = estimator
        self.scheme = scheme
        self.batch = Sizes() if batch is None else batch
        self.refresh = Sizes() if refresh is None else refresh
        _refuse_unless("batch", self.batch, Sizes)
        _refuse_unless("refresh", self.refresh, Sizes)
        self.period = _optional("period", period)
        self.name = name

    @property
    def steps(self) -> int:
        """Steps of an epoch, once resolved."""
        assert self.period is not None
        return self.period

    def resolve(self, problem: Composition, default_step: Callable[[], float]) -> Method:
        if not problem.two_level:
            _refuse_second_level(self.batch, self.refresh)
        root = _root(problem)
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
        if period is None:
            raise ValueError(
                "period must be given for an online problem (a Stream), where no n sets it; "
                "or use MVRC.from_theory."
            )
        return dataclasses.replace(self, batch=batch, refresh=refresh, period=period)


class MVRC(Recipe):
    """Momentum with variance reduction: SPIDER × the MVRC momentum (Chen & Zhou, 2020).

    On Σ¹ and E¹ this is Algorithm 1 (MVRC-1): A' = A, f̃' = ∇f(g̃). On Σ² and E² it is Algorithm 2
    (MVRC-2) with independent A, A', B; ε gives its normalised step, no ε means θ ≡ 1 as in the
    paper's experiments. See `mvrc.estimators.Spider` and `mvrc.schemes.MomentumScheme` for the
    update rules.

    Args:
        step_size: η = β; None: 1/(4L) with L estimated at x0.
        momentum: `Constant(0.8)`, `Diminishing()`, `Momentum(...)`.
        batch_size: |A| of a small step; ⌊√max(n, N)⌋ by default. n means every sample.
        outer_batch_size: |B| of a small step, likewise (at most N).
        period: τ, steps from refresh to refresh; ⌊√max(n, N)⌋ by default.
        epsilon: ε of the normalised step of Algorithm 2; None for θ ≡ 1.
        jacobian: "matrix", "free" (vector-Jacobian products only) or "auto" (by p·d).
        jacobian_batch_size: |A'|, as batch_size by default (two levels only).
        refresh_size, jacobian_refresh_size, outer_refresh_size: |A|, |A'|, |B| at a refresh; every
            sample by default, to be given for streams.
    """

    step_size: float | None
    momentum: MomentumSchedule
    batch_size: int | None = eqx.field(static=True)
    outer_batch_size: int | None = eqx.field(static=True)
    period: int | None = eqx.field(static=True)
    epsilon: float | None
    jacobian: str = eqx.field(static=True)
    jacobian_batch_size: int | None = eqx.field(static=True)
    refresh_size: int | None = eqx.field(static=True)
    jacobian_refresh_size: int | None = eqx.field(static=True)
    outer_refresh_size: int | None = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(
        self,
        step_size: float | None = None,
        momentum: MomentumSchedule | None = None,
        batch_size: int | None = None,
        outer_batch_size: int | None = None,
        period: int | None = None,
        epsilon: float | None = None,
        jacobian: str = "auto",
        jacobian_batch_size: int | None = None,
        refresh_size: int | None = None,
        jacobian_refresh_size: int | None = None,
        outer_refresh_size: int | None = None,
    ) -> None:
        if momentum is not None and not isinstance(momentum, MomentumSchedule):
            raise TypeError(
                f"momentum must be Constant(alpha), Diminishing() or Momentum(alpha=…), "
                f"not {checks.shown(momentum)}."
            )
        self.step_size = None if step_size is None else checks.positive("step_size", step_size)
        self.momentum = Constant(0.8) if momentum is None else momentum
        self.batch_size = _optional("batch_size", batch_size)
        self.outer_batch_size = _optional("outer_batch_size", outer_batch_size)
        self.period = _optional("period", period)
        self.epsilon = None if epsilon is None else checks.positive("epsilon", epsilon)
        self.jacobian = checks.choice("jacobian", jacobian, JACOBIANS)
        self.jacobian_batch_size = _optional("jacobian_batch_size", jacobian_batch_size)
        self.refresh_size = _optional("refresh_size", refresh_size)
        self.jacobian_refresh_size = _optional("jacobian_refresh_size", jacobian_refresh_size)
        self.outer_refresh_size = _optional("outer_refresh_size", outer_refresh_size)

    def resolve(self, problem: Composition, default_step: Callable[[], float]) -> Method:
        return Method(
            Spider(self.jacobian),
            MomentumScheme(self.step_size or default_step(), self.momentum, self.epsilon),
            Sizes(self.batch_size, self.jacobian_batch_size, self.outer_batch_size),
            Sizes(self.refresh_size, self.jacobian_refresh_size, self.outer_refresh_size),
            self.period,
            "mvrc",
        ).resolve(problem, default_step)

    @classmethod
    @checks.explain_keywords
    def from_theory(
        cls,
        constants: theory.Constants,
        problem: Composition,
        *,
        epsilon: float | None = None,
        alpha: float | None = None,
        lam: float | None = None,
        dominance: float | None = None,
        restart: bool = False,
        gap: float | None = None,
        C1: float | None = None,
        C2: float | None = None,
        jacobian: str = "auto",
    ) -> MVRC:
        """The parameters of Theorems 1 to 7 for this problem; see `theory.parameters`."""
        _refuse_unless("constants", constants, theory.Constants)
        _refuse_unless("problem", problem, Composition)
        choice = theory.parameters(
            constants,
            n=problem.n,
            N=problem.N if problem.two_level else None,
            two_level=problem.two_level,
            epsilon=epsilon,
            alpha=alpha,
            lam=lam,
            gap=gap,
            dominance=dominance,
            restart=restart,
            C1=C1,
            C2=C2,
        )
        kind = "random" if dominance is not None else "last" if restart else "never"
        every = 1 if choice.steps is None else max(1, math.ceil(choice.steps / choice.period))
        momentum: MomentumSchedule
        if lam is not None:
            decaying = _diminishing if alpha is None else alpha
            momentum = Momentum(decaying, lam=lam, restart=kind, restart_every=every)
        elif alpha is None:
            momentum = Diminishing(kind, every, preset="theory")
        else:
            momentum = Constant(alpha, kind, every)
        return cls(
            step_size=choice.beta,
            momentum=momentum,
            batch_size=choice.batch.values,
            outer_batch_size=choice.batch.outer,
            period=choice.period,
            epsilon=choice.epsilon,
            jacobian=jacobian,
            jacobian_batch_size=choice.batch.jacobians if problem.two_level else None,
            refresh_size=choice.refresh.values,
            jacobian_refresh_size=choice.refresh.jacobians if problem.two_level else None,
            outer_refresh_size=choice.refresh.outer,
        )


class CIVR(Recipe):
    """SPIDER × proximal gradient on Σ¹ and E¹ (Zhang & Xiao, 2019).

    Args:
        step_size: η; None: 1/(4L) with L estimated at x0.
        batch_size, period: ⌈√n⌉ each by default.
        refresh_size: every sample by default, to be given for streams.
        jacobian: "matrix", "free" or "auto".
    """

    step_size: float | None
    batch_size: int | None = eqx.field(static=True)
    period: int | None = eqx.field(static=True)
    refresh_size: int | None = eqx.field(static=True)
    jacobian: str = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(
        self,
        step_size: float | None = None,
        batch_size: int | None = None,
        period: int | None = None,
        refresh_size: int | None = None,
        jacobian: str = "auto",
    ) -> None:
        self.step_size = None if step_size is None else checks.positive("step_size", step_size)
        self.batch_size = _optional("batch_size", batch_size)
        self.period = _optional("period", period)
        self.refresh_size = _optional("refresh_size", refresh_size)
        self.jacobian = checks.choice("jacobian", jacobian, JACOBIANS)

    def resolve(self, problem: Composition, default_step: Callable[[], float]) -> Method:
        if problem.two_level:
            raise ValueError(
                f"CIVR is for a single outer function, and this problem is {problem.kind}; "
                f"use MVRC or NestedSpider."
            )
        root = None if problem.n is None else math.ceil(math.sqrt(problem.n))
        return Method(
            Spider(self.jacobian),
            ProximalScheme(self.step_size or default_step()),
            Sizes(self.batch_size or root),
            Sizes(self.refresh_size),
            self.period or root,
            "civr",
        ).resolve(problem, default_step)


class NestedSpider(Recipe):
    """SPIDER (A, A', B independent) × the normalised proximal step (Zhang & Xiao, 2019).

    Args: as `MVRC`, without momentum.
    """

    step_size: float | None
    epsilon: float | None
    batch_size: int | None = eqx.field(static=True)
    outer_batch_size: int | None = eqx.field(static=True)
    period: int | None = eqx.field(static=True)
    refresh_size: int | None = eqx.field(static=True)
    outer_refresh_size: int | None = eqx.field(static=True)
    jacobian: str = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(
        self,
        step_size: float | None = None,
        epsilon: float | None = None,
        batch_size: int | None = None,
        outer_batch_size: int | None = None,
        period: int | None = None,
        refresh_size: int | None = None,
        outer_refresh_size: int | None = None,
        jacobian: str = "auto",
    ) -> None:
        self.step_size = None if step_size is None else checks.positive("step_size", step_size)
        self.epsilon = None if epsilon is None else checks.positive("epsilon", epsilon)
        self.batch_size = _optional("batch_size", batch_size)
        self.outer_batch_size = _optional("outer_batch_size", outer_batch_size)
        self.period = _optional("period", period)
        self.refresh_size = _optional("refresh_size", refresh_size)
        self.outer_refresh_size = _optional("outer_refresh_size", outer_refresh_size)
        self.jacobian = checks.choice("jacobian", jacobian, JACOBIANS)

    def resolve(self, problem: Composition, default_step: Callable[[], float]) -> Method:
        return Method(
            Spider(self.jacobian),
            ProximalScheme(self.step_size or default_step(), self.epsilon),
            Sizes(self.batch_size, None, self.outer_batch_size),
            Sizes(self.refresh_size, None, self.outer_refresh_size),
            self.period,
            "nested-spider",
        ).resolve(problem, default_step)


METHODS: dict[str, Callable[..., Recipe]] = {
    "mvrc": MVRC,
    "civr": CIVR,
    "nested-spider": NestedSpider,
}


def find(method: Any) -> Recipe:
    """A recipe from what a user passes as `method`: a recipe, a name of METHODS, or None."""
    if method is None:
        return MVRC()
    if isinstance(method, Recipe):
        return method
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(
                f"method {method!r} is unknown{checks.nearest(method, METHODS)}; "
                f"the methods are {', '.join(METHODS)}."
            )
        return METHODS[method]()
    raise TypeError(
        f"method must be a recipe such as MVRC(step_size=1e-3) or a name of mvrc.METHODS, "
        f"not {checks.shown(method)}."
    )


def _refuse_unless(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be of class {kind.__name__}, not {checks.shown(value)}.")


def _diminishing(t: Any) -> Any:
    return 2 / (t + 1)


def _optional(name: str, value: Any) -> int | None:
    return None if value is None else checks.whole(name, value)


def _root(problem: Composition) -> int | None:
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


def _refuse_second_level(batch: Sizes, refresh: Sizes) -> None:
    given = {
        "jacobian_batch_size": batch.jacobians,
        "outer_batch_size": batch.outer,
        "jacobian_refresh_size": refresh.jacobians,
        "outer_refresh_size": refresh.outer,
    }
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} is {value} but this problem has a single outer function (no outer_data), "
                f"where one batch serves values and Jacobians; leave it out."
            )
