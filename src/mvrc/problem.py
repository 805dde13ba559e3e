"""Composition: the problem min f(E g(x)) + r(x), from functions of one sample."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc import checks, precision
from mvrc.layout import Layout
from mvrc.oracle import Geometry, jacobian_matrix
from mvrc.regularizers import Regularizer, Zero
from mvrc.sampling import SAMPLING, Source, Stream


class Composition(eqx.Module):
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
    """

    inner: Callable[..., Any] = eqx.field(static=True)
    outer: Callable[..., Any] = eqx.field(static=True)
    inner_data: Any
    outer_data: Any
    regularizer: Regularizer
    inner_jacobian: Callable[..., Any] | None = eqx.field(static=True)
    sampling: str = eqx.field(static=True)

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
        _check_function("inner(x, sample)", inner)
        if outer_data is None:
            _check_function("outer(y)", outer, ", as no outer_data is given")
        else:
            _check_function("outer(y, sample)", outer, ", as outer_data is given")
        if inner_jacobian is not None:
            _check_function("inner_jacobian(x, sample)", inner_jacobian)
        if regularizer is not None and not isinstance(regularizer, Regularizer):
            raise TypeError(
                f"regularizer must be a Regularizer such as mvrc.L1(0.01) or "
                f"mvrc.Custom(value, prox), not {checks.shown(regularizer)}."
            )
        self.inner = inner
        self.outer = outer
        self.inner_data = _data("inner_data", inner_data)
        self.outer_data = None if outer_data is None else _data("outer_data", outer_data)
        self.regularizer = Zero() if regularizer is None else regularizer
        self.inner_jacobian = inner_jacobian
        self.sampling = checks.choice("sampling", sampling, SAMPLING)
        arrays = [data for data in (inner_data, outer_data) if not isinstance(data, Stream | None)]
        if sampling != SAMPLING[0] and not arrays:
            raise ValueError(
                f"sampling is {sampling!r} but there are no arrays to draw from, only streams; "
                f"leave it out."
            )
        if self.n == 1:
            raise ValueError(
                "inner_data has one sample (n = 1), so there is no expectation to estimate; "
                "give at least two samples."
            )

    @property
    def n(self) -> int | None:
        """Number of inner samples; None for a stream."""
        return _count(self.inner_data)

    @property
    def N(self) -> int | None:
        """Number of outer samples; 1 for a single outer function, None for a stream."""
        return 1 if self.outer_data is None else _count(self.outer_data)

    @property
    def two_level(self) -> bool:
        """Whether the outer function is a mean or an expectation as well."""
        return self.outer_data is not None

    @property
    def kind(self) -> str:
        """The class in the paper's notation."""
        online = self.n is None or self.N is None
        return ("E" if online else "Σ") + ("²" if self.two_level else "¹")

    @property
    def inner_source(self) -> Source:
        """Where inner batches come from."""
        return Source(self.inner_data, self.n, self.sampling)

    @property
    def outer_source(self) -> Source | None:
        """Where outer batches come from; None for a single outer function."""
        return Source(self.outer_data, self.N, self.sampling) if self.two_level else None

    def precision(self, *more: Any) -> Any:
        """The context in which this problem's arrays, and `more`, keep their dtype."""
        return precision.follow(self.inner_data, self.outer_data, self.regularizer, *more)

    def geometry(self, x: Any) -> Geometry:
        """Shapes of x, y and the samples; refuses functions that do not fit, in a sentence."""
        shape = jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), x)
        layout = Layout.of(shape)
        inner_sample = _one_sample("inner_data", self.inner_data)
        y = _shape_of("inner(x, sample)", self.inner, shape, inner_sample)
        _check_inner(y)
        outer_sample = None
        if self.two_level:
            outer_sample = _one_sample("outer_data", self.outer_data)
            _check_outer(_shape_of("outer(y, sample)", self.outer, y, outer_sample))
        else:
            _check_outer(_shape_of("outer(y)", self.outer, y))
        geometry = Geometry(
            x=layout,
            y=Layout.of(y, layout.dtype),
            inner_sample=_elements(inner_sample),
            outer_sample=_elements(outer_sample),
        )
        if self.inner_jacobian is not None:
            self._check_jacobian(shape, inner_sample, geometry)
        return geometry

    def start(self, x0: Any) -> Any:
        """The user's x0 as a pytree of NumPy arrays, or a sentence that says what is wrong."""
        leaves, treedef = jax.tree_util.tree_flatten(x0, is_leaf=_is_number_list)
        if not leaves:
            raise ValueError("x0 is empty; it must be an array or a pytree of arrays.")
        arrays = [np.asarray(_array("x0", leaf)) for leaf in leaves]
        for array in arrays:
            if array.dtype not in (np.float32, np.float64):
                raise TypeError(
                    f"x0 has dtype {array.dtype}; it must be float32 or float64, "
                    f"for instance np.asarray(x0, float)."
                )
            if array.size == 0:
                raise ValueError(f"x0 has an array of shape {array.shape}; it must not be empty.")
            if not np.all(np.isfinite(array)):
                raise ValueError("x0 contains NaN or infinite values; all must be finite.")
        x = jax.tree_util.tree_unflatten(treedef, arrays)
        with self.precision(x):
            self.regularizer.check(x)
        return x

    def objective(self, x: Any) -> float:
        """Φ(x), exactly (of a stream: on its evaluation batch)."""
        from mvrc.metrics import measure

        return measure(self, x).objective

    def gradient(self, x: Any) -> Any:
        """∇F(x) for the smooth part F = f∘g, exactly, in the structure of x."""
        from mvrc.metrics import measure

        return measure(self, x).gradient

    def check(self, x: Any, seed: int = 0) -> Any:
        """Compare derivatives with finite differences at x; print the report to read it."""
        from mvrc.derivatives import check

        return check(self, x, seed)

    def _check_jacobian(self, x: Any, sample: Any, geometry: Geometry) -> None:
        got = _shape_of("inner_jacobian(x, sample)", self.inner_jacobian, x, sample)
        want = jax.eval_shape(jax.jacrev(self.inner), x, sample)
        shapes = [leaf.shape for leaf in jax.tree_util.tree_leaves(got)]
        wanted = [leaf.shape for leaf in jax.tree_util.tree_leaves(want)]
        if shapes != wanted:
            raise ValueError(
                f"inner_jacobian(x, sample) returned shapes {shapes}; they must be {wanted}, "
                f"those of jax.jacobian(inner)."
            )
        jax.eval_shape(lambda t: jacobian_matrix(t, geometry), got)


