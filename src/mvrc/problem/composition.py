"""Composition: the problem min f(E g(x)) + r(x), from functions of one sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mvrc.oracle import Functions, Geometry, Problem
from mvrc.oracle.exact import measure
from mvrc.problem import check as derivatives
from mvrc.problem import inputs, mistakes
from mvrc.problem.shapes import geometry_of
from mvrc.regularizers import Regularizer, Zero
from mvrc.sampling import SAMPLING, Source
from mvrc.support import calls, checks, precision


class Composition(Problem):
    """min over x of Φ(x) = f(g(x)) + r(x), with g = mean of gᵢ (or E gξ), f likewise or single.

    | class | inner_data | outer_data |
    |---|---|---|
    | Σ¹ | arrays | none |
    | E¹ | `Stream` | none |
    | Σ² | arrays | arrays |
    | E² | `Stream` | `Stream` |

    Mixed forms (arrays inside, a stream outside, or the reverse) work too. Data are kept in the
    dtype they have and are not copied where that can be avoided, so do not change them in place
    while the problem is in use. The iterates have the dtype of x0.

    Args:
        inner: `g(x, sample)`, an array or pytree, for one sample.
        outer: `f(y)`, a scalar; `f(y, sample)` when `outer_data` is given.
        inner_data: pytree of arrays with one leading axis n, or a `Stream`.
        outer_data: likewise with leading axis N; None when there is a single outer function.
        regularizer: r; none by default.
        inner_jacobian: optional `jacobian(x, sample)` of `inner`, in the structure of
            `jax.jacobian(inner)`; for plain arrays an array of shape y.shape + x.shape.
        sampling: how small batches are drawn from arrays: "replacement" (independent indices) or
            "reshuffled" (contiguous blocks in random order: much faster for large n, to be used
            when the rows are in no particular order).

    Examples:
        >>> mean = mvrc.Composition(lambda x, s: s - x, lambda y: (y**2).sum(), returns)
        >>> np.allclose(mvrc.minimize(mean, x0).x, returns.mean(axis=0))
        True
    """

    inner: Callable[..., Any]
    outer: Callable[..., Any]
    inner_source: Source
    outer_source: Source | None
    regularizer: Regularizer
    inner_jacobian: Callable[..., Any] | None

    @checks.explain_keywords
    def __init__(
        self,
        inner: Callable[..., Any],
        outer: Callable[..., Any],
        inner_data: Any,
        outer_data: Any = None,
        regularizer: Regularizer | None = None,
        inner_jacobian: Callable[..., Any] | None = None,
        sampling: str = "replacement",
    ) -> None:
        calls.check_function("inner(x, sample)", inner)
        if outer_data is None:
            calls.check_function("outer(y)", outer, ", as no outer_data is given")
        else:
            calls.check_function("outer(y, sample)", outer, ", as outer_data is given")
        if inner_jacobian is not None:
            calls.check_function("inner_jacobian(x, sample)", inner_jacobian)
        if regularizer is not None and not isinstance(regularizer, Regularizer):
            raise TypeError(
                f"regularizer must be a Regularizer such as mvrc.L1(0.01) or "
                f"mvrc.Custom(value, prox), not {checks.shown(regularizer)}."
            )
        leaves = jax.tree_util.tree_leaves(regularizer)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise TypeError(
                "regularizer has a traced array; call mvrc outside of jit, vmap and grad."
            )
        self.inner = inner
        self.outer = outer
        checks.choice("sampling", sampling, SAMPLING)
        self.inner_source = inputs.source("inner_data", inner_data, sampling)
        self.outer_source = None
        if outer_data is not None:
            self.outer_source = inputs.source("outer_data", outer_data, sampling)
        self.regularizer = Zero() if regularizer is None else regularizer
        self.inner_jacobian = inner_jacobian
        endless = self.n is None and (outer_data is None or self.N is None)
        if sampling != SAMPLING[0] and endless:
            raise ValueError(
                f"sampling is {sampling!r} but there are no arrays to draw from, only streams; "
                f"leave it out."
            )
        if self.evaluations[0] == 1:
            raise ValueError(
                "inner_data has one sample (n = 1), so there is no expectation to estimate; "
                "give at least two samples."
            )

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: arrays as NumPy's, as JAX's would come back in 32 bits without its switch."""
        leaves, treedef = jax.tree_util.tree_flatten(dict(self.__dict__))
        ours = [isinstance(leaf, jax.Array) for leaf in leaves]
        plain = [np.asarray(a) if own else a for a, own in zip(leaves, ours, strict=True)]
        return {"fields": jax.tree_util.tree_unflatten(treedef, plain), "ours": ours}

    def __setstate__(self, state: dict[str, Any]) -> None:
        leaves, treedef = jax.tree_util.tree_flatten(state["fields"])
        with precision.follow(leaves):
            arrays = [
                jax.device_put(a) if own else a
                for a, own in zip(leaves, state["ours"], strict=True)
            ]
        for name, value in jax.tree_util.tree_unflatten(treedef, arrays).items():
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int | None:
        """Number of inner samples; None for a stream."""
        return self.inner_source.count

    @property
    def N(self) -> int | None:
        """Number of outer samples; 1 for a single outer function, None for a stream."""
        return 1 if self.outer_source is None else self.outer_source.count

    @property
    def evaluations(self) -> tuple[Any, Any]:
        """Evaluations of g and of ∇f in a pass over everything; None: endless."""
        return self.inner_source.count, 1 if self.outer_source is None else self.outer_source.count

    @property
    def two_level(self) -> bool:
        """Whether the outer function is a mean or an expectation as well."""
        return self.outer_source is not None

    @property
    def finite(self) -> bool:
        """Whether both means are over finitely many samples, so that there are full passes."""
        return self.n is not None and self.N is not None

    @property
    def inner_data(self) -> Any:
        """What was given: arrays, or a `Stream`."""
        return self.inner_source.given()

    @property
    def outer_data(self) -> Any:
        """Likewise; None for a single outer function."""
        return None if self.outer_source is None else self.outer_source.given()

    @property
    def kind(self) -> str:
        """The class in the paper's notation."""
        return ("Σ" if self.finite else "E") + ("²" if self.two_level else "¹")

    def functions(self, geometry: Geometry) -> Functions:
        """f, g and r at flat points."""
        return Functions(self.inner, self.outer, self.inner_jacobian, self.regularizer, geometry)

    def precision(self, *more: Any) -> Any:
        """The context in which this problem's arrays, and `more`, keep their dtype."""
        return precision.follow(self.inner_source, self.outer_source, self.regularizer, *more)

    def geometry(self, x: Any) -> Geometry:
        """Shapes of x, y and the samples; refuses functions that do not fit, in a sentence."""
        outer_sample = None
        inner_sample = inputs.one_sample("inner_data", self.inner_source)
        if self.outer_source is not None:
            outer_sample = inputs.one_sample("outer_data", self.outer_source)
        functions = self.inner, self.outer, self.inner_jacobian
        return geometry_of(*functions, x, inner_sample, outer_sample)

    def in_numbers(self, x: Any, name: str = "x0") -> tuple[Composition, Any, Any]:
        """The problem in the numbers of x, these numbers, and what else x has.

        An equinox model has functions beside its numbers; of any other x the rest is None.
        """
        if not inputs.is_model(x):
            return self, x, None
        if self.inner_jacobian is not None:
            raise TypeError(f"{name} is a model, for which inner_jacobian cannot be given.")
        numbers, rest = eqx.partition(x, eqx.is_inexact_array)
        inner = inputs.OfModel(self.inner, rest)
        return eqx.tree_at(lambda p: p.inner, self, inner), numbers, rest

    def start(self, x0: Any, name: str = "x0") -> Any:
        """The user's x0 as a pytree of NumPy arrays on which r can be applied."""
        x = inputs.point(name, x0)
        with self.precision(x):
            self.regularizer.check(x)
            mistakes.check_regularizer(self.regularizer, x)
        return x

    def objective(self, x: Any) -> float:
        """Φ(x), exactly (of a stream: on its evaluation batch)."""
        return measure(self, x).objective

    def gradient(self, x: Any) -> Any:
        """∇F(x) for the smooth part F = f∘g, exactly, in the structure of x's numbers."""
        return measure(self, x).gradient

    def check(self, x: Any, seed: int = 0) -> Any:
        """Compare derivatives with finite differences at x; print the report to read it."""
        return derivatives.check(self, x, seed)
