"""Auto: everything chosen from the problem, every refresh judged, nothing to tune."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mvrc import cache
from mvrc.estimation import smoothness
from mvrc.estimators import Spider
from mvrc.estimators.base import chosen
from mvrc.estimators.spider import SpiderState
from mvrc.methods.base import About, Method, NamedRecipe, Prepared, Start, recipe, word
from mvrc.methods.spider_admm import SpiderADMM
from mvrc.operators import Composed
from mvrc.oracle import Counts, Geometry, Oracle
from mvrc.problem import Composition
from mvrc.sampling import Sizes
from mvrc.schemes import GuardedScheme, Look, QuasiNewtonScheme
from mvrc.split import Static, join, split

WIDEST = 256  # the largest d whose curvature is kept as a matrix
LOOK = 4  # passes that a first look at the curvature may take, a column counting as a Jacobian
LEAST_ROWS = 16  # times d: samples below which a look says too little
MOST_ROWS = 2**16  # of a first look
DEAR = 2**15  # samples from which on a pass is dear
DEAREST = 32  # passes that a look from many samples may take, and min(p, d) of its Jacobian
WORK = 2e9  # floating-point operations that a look at the curvature may take
PROJECTIONS = 20  # most that are made of an x0 outside of the constraint set
LONG = 2**17  # from so many samples on, a rehearsal on a part finds the first point
REHEARSAL = 2**16  # at most so many samples
SMALL_STEP = 2**19  # floating-point operations that are worth a step of the momentum
ONLINE = {"refresh": 8192, "batch": 256, "period": 33}


@recipe
class Auto(NamedRecipe):
    """Chooses by itself, and goes back when a step was none. The default of `minimize`.

    With few unknowns (d ≤ 256) the curvature of F is measured, and every step is a proximal Newton
    step on one full pass; with more, it is learnt from secants (limited-memory BFGS). With many
    unknowns and many samples, and for streams, it makes accelerated MVRC momentum steps on small
    batches. In all cases Φ and the gradient mapping at every refresh, where they cost nothing,
    decide: a rise goes back to the last good point and shortens the steps, progress lengthens them.
    `result.explain()` says what was chosen and why, and what happened.

    Args:
        steps: "auto", or one of the three kinds: "newton", "secant", "momentum".
    """

    about: ClassVar[About] = About(
        title="Auto",
        reference="after Lee, Sun & Saunders, Proximal Newton-type Methods, 2014, and Chen & Zhou, "
        "Momentum with Variance Reduction for Nonconvex Composition Optimization, 2020",
        problems="Σ¹ E¹ Σ² E²",
        regularizer="any",
        epoch="n (newton, secant), n + 2S(τ−1) (momentum)",
        memory="d² (newton), 20d (secant), 2(p·d + 4d) (momentum)",
        complexity="–",
    )

    steps: str = word("auto")

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        return self.prepare(problem, geometry, start).method

    def prepare(self, problem: Composition, geometry: Geometry, start: Start) -> Prepared:
        n = problem.n
        moved = _feasible(problem, geometry, start.x)
        x0 = start.x if moved is None else moved
        flat = geometry.x.flatten(x0)
        bend, rows = smoothness(problem, geometry, flat)
        notes = [
            f"The curvature of F at x0 is about {bend:.3g}, by power iteration on {rows:,} samples."
        ]
        if moved is not None:
            notes.insert(
                0, "x0 is outside of the constraint set; the run starts at its projection."
            )
        spent = Counts(inner_values=rows, inner_jacobians=rows)
        work = _work(problem, geometry)
        kind, why, looked = self._kind(problem, geometry, work)
        notes.append(why)
        if kind == "momentum" and isinstance(problem.regularizer, Composed):
            notes[-1] = (
                "The regulariser is r(Ax), which has no prox in closed form, and small steps cannot"
                " bear a numeric one: SPIDER with ADMM at its default step, which nothing guards."
            )
            method = SpiderADMM().resolve(problem, geometry, start)
            return Prepared(method, (*notes, *method.notes), spent)
        if kind == "momentum":
            method = _momentum(problem, geometry, bend, work, notes)
            method = method.resolve(problem, geometry, start)
            return Prepared(method, tuple(notes), spent, x0=moved)
        assert n is not None
        seconds, first = 0.0, None
        if n >= LONG:
            point, counts, seconds = _rehearse(problem, x0, self)
            first = geometry.x.flatten(point)
            spent = Counts(*(a + b for a, b in zip(spent, counts, strict=True)))
            notes.append(
                f"With {n:,} samples a pass is dear: the first point was found on {_part(n):,} "
                f"of them, for {counts.inner_values / n:.2f} passes."
            )
        scheme = QuasiNewtonScheme(1 / bend, first, looked)
        method = Method(Spider("free"), scheme, Sizes(1, None, _one(problem)), None, 1, "auto")
        method = method.resolve(problem, geometry, start)
        return Prepared(method, tuple(notes), spent, seconds, moved)

    def _kind(
        self, problem: Composition, geometry: Geometry, work: float
    ) -> tuple[str, str, Look | None]:
        """Which steps, why, and how the curvature is looked at."""
        n, d = problem.n, geometry.x.size
        if n is None or problem.N is None:
            if self.steps in ("newton", "secant"):
                raise ValueError(
                    f"steps is {self.steps!r}, which needs full passes, and this problem is "
                    f"{problem.kind} (a Stream); it may be 'auto' or 'momentum'."
                )
            return (
                "momentum",
                "Samples come from a stream, so there are no full passes: momentum steps on small "
                "batches between large ones, judged by their standard error.",
                None,
            )
        asked = f"{self.steps.capitalize()} steps were asked for."
        if self.steps in ("secant", "momentum"):
            return self.steps, asked, None
        looked = _look(problem, geometry, work)
        if self.steps == "newton":
            if isinstance(looked, str):
                raise ValueError(
                    f"steps is 'newton', but {looked}; it may be 'auto', 'secant' or 'momentum'."
                )
            return "newton", asked, looked
        if isinstance(looked, Look):
            part = (
                "from all samples" if looked.rows == n else f"at first from {looked.rows:,} samples"
            )
            return (
                "newton",
                f"With d = {d} unknowns the curvature of F can be measured ({part}): proximal "
                f"Newton steps, each one full pass.",
                looked,
            )
        because = looked[0].upper() + looked[1:]
        if n >= DEAR:
            return (
                "momentum",
                f"{because}, and a pass over {n:,} samples is dear: accelerated momentum on small "
                f"batches.",
                None,
            )
        return (
            "secant",
            f"{because}: it is learnt from how the gradient changes (limited-memory BFGS), each "
            f"step one full pass.",
            None,
        )


def _once(function: Callable[[Composition, Geometry], Any]) -> Callable[..., Any]:
    """Remember what depends on shapes and functions alone."""
    known: dict[Any, Any] = {}

    @functools.wraps(function)
    def remembered(problem: Composition, geometry: Geometry) -> Any:
        numbers, static = split(problem, geometry.x.dtype)
        key = (static, geometry, tuple((np.shape(a), np.dtype(a.dtype)) for a in numbers))
        if key not in known:
            if len(known) > 64:
                known.clear()
            known[key] = function(problem, geometry)
        return known[key]

    return remembered


@_once
def _work(problem: Composition, geometry: Geometry) -> float:
    """Floating-point operations of g and its pullback at one sample, as XLA counts them."""
    inner, outer = problem.inner_source, geometry.y.size

    def one(x: Any, u: Any, sample: Any) -> Any:
        oracle = Oracle(problem, geometry, {})
        return jax.vjp(lambda x: oracle._inner_sum(x, sample), x)[1](u)

    x = jax.ShapeDtypeStruct((geometry.x.size,), geometry.x.dtype)
    u = jax.ShapeDtypeStruct((outer,), geometry.y.dtype)
    sample = jax.eval_shape(lambda: inner.large(jax.random.key(0), 8).piece(0, 8))
    try:
        found = jax.jit(one).lower(x, u, sample).cost_analysis()
        flops = float(found["flops"]) / 8  # type: ignore[index]
    except Exception:  # not every platform counts
        flops = 0.0
    return max(flops, 2.0 * (geometry.x.size + outer))


def _look(problem: Composition, geometry: Geometry, work: float) -> Look | str:
    """How the whole curvature is looked at, or why it is not."""
    n, d, p = problem.n, geometry.x.size, geometry.y.size
    assert n is not None
    least = min(n, 8 * d)
    most = min(n, int(WORK / (3 * work * d)), max(DEAREST * n // d, least))
    dear = most < least or (n > least and min(p, d) > DEAREST)
    if d > WIDEST or p * d > 2**22 or dear:
        return f"with d = {d:,} unknowns and p = {p:,} the curvature is too dear to be measured"
    if not _twice(problem, geometry):
        return "f or g cannot be differentiated twice, so the curvature cannot be measured"
    first = min(n, max(LOOK * n // d, LEAST_ROWS * d), MOST_ROWS, most)
    rows = math.ceil(n / max(1, round(n / first)))
    pieces = math.ceil(n / rows) if most == n else most // rows
    return Look(rows, 1, max(1, pieces))


@_once
def _twice(problem: Composition, geometry: Geometry) -> bool:
    """Whether f and g can be differentiated twice, as a custom derivative rule may not."""
    few = lambda data: jax.tree_util.tree_map(lambda a: a[:2], data)  # noqa: E731
    problem = dataclasses.replace(
        problem, inner_data=few(problem.inner_data), outer_data=few(problem.outer_data)
    )
    oracle = Oracle(problem, geometry, {})
    batches = oracle.everything()
    piece = problem.inner_source.scattered(1, 0)
    x = jax.ShapeDtypeStruct((geometry.x.size,), geometry.x.dtype)
    y = jax.ShapeDtypeStruct((geometry.y.size,), geometry.y.dtype)
    try:
        # Lowered, as a custom_vjp without a second derivative is found only then.
        jax.jit(lambda x, y: oracle.hessian(x, y, y, batches, piece, 1)).lower(x, y)
    except Exception:
        return False
    return True


def _momentum(
    problem: Composition, geometry: Geometry, bend: float, work: float, notes: list[str]
) -> Method:
    n, N = problem.n, problem.N
    finite = n is not None and N is not None
    batch, period, between = ONLINE["batch"], ONLINE["period"], ""
    if n is not None:
        batch = int(np.clip(2 ** round(math.log2(SMALL_STEP / work)), 64, 256))
        batch = max(1, min(batch, n // 8))
        period = math.ceil(n / batch)
    if not finite:
        between = f" of {ONLINE['refresh']:,} samples"
    outer = None
    if problem.two_level:
        outer = batch if N is None else max(1, min(batch, N // 4))
    refresh = Sizes(
        ONLINE["refresh"] if n is None else None, None, ONLINE["refresh"] if N is None else None
    )
    notes.append(
        f"A sample costs about {work:,.0f} floating-point operations, so a step looks at {batch} "
        f"samples and {period} steps are made from a refresh{between} to the next; the first step "
        f"size is {1 / (2 * bend):.3g}."
    )
    estimator, free = chosen(Spider(), geometry)
    notes.extend(free)
    empty = _empty(geometry, matrix=not free)
    scheme = GuardedScheme(1 / (2 * bend), noisy=not finite, empty=empty)
    return Method(estimator, scheme, Sizes(batch, None, outer), refresh, period, "auto")


def _empty(geometry: Geometry, matrix: bool) -> SpiderState:
    """An estimate of zeros."""
    d, p, dtype = geometry.x.size, geometry.y.size, geometry.x.dtype

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, dtype)

    kept = zeros(geometry.jacobian.rows, d) if matrix else None
    return SpiderState(zeros(d), zeros(p), zeros(p), kept, zeros(d))


def _one(problem: Composition) -> int | None:
    return 1 if problem.two_level else None


def _feasible(problem: Composition, geometry: Geometry, x: Any) -> Any:
    """The projection of an x0 outside of the constraint set; None for one inside."""
    numbers, static = split(problem, geometry.x.dtype)
    flat = geometry.x.flatten(x)
    inside, projected = _inside(static, geometry), _projected(static, geometry)
    if bool(inside(numbers, flat)):
        return None
    for _ in range(PROJECTIONS):  # of r(Ax) each is numeric, and comes closer
        flat = projected(numbers, flat)
        if bool(inside(numbers, flat)):
            return geometry.x.unflatten(np.asarray(flat))
    raise ValueError(
        "x0 is outside of the constraint set and no projection to it was found; give an x0 inside."
    )


@cache.program
def _inside(static: Static, geometry: Geometry) -> Any:
    return lambda numbers, x: jnp.isfinite(Oracle(join(numbers, static), geometry, {}).penalty(x))


@cache.program
def _projected(static: Static, geometry: Geometry) -> Any:
    def projected(numbers: Any, x: Any) -> Any:
        regularizer = join(numbers, static).regularizer  # its own prox, also of r(Ax): in x
        nearest = regularizer.prox(geometry.x.unflatten(x), jnp.ones((), x.dtype))
        return geometry.x.flatten(nearest)

    return projected


def _part(n: int) -> int:
    return min(n // 16, REHEARSAL)


def _rehearse(problem: Composition, x0: Any, auto: Auto) -> tuple[Any, Counts, float]:
    """A minimum on a part of the samples, and what it took."""
    from mvrc.solve import minimize

    n = problem.n
    assert n is not None
    chosen = np.sort(np.random.default_rng(0).choice(n, _part(n), replace=False))
    data = jax.tree_util.tree_map(lambda a: np.asarray(a[chosen]), problem.inner_data)
    result = minimize(dataclasses.replace(problem, inner_data=data), x0, auto, rtol=1e-3, epochs=30)
    return result.x, result.counts, result.seconds
