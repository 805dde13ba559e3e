"""What a user gives, checked or refused in a sentence: data, points and functions."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mvrc.problem import mistakes
from mvrc.sampling import ArraySource, Source, Stream, lies_on_many, shard
from mvrc.support import calls, checks, precision, settings

# Arrays in a list are taken for samples where they are more than this, or more than each has rows.
_LIST = 16
_PLAIN = (list, tuple, dict, str, bytes, range)


@settings.needed()
def arrays(name: str, given: Any) -> Any:
    """The user's data as JAX arrays (no copy where possible), checked."""
    _refuse_rows(name, given)
    paths, treedef = jax.tree_util.tree_flatten_with_path(given, is_leaf=_is_number_list)
    arrays = [_array(name, leaf) for _, leaf in paths]
    if not arrays:
        raise ValueError(f"{name} is empty; it must hold at least one array.")
    for (path, leaf), array in zip(paths, arrays, strict=True):
        if array.ndim == 0 or not _is_numeric(array.dtype):
            where = f"{name}{jax.tree_util.keystr(path)}"
            raise TypeError(
                f"{where} is of type {type(leaf).__name__}, dtype {array.dtype} and shape "
                f"{array.shape}; it must be a numeric array whose first axis is the samples, as "
                f"np.asarray(rows)."
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
        # Not jnp.asarray, which copies: device_put uses 64-byte aligned memory in place.
        kept = [jax.device_put(array) for array in arrays]
    for array, new in zip(arrays, kept, strict=True):
        if array.dtype.kind in "iu" and array.dtype != new.dtype and array.size:
            least, most = np.iinfo(new.dtype).min, np.iinfo(new.dtype).max
            if array.min() < least or array.max() > most:
                raise ValueError(
                    f"{name} has integers from {array.min()} to {array.max()}, which do not "
                    f"fit JAX's {new.dtype}; give them as float64."
                )
    return jax.tree_util.tree_unflatten(treedef, kept)


@settings.needed()
def point(name: str, x: Any) -> Any:
    """The user's x as a pytree of NumPy arrays, checked."""
    leaves, treedef = jax.tree_util.tree_flatten(x, is_leaf=_is_number_list)
    if not leaves:
        raise ValueError(f"{name} is empty; it must be an array or a pytree of arrays.")
    arrays = [np.asarray(_array(name, leaf)) for leaf in leaves]
    arrays = [a.astype(np.float64) if a.dtype.kind in "iu" else a for a in arrays]
    for array in arrays:
        if array.dtype not in (np.float32, np.float64):
            raise TypeError(
                f"{name} has dtype {array.dtype}; it must be float32 or float64, "
                f"for instance np.asarray({name}, float)."
            )
        if array.size == 0:
            raise ValueError(f"{name} has an array of shape {array.shape}; it must not be empty.")
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} contains NaN or infinite values; all must be finite.")
    return jax.tree_util.tree_unflatten(treedef, arrays)


def is_model(x: Any) -> bool:
    """Whether x0 has leaves that are no unknowns, as the functions of an equinox model, or its
    arrays of integers."""
    leaves = jax.tree_util.tree_leaves(x, is_leaf=_is_number_list)
    if isinstance(x, eqx.Module):
        unknown = [eqx.is_inexact_array(leaf) for leaf in leaves]
        return any(unknown) and not all(unknown)
    known = (numbers.Number, np.ndarray, np.generic, jax.Array, list)
    arrays = [isinstance(leaf, known) or hasattr(leaf, "__array__") for leaf in leaves]
    return any(arrays) and not all(arrays)


