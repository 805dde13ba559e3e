"""Checkpoints: the whole state of a run in one file, written atomically, refused to strangers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mvrc.oracle import Geometry
from mvrc.regularizers import LinearOperator
from mvrc.sampling import Source
from mvrc.solvers.result import COLUMNS
from mvrc.support import cache, checks, settings
from mvrc.support.partition import strongly, weakly

_FILE = "state.npz"
_RANDOM = ("jax_threefry_partitionable",)  # which random numbers
_TEMPORARY = "state-"  # and the number of the process
_OLD = "its arrays are those of another version"

# A save is due after so many seconds, and after so many times what the last one took.
SECONDS, SHARE = 1.0, 50


class Checkpoint:
    """The file `folder/state.npz`, and the description of the run that it belongs to."""

    def __init__(self, folder: Path, described: dict[str, str]) -> None:
        self.described = described
        self._saved, self._took = time.monotonic(), 0.0
        folder = folder.expanduser()
        self.path = folder / _FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
            _remove_left_overs(folder)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ValueError(
                f"checkpoint folder {str(folder)!r} cannot be written ({reason}); "
                f"give a folder that can."
            ) from error

    def due(self) -> bool:
        """Whether a kill now would lose more than a save costs."""
        return time.monotonic() - self._saved >= max(SECONDS, SHARE * self._took)

    def save(self, state: Any, rows: list[dict[str, Any]]) -> None:
        """Write to a temporary file, flush it to the disk, then put it in place."""
        start = time.monotonic()
        leaves = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(state)]
        arrays = {
            "described": np.array(json.dumps(self.described)),
            "rows": _table(rows),
            **{f"leaf_{i}": leaf for i, leaf in enumerate(leaves)},
        }
        prefix = f"{_TEMPORARY}{os.getpid()}-"
        descriptor, temporary = tempfile.mkstemp(".tmp", prefix, self.path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
            self._saved = time.monotonic()
            self._took = self._saved - start
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def load(self, state: Any, rows: list[Any]) -> tuple[Any, list[dict[str, Any]]]:
        """The saved state in the structure of `state`, or `state` itself when nothing is saved."""
        if not self.path.exists():
            return state, rows
        try:
            with np.load(self.path, allow_pickle=False) as file:
                saved = {name: file[name] for name in file.files}
            described = {
                name: str(word) for name, word in json.loads(str(saved["described"])).items()
            }
        except Exception as error:  # a torn zip file can raise nearly anything
            raise self._unreadable(type(error).__name__) from error
        self._refuse_difference(described)
        if "rows" not in saved or not _has_rows(saved["rows"]):
            raise self._unreadable(_OLD)
        leaves, treedef = jax.tree_util.tree_flatten(state)
        restored = [saved.get(f"leaf_{i}") for i in range(len(leaves))]
        for old, new in zip(restored, leaves, strict=True):
            if old is None or (old.shape, old.dtype) != (np.shape(new), new.dtype):
                raise self._unreadable(_OLD)
            if old.dtype.kind == "f" and np.isnan(old).any():
                raise self._unreadable("it has NaN among its numbers")
        table = saved["rows"]
        try:
            found = [{k: _plain(k, row[k]) for k in table.dtype.names} for row in table]
        except (TypeError, ValueError, OverflowError) as error:
            raise self._unreadable(_OLD) from error
        return jax.tree_util.tree_unflatten(treedef, restored), found

    def _refuse_difference(self, saved: dict[str, str]) -> None:
        names = sorted(saved.keys() | self.described.keys())
        pairs = [(name, saved.get(name), self.described.get(name)) for name in names]
        changed = [
            f"{name} was {checks.cut(was or 'absent', 48)} "
            f"and is now {checks.cut(now or 'absent', 48)}"
            for name, was, now in pairs
            if was != now
        ]
        if changed:
            more = [f"{len(changed) - 2} more differences"] if len(changed) > 2 else []
            raise ValueError(
                f"checkpoint '{self.path.parent}' belongs to another run: "
                f"{'; '.join(changed[:2] + more)}; give another folder or delete it."
            )

    def _unreadable(self, reason: str) -> ValueError:
        return ValueError(
            f"checkpoint '{self.path}' is not a readable mvrc checkpoint ({reason}); "
            f"delete it or give another folder."
        )


def _remove_left_overs(folder: Path) -> None:
    """Temporary files of runs that were killed while they saved."""
    for file in folder.glob(f"{_TEMPORARY}*.tmp"):
        number = file.name.removeprefix(_TEMPORARY).split("-")[0]
        if number.isdigit() and not _alive(int(number)):
            file.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


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


def _fields(prefix: str, value: Any) -> dict[str, str]:
    """The fields of nested modules, one line each; a schedule by its computation."""
    if isinstance(value, LinearOperator):
        return {prefix: "LinearOperator"}  # its computation is in regularizer.value
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
    return f"{words} {_function(what, jax.random.key(0)) if callable(what) else _hash(what)}"


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


def _table(rows: list[dict[str, Any]]) -> np.ndarray:
    """The rows as one array with named fields: every array of the file costs time of its own."""
    first = {name: np.asarray(value) for name, value in rows[0].items()}
    fields = [(name, value.dtype, value.shape) for name, value in first.items()]
    return np.array([tuple(row.values()) for row in rows], np.dtype(fields))


def _has_rows(table: np.ndarray) -> bool:
    """Whether an array is what `_table` makes of at least one row."""
    names = table.dtype.names or ()
    numbers = all(table.dtype[name].base.kind in "iuf" for name in names)
    return set(names) == set(COLUMNS) and numbers and table.ndim == 1 and table.size > 0


def _plain(name: str, value: Any) -> Any:
    """A saved number as it was in the row."""
    if name in ("objective", "gradient_mapping", "step_size", "decision"):
        return np.asarray(value)
    return float(value) if name in ("seconds", "wall_seconds") else int(value)