def _data(name: str, data: Any) -> Any:
    """The user's data as JAX arrays (no copy where possible), checked."""
    if isinstance(data, Stream):
        return data
    leaves, treedef = jax.tree_util.tree_flatten(data, is_leaf=_is_number_list)
    arrays = [_array(name, leaf) for leaf in leaves]
    if not arrays:
        raise ValueError(f"{name} is empty; it must hold at least one array.")
    for array in arrays:
        if array.ndim == 0 or not _is_numeric(array.dtype):
            raise TypeError(
                f"{name} has a leaf of dtype {array.dtype} and shape {array.shape}; every leaf "
                f"must be a numeric array whose first axis is the samples, as np.asarray(rows)."
            )
    sizes = sorted({array.shape[0] for array in arrays})
    if len(sizes) > 1:
        raise ValueError(
            f"{name} has arrays with {sizes} rows; all must have the same number of samples."
        )
    if sizes[0] == 0:
        raise ValueError(f"{name} is empty (0 samples); give at least one sample.")
    for array in arrays:
        if not _all_finite(np.asarray(array)):
            raise ValueError(f"{name} contains NaN or infinite values; remove or fill them first.")
    with precision.follow(arrays):
        kept = [jnp.asarray(array) for array in arrays]
    for array, new in zip(arrays, kept, strict=True):
        if array.dtype.kind in "iu" and array.dtype != new.dtype and array.size:
            least, most = np.iinfo(new.dtype).min, np.iinfo(new.dtype).max
            if array.min() < least or array.max() > most:
                raise ValueError(
                    f"{name} has whole numbers from {array.min()} to {array.max()}, which do not "
                    f"fit JAX's {new.dtype}; give them as float64."
                )
    return jax.tree_util.tree_unflatten(treedef, kept)


def _array(name: str, leaf: Any) -> Any:
    """A leaf as an array, or a sentence when it is none."""
    if isinstance(leaf, np.ma.MaskedArray) and np.ma.is_masked(leaf):
        raise ValueError(f"{name} has masked values; remove or fill them first.")
    if isinstance(leaf, jax.core.Tracer):
        raise TypeError(f"{name} is a traced array; call mvrc outside of jit, vmap and grad.")
    if isinstance(leaf, jax.Array):
        return leaf
    try:
        array = np.asarray(leaf)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{name} holds {checks.shown(leaf)}, which is not an array: all rows must have the "
            f"same length."
        ) from error
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _is_numeric(dtype: Any) -> bool:
    """Whether JAX computes with it: not text, objects, dates, keys or long doubles."""
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        return False
    known = jax.dtypes.issubdtype(dtype, np.number) or dtype == np.bool_
    return known and dtype.itemsize <= (16 if dtype.kind == "c" else 8)


