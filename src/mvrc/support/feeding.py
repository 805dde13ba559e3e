"""Rows that the host hands to a running program, by callbacks of JAX's.

What a callback raises comes out of XLA as a message without its type, after a log of its own. Here
it is kept instead, and raised once the program is through, which goes on with zeros until then.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

_calls = itertools.count()
_local = threading.local()  # of the thread that traces
_failures: list[BaseException] = []


def call(function: Callable[..., Any], shapes: Any, *arguments: Any) -> Any:
    """`function(*arguments)`, evaluated by the host in NumPy while a program runs.

    It must give the same for the same arguments, in arrays of the shapes and dtypes of `shapes`,
    and must not use JAX. Arguments have at most 32 bits. Under vmap it is called once where its
    arguments have no axis of seeds, and one seed after another where they have.
    """
    _local.traced = next(_calls)
    leaves, treedef = jax.tree_util.tree_flatten(shapes)

    def called(*given: Any) -> Any:
        try:
            if not _failures:
                found = function(*(np.asarray(a) for a in given))
                each = jax.tree_util.tree_leaves(found)
                return [_handed(a, s) for a, s in zip(each, leaves, strict=True)]
        except BaseException as error:  # also an interrupt: it is raised by who runs the program
            _failures.append(error)
        return [np.zeros(s.shape, s.dtype) for s in handed]

    handed = [_handed_shape(s) for s in leaves]
    found = jax.pure_callback(called, handed, *arguments, vmap_method="sequential")
    taken = [_taken(a, s) for a, s in zip(found, leaves, strict=True)]
    return jax.tree_util.tree_unflatten(treedef, taken)


# JAX would cut numbers of 64 bits by the setting of the thread that it calls back from, which is
# not that of the run; so they come as two of 32.


def _is_wide(shape: Any) -> bool:
    return np.dtype(shape.dtype).itemsize == 8 and np.dtype(shape.dtype).kind in "iuf"


def _handed_shape(shape: Any) -> Any:
    return jax.ShapeDtypeStruct((*shape.shape, 2), np.uint32) if _is_wide(shape) else shape


def _handed(array: Any, shape: Any) -> Any:
    array = np.asarray(array, shape.dtype, order="C")
    if array.shape != shape.shape:
        raise AssertionError(f"shape {array.shape} was handed over for {shape.shape}")
    return array.view(np.uint32).reshape(*shape.shape, 2) if _is_wide(shape) else array


def _taken(array: Any, shape: Any) -> Any:
    return jax.lax.bitcast_convert_type(array, shape.dtype) if _is_wide(shape) else array


def traced() -> int:
    """The number of the last call that this thread has traced; to tell whether there were more."""
    return getattr(_local, "traced", -1)


def finished(result: Any) -> Any:
    """What a program with such calls gives, when it is through; or raises what one has raised."""
    jax.block_until_ready(result)
    if _failures:
        error = _failures[0]
        _failures.clear()
        raise error
    return result