class OfModel(eqx.Module):
    """inner of the numbers of a model, the rest of which stays."""

    inner: Callable[..., Any]
    rest: Any

    def __call__(self, x: Any, *sample: Any) -> Any:
        return self.inner(eqx.combine(x, self.rest), *sample)


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
        if array.dtype == object and _is_frame(leaf):  # columns of several dtypes
            array = leaf.to_numpy(float, na_value=np.nan)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{name} holds {checks.shown(leaf)}, which is not an array: all rows must have the "
            f"same length."
        ) from error
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _refuse_rows(name: str, given: Any) -> None:
    """Lists of samples, where arrays with all samples are wanted; and what is no array at all."""
    for rows in _lists(given):
        word = type(rows[0]).__name__
        shapes = {np.shape(entry) for entry in rows if hasattr(entry, "shape")}
        nested = (dict, tuple, list) if len(rows) > _LIST else (dict, tuple)
        if len(rows) > 1 and all(isinstance(entry, nested) for entry in rows):
            raise TypeError(
                f"{name} is a list of {len(rows)} {word}s, one for each sample; give one {word} "
                f"of arrays with a leading axis of samples, as np.stack makes them."
            )
        alike = len(shapes) == 1 and shapes != {()}
        if alike and len(rows) > min(_LIST, *(shape[0] for shape in shapes)):
            there = f"{name} is" if rows is given else f"{name} has"
            stacked = f"np.stack({name})" if rows is given else "np.stack of it"
            raise TypeError(
                f"{there} a list of {len(rows)} arrays of shape {shapes.pop()}; if each is a "
                f"sample give {stacked}, if each is a variable a tuple of them."
            )
    # An iterator is told to be a leaf, as JAX warns where it must guess so.
    is_leaf = lambda node: (  # noqa: E731
        _is_number_list(node) or isinstance(node, Iterator) or hasattr(node, "todense")
    )
    for leaf in jax.tree_util.tree_leaves(given, is_leaf=is_leaf):
        kind = type(leaf)
        if hasattr(leaf, "todense"):
            scipys = hasattr(leaf, "tocoo")
            whose, dense = ("SciPy", "toarray") if scipys else ("JAX", "todense")
            raise TypeError(
                f"{name} is a {whose} sparse {kind.__name__}; give {name}.{dense}(), as samples "
                f"are dense."
            )
        if _is_frame(leaf):
            columns = zip(leaf.columns, leaf.dtypes, strict=True)
            words = [str(column) for column, dtype in columns if dtype.kind not in "iufb"]
            if words:
                raise TypeError(
                    f"{name} has columns that are not numeric: {checks.cut(', '.join(words))}; "
                    f"drop or encode them first."
                )
        elif not hasattr(leaf, "__array__") and hasattr(leaf, "__iter__") and kind not in _PLAIN:
            loader = " (a data loader)" if hasattr(leaf, "dataset") else ""
            raise TypeError(
                f"{name} is of type {kind.__name__}{loader}, not an array; give arrays with all "
                f"samples, a Stream that draws them, or Batches(…) of an iterable."
            )


def _lists(node: Any) -> Iterator[list[Any]]:
    """All lists in what is given, the outermost first, but for lists of numbers."""
    if _is_number_list(node) or not isinstance(node, list | tuple | dict):
        return
    if isinstance(node, list):
        yield node
    for entry in node.values() if isinstance(node, dict) else node:
        yield from _lists(entry)


def _is_frame(leaf: Any) -> bool:
    """Whether it is a DataFrame of pandas."""
    return hasattr(leaf, "iloc") and hasattr(leaf, "columns")


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


def source(name: str, given: Any, sampling: str) -> Source:
    """What the user gives as data."""
    if isinstance(given, Source):
        return given.sampled(sampling)
    if any(lies_on_many(leaf) for leaf in jax.tree_util.tree_leaves(given)):
        return shard(given).sampled(sampling)
    return ArraySource(arrays(name, given), sampling)


def one_sample(name: str, source: Source) -> Any:
    """Shapes of one sample; a stream is asked for two batches to see that it keeps its word."""
    if not isinstance(source, Stream):
        return source.spec()
    key = jax.eval_shape(lambda: jax.random.key(0))
    for size in (3, 2):
        drawn = lambda k, n=size: source.draw(k, n)  # noqa: E731
        batch = calls.shape_of(f"{name}.draw(key, {size})", drawn, key, draw=source.draw)
        leaves = jax.tree_util.tree_leaves(batch)
        if not leaves or any(a.ndim == 0 or a.shape[0] != size for a in leaves):
            shapes = [a.shape for a in leaves]
            raise ValueError(
                f"{name}.draw(key, {size}) returned shapes {shapes}; every array must have "
                f"{size} rows."
            )
    traced = jax.make_jaxpr(lambda k: source.draw(k, 2))(key).jaxpr
    if not any(traced.invars[0] in equation.invars for equation in traced.eqns):
        raise ValueError(
            f"{name}.draw(key, size) does not use its key, so all batches would be the same; "
            f"draw with jax.random and the key, not with NumPy."
        )
    mistakes.check(f"{name}.draw(key, 2)", drawn, np.dtype(np.float32), key, varies=False)
    return jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), batch)


def check_inner(y: Any) -> None:
    """Refuse what g may not return."""
    leaves = jax.tree_util.tree_leaves(y)
    if not leaves or sum(elements(leaf) for leaf in leaves) == 0:
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


def check_outer(value: Any, hint: str = "") -> None:
    """Refuse what f may not return."""
    leaves = jax.tree_util.tree_leaves(value)
    if len(leaves) != 1 or leaves[0].shape != ():
        raise ValueError(
            f"outer returned {calls.describe(value)}; it must return a single number (shape ())"
            f"{hint}."
        )
    if not np.issubdtype(leaves[0].dtype, np.floating):
        raise TypeError(f"outer returned dtype {leaves[0].dtype}; it must be floating-point.")


def column_hint(x: Any) -> str:
    """What to try where functions do not fit an x that is a matrix of one column."""
    if not is_column(x):
        return ""
    return f"; x has shape {x.shape}, a column: for a vector give its .ravel()"


def is_column(x: Any) -> bool:
    """Whether x is one array of shape (d, 1) with d > 1."""
    shape: tuple[int, ...] = getattr(x, "shape", ())
    return shape[1:] == (1,) and shape[0] > 1


def elements(tree: Any) -> int:
    """Numbers in all arrays of a tree."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree_util.tree_leaves(tree))