def _all_finite(array: np.ndarray) -> bool:
    """Whether all numbers are finite, without a temporary of the array's size."""
    if not jax.dtypes.issubdtype(array.dtype, np.inexact):
        return True
    rows = max(1, 2**20 // max(1, array[0].size))
    return all(bool(np.isfinite(array[i : i + rows]).all()) for i in range(0, array.shape[0], rows))


def _is_number_list(node: Any) -> bool:
    """Lists of numbers, also nested, are arrays; other lists are pytrees."""
    return isinstance(node, list) and all(
        isinstance(v, numbers.Number) or _is_number_list(v) for v in node
    )


def _count(data: Any) -> int | None:
    return None if isinstance(data, Stream) else jax.tree_util.tree_leaves(data)[0].shape[0]


def _one_sample(name: str, data: Any) -> Any:
    """Shapes of one sample; a stream is asked for two batches to see that it keeps its word."""
    if not isinstance(data, Stream):
        return jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), data)
    key = jax.eval_shape(lambda: jax.random.key(0))
    for size in (3, 2):
        batch = _shape_of(f"{name}.draw(key, {size})", lambda k, n=size: data.draw(k, n), key)
        leaves = jax.tree_util.tree_leaves(batch)
        if not leaves or any(a.ndim == 0 or a.shape[0] != size for a in leaves):
            shapes = [a.shape for a in leaves]
            raise ValueError(
                f"{name}.draw(key, {size}) returned shapes {shapes}; every array must have "
                f"{size} rows."
            )
    traced = jax.make_jaxpr(lambda k: data.draw(k, 2))(key).jaxpr
    if not any(traced.invars[0] in equation.invars for equation in traced.eqns):
        raise ValueError(
            f"{name}.draw(key, size) does not use its key, so all batches would be the same; "
            f"draw with jax.random and the key, not with NumPy."
        )
    return jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), batch)


def _shape_of(call: str, function: Any, *args: Any) -> Any:
    """Output shapes of a user's function, traced twice; a failure becomes a sentence."""
    try:
        first = jax.eval_shape(lambda *a: function(*a), *args)
        second = jax.eval_shape(lambda *a: function(*a), *args)
    except Exception as error:
        got = ", ".join(_describe(arg) for arg in args)
        raise ValueError(f"{call} failed on {got}: {checks.reason(error)}.") from error
    if jax.tree_util.tree_map(_spec, first) != jax.tree_util.tree_map(_spec, second):
        raise ValueError(
            f"{call} returned {_describe(first)} in one call and {_describe(second)} in the "
            f"next; its shape must be the same in every call."
        )
    return first


def _check_function(call: str, function: Any, why: str = "") -> None:
    """Refuse what cannot be called in that way."""
    name = call.split("(")[0]
    if not callable(function):
        raise TypeError(f"{name} must be a function {call}, not {checks.shown(function)}.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    try:
        signature.bind(*call.split(","))
    except TypeError:
        taken = checks.cut(str(signature))
        raise TypeError(f"{name} takes {taken} but is called as {call}{why}.") from None


def _spec(leaf: Any) -> tuple[Any, Any]:
    return (leaf.shape, leaf.dtype)


def _describe(tree: Any) -> str:
    leaves = jax.tree_util.tree_leaves(tree)
    words = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves[:3]]
    more = [f"{len(leaves) - 3} more"] if len(leaves) > 3 else []
    return " and ".join(words + more) or "nothing"


def _check_inner(y: Any) -> None:
    leaves = jax.tree_util.tree_leaves(y)
    if not leaves or sum(_elements(leaf) for leaf in leaves) == 0:
        raise ValueError("inner(x, sample) returned nothing; it must return an array or pytree.")
    if hasattr(y, "shape") and y.shape == ():
        raise ValueError(
            "inner(x, sample) returned a scalar; it must return an array with at least one axis "
            "or a pytree of arrays, for instance jnp.array([value])."
        )
    for leaf in leaves:
        if not np.issubdtype(leaf.dtype, np.floating):
            raise TypeError(
                f"inner(x, sample) returned dtype {leaf.dtype}; it must return floating-point "
                f"numbers."
            )


def _check_outer(value: Any) -> None:
    leaves = jax.tree_util.tree_leaves(value)
    if len(leaves) != 1 or leaves[0].shape != ():
        raise ValueError(
            f"outer returned {_describe(value)}; it must return a single number (shape ())."
        )
    if not np.issubdtype(leaves[0].dtype, np.floating):
        raise TypeError(f"outer returned dtype {leaves[0].dtype}; it must be floating-point.")


def _elements(tree: Any) -> int:
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree_util.tree_leaves(tree))
