"""What must be equal for a run to go on: functions by what they compute, data by their bytes."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import zlib
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mvrc.oracle import Geometry
from mvrc.regularizers import LinearOperator
from mvrc.regularizers.blocks import Stacked
from mvrc.sampling import Source
from mvrc.support import cache, settings
from mvrc.support.partition import strongly, weakly

_ROWS = 1024  # about so many are glanced at
_RANDOM = ("jax_threefry_partitionable",)  # which random numbers


def fingerprint(
    problem: Any, geometry: Geometry, x0: Any, method: Any, options: dict[str, Any]
) -> dict[str, str]:
    """What must be equal for a run to continue, in words that can be compared and shown.

    Functions are compared by their jaxprs (the computation, not the Python object), so the same
    source in a new process is the same problem.
    """
    x, y = geometry.x.specs(), geometry.y.specs()
    inner = problem.inner_source.spec()
    outer = None if problem.outer_source is None else problem.outer_source.spec()
    step = jax.ShapeDtypeStruct((), geometry.x.dtype)
    words = {
        "x0": _hash(x0),
        "inner": _function(problem.inner, x, inner),
        "outer": _function(problem.outer, y, *(() if outer is None else (outer,))),
        "inner_data": _data(problem.inner_source),
        "outer_data": _data(problem.outer_source),
        "regularizer": _short(problem.regularizer),
        "regularizer.value": _function(problem.regularizer.value, x),
        "regularizer.prox": _function(problem.regularizer.prox, x, step),
        "inner_jacobian": "none",
        "jax": jax.__version__,
        **{name: str(getattr(jax.config, name)) for name in _RANDOM},
        **{name: str(value) for name, value in options.items()},
    }
    if problem.inner_jacobian is not None:
        words["inner_jacobian"] = _function(problem.inner_jacobian, x, inner)
    return {**words, **_fields("method", method)}


def glance(problem: Any) -> str:
    """A checksum of a few rows of the data, against a state that goes on with other data."""
    words = []
    for source in (problem.inner_source, problem.outer_source):
        said, what = ("none", None) if source is None else source.fingerprint()
        rows = () if callable(what) else jax.tree_util.tree_map(_some, what)
        words.append(f"{said} {_hash(rows)}")
    return ", ".join(words)


def _some(array: Any) -> Any:
    array = np.asarray(array)
    return array[:: max(1, len(array) // _ROWS)]


def _fields(prefix: str, value: Any) -> dict[str, str]:
    """The fields of nested modules, one line each; a schedule by its computation."""
    if isinstance(value, LinearOperator | Stacked):
        return {prefix: type(value).__name__}  # its computation is in regularizer.value
    if not dataclasses.is_dataclass(value):
        if not callable(value):
            return {prefix: str(value)}
        return {prefix: _function(value, jax.ShapeDtypeStruct((), np.float32))}
    words = {prefix: type(value).__name__}
    for field in dataclasses.fields(value):
        words |= _fields(f"{prefix}.{field.name}", getattr(value, field.name))
    return words


def _function(function: Any, *args: Any) -> str:
    """Hash of the computation that a function does on such arguments."""
    leaves, treedef = jax.tree_util.tree_flatten(args)
    try:
        return _known_function(weakly(function), treedef, tuple(leaves), settings.traced_with())
    except TypeError:  # not hashable: a module with arrays
        return _traced(function, args)


@cache.remember
def _known_function(function: Any, treedef: Any, specs: Any, settings: Any) -> str:
    """The same once for all runs: as a compiled program, it is that of the first call."""
    return _traced(strongly(function), jax.tree_util.tree_unflatten(treedef, specs))


def _traced(function: Any, args: Any) -> str:
    closed = jax.make_jaxpr(function)(*args)
    text = re.sub(r"0x[0-9a-f]+", "", str(closed.jaxpr))
    return _digest([text.encode(), *(_bytes(const) for const in closed.consts)])


def _data(source: Source | None) -> str:
    if source is None:
        return "none"
    words, what = source.fingerprint()
    found = _function(what, jax.random.key(0)) if callable(what) else _hash(what)
    return f"{found} {words}"


def _hash(tree: Any) -> str:
    leaves = jax.tree_util.tree_leaves(tree)
    shapes = " ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves)
    checksum = 0  # against mistakes, not malice: a run of a second must not wait for its data
    for leaf in leaves:
        checksum = zlib.crc32(_bytes(leaf), checksum)
    return f"{shapes} {checksum:08x}"


def _bytes(array: Any) -> Any:
    return np.ascontiguousarray(np.asarray(array)).reshape(-1).view(np.uint8)


def _digest(parts: list[Any]) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]


def _short(module: eqx.Module) -> str:
    return re.sub(r"\s+", " ", re.sub(r"0x[0-9a-f]+", "", repr(module)))
