"""Coupled: the problem min mean of fₖ(gₖ(x)) + r(x), with an inner mean of its own for every k."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mvrc.oracle import Geometry, Layout
from mvrc.oracle.coupled import CoupledFunctions, Coupling, only
from mvrc.problem import inputs, mistakes
from mvrc.problem.composition import Composition
from mvrc.regularizers import Regularizer
from mvrc.sampling import Groups, Inside, PairSource, Pool, Simulator, Source
from mvrc.support import calls, checks, precision

SMALLEST = 16  # inner samples that are drawn for an outer one, by default at least


class Coupled(Composition):
    """min over x of Φ(x) = (1/N) Σₖ fₖ(gₖ(x)) + r(x), with gₖ(x) = E[g(x; k, ξ) | k].

    Every outer sample has an inner mean of its own: average precision, contrastive losses,
    neighbour embedding, the Bellman residual of a simulator. Where gₖ does not depend on k it is a
    `Composition`. The inner samples ξ are of one of three kinds:

    | kind | arguments |
    |---|---|
    | one pool for all k | `inner_data` |
    | a pool without row k itself | `inner_data`, `others=True` |
    | groups of unequal size | `inner_data`, `groups`: for each row the number of its outer sample |
    | drawn given k | `inner_data=mvrc.Simulator(draw)` |

    A small batch has |B₁| outer samples (`batch_size` of a method) and for each of them |B₂| inner
    ones (`inner_batch`). "sox" and "msvr" keep an average of gₖ for each k; "bsgd", and the methods
    for `Composition` such as MVRC, put the mean of |B₂| samples into fₖ, whose error of order
    1/|B₂| where fₖ is curved stays. A count of inner evaluations is one of pairs.

    Args:
        inner: `g(x, outer_sample, sample)`, an array or pytree.
        outer: `f(y, outer_sample)`, a scalar.
        inner_data: pytree of arrays with a leading axis, or a `Simulator`.
        outer_data: pytree of arrays with leading axis N.
        regularizer: r; none by default.
        groups: for each row of `inner_data` the number of its outer sample.
        others: leave row k of `inner_data` out for outer sample k, as where both are the same
            points. (It is evaluated, with weight 0, so it must be finite.)
        inner_batch: |B₂|; at least all inner samples: no draw. By default ⌊√n⌋, at least 16.

    Examples:
        >>> nearest = mvrc.Coupled(  # log Σⱼ exp of minus half the squared distance, over k
        ...     inner=lambda x, k, s: jnp.exp(-((x * (k - s)) ** 2).sum() / 2)[None],
        ...     outer=lambda y, k: jnp.log(y[0]),
        ...     inner_data=returns, outer_data=returns, regularizer=mvrc.L2(0.1), others=True)
        >>> mvrc.minimize(nearest, np.ones(3), "sox", epochs=2).x.shape
        (3,)
    """

    @checks.explain_keywords
    def __init__(
        self,
        inner: Callable[..., Any],
        outer: Callable[..., Any],
        inner_data: Any,
        outer_data: Any,
        regularizer: Regularizer | None = None,
        *,
        groups: Any = None,
        others: bool = False,
        inner_batch: int | None = None,
    ) -> None:
        calls.check_function("inner(x, outer_sample, sample)", inner)
        calls.check_function("outer(y, outer_sample)", outer)
        _refuse_sources(inner_data=inner_data, outer_data=outer_data)
        rows = inputs.arrays("outer_data", outer_data)
        N = _count(rows)
        others = checks.boolean("others", others)
        inside = _inside(inner_data, groups, others, N)
        size = max(SMALLEST, math.isqrt(inside.most()))
        if inner_batch is not None:
            size = checks.integer("inner_batch", inner_batch)
        if others and not inside.drawn and size >= inside.most() - 1:
            size = inside.most()
        source = PairSource(rows, inside, size if inside.drawn else min(size, inside.most()))
        coupling = Coupling(inner, outer, source)
        super().__init__(coupling, only, source, None, regularizer)

    @property
    def coupling(self) -> Coupling:
        """fₖ and gₖ by their parts."""
        assert isinstance(self.inner, Coupling)
        return self.inner

    @property
    def outer_data(self) -> Any:
        """What was given."""
        return self.coupling.source.data

    @property
    def inner_data(self) -> Any:
        """Likewise; groups are sorted by their outer samples."""
        inside = self.coupling.source.inside
        return inside if isinstance(inside, Simulator) else inside.data  # type: ignore[attr-defined]

    @property
    def kind(self) -> str:
        return "coupled"

    @property
    def evaluations(self) -> tuple[Any, Any]:
        """Pairs and outer samples of a pass over everything."""
        source = self.coupling.source
        return source.inside.pairs(source.count), source.count

    def functions(self, geometry: Geometry) -> CoupledFunctions:
        return CoupledFunctions(self.coupling, self.outer, None, self.regularizer, geometry)

    def geometry(self, x: Any) -> Geometry:
        coupling = self.coupling
        row = _one(coupling.source.data)
        if isinstance(coupling.source.inside, Simulator):
            _check_draw(coupling.source.inside.sampler, row)
        sample = coupling.source.inside.spec(row)
        call = "inner(x, outer_sample, sample)"
        y = calls.shape_of(call, coupling.inner, _specs(x), row, sample)
        inputs.check_inner(y)
        inputs.check_outer(calls.shape_of("outer(y, outer_sample)", coupling.outer, y, row))
        layout = Layout.of(_specs(x))
        mistakes.check(call, coupling.inner, layout.dtype, _specs(x), row, sample)
        mistakes.check("outer(y, outer_sample)", coupling.outer, layout.dtype, y, row)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said above, by the user's own names
            geometry = super().geometry(x)
        inside = Layout.of(y, layout.dtype)
        pair = inside.size + inputs.elements(sample)
        return dataclasses.replace(
            geometry,
            inner_sample=coupling.source.inside.most() * pair,
            inner_drawn=coupling.source.inner_batch * pair,
            inside=inside,
        )

    def in_numbers(self, x: Any, name: str = "x0") -> tuple[Composition, Any, Any]:
        if not inputs.is_model(x):
            return self, x, None
        numbers, rest = eqx.partition(x, eqx.is_inexact_array)
        inner = inputs.OfModel(self.coupling.inner, rest)
        return eqx.tree_at(lambda p: p.inner.inner, self, inner), numbers, rest


def _inside(given: Any, groups: Any, others: bool, N: int) -> Inside:
    """The inner samples that the user gives, checked."""
    if isinstance(given, Inside):
        if groups is not None or others:
            word = "groups" if groups is not None else "others"
            raise ValueError(f"{word} is for arrays, and inner_data is a {type(given).__name__}.")
        return given
    data = inputs.arrays("inner_data", given)
    n = _count(data)
    if groups is None:
        if others and n != N:
            raise ValueError(
                f"others leaves row k of inner_data out for outer sample k, but there are {n:,} "
                f"rows and {N:,} outer samples; both must be the same points."
            )
        if n < 2 + others:
            raise ValueError(f"inner_data has {n} samples; give at least {2 + others}.")
        return Pool(data, others)
    if others:
        raise ValueError("others is for one pool, and groups are given; leave one of them out.")
    return _groups(data, groups, n, N)


def _groups(data: Any, groups: Any, n: int, N: int) -> Groups:
    numbers = np.asarray(groups)
    if numbers.shape != (n,) or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"groups has shape {numbers.shape} and dtype {numbers.dtype}; it must be an integer "
            f"for each of the {n:,} rows of inner_data."
        )
    if numbers.min() < 0 or numbers.max() >= N:
        wrong = numbers[(numbers < 0) | (numbers >= N)][0]
        raise ValueError(
            f"groups has the number {wrong}, but outer samples are numbered 0 to {N - 1:,}."
        )
    counts = np.bincount(numbers, minlength=N)
    if not counts.all():
        missing = np.flatnonzero(counts == 0)
        raise ValueError(
            f"outer sample {missing[0]:,} has no inner samples in groups (nor have "
            f"{len(missing) - 1:,} others); leave such samples out of outer_data."
        )
    order = np.argsort(numbers, kind="stable")
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32)
    with precision.follow(data):
        rows = jax.tree_util.tree_map(lambda a: jax.device_put(np.asarray(a)[order]), data)
        return Groups(
            rows, jax.device_put(first), jax.device_put(counts.astype(np.int32)), int(counts.max())
        )


def _check_draw(draw: Any, row: Any) -> None:
    """Refuse a sampler that does not keep its word."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    for size in (3, 2):
        drawn = lambda k, r, m=size: draw(k, r, m)  # noqa: E731
        call = f"draw(key, outer_sample, {size})"
        leaves = jax.tree_util.tree_leaves(calls.shape_of(call, drawn, key, row, draw=draw))
        if not leaves or any(a.ndim == 0 or a.shape[0] != size for a in leaves):
            shapes = [a.shape for a in leaves]
            raise ValueError(f"{call} returned shapes {shapes}; every array must have {size} rows.")
    traced = jax.make_jaxpr(lambda k, r: draw(k, r, 2))(key, row).jaxpr
    if not any(traced.invars[0] in equation.invars for equation in traced.eqns):
        raise ValueError(
            "draw(key, outer_sample, size) does not use its key, so all batches would be the same; "
            "draw with jax.random and the key, not with NumPy."
        )


def _count(data: Any) -> int:
    return int(jax.tree_util.tree_leaves(data)[0].shape[0])


def _one(data: Any) -> Any:
    return jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), data)


def _specs(x: Any) -> Any:
    return jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(np.shape(a), a.dtype), x)


def _refuse_sources(**given: Any) -> None:
    for name, data in given.items():
        if isinstance(data, Source):
            raise TypeError(
                f"{name} of a Coupled problem must be arrays in memory (or, of inner_data, a "
                f"Simulator), not {type(data).__name__}; files, shards and streams serve a "
                f"Composition."
            )
