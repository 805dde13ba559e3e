"""Checkpoints: the state of a run in one file, written atomically, refused for another run."""

from __future__ import annotations

import io
import json
import os
import secrets
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mvrc.run.together import Together
from mvrc.solvers.result import COLUMNS
from mvrc.support import checks

_FILE = "state.npz"
_TEMPORARY = "state-"  # and the number of the process
_OLD = "its arrays are those of another version"

# A save is due after so many seconds, and after so many times what the last one took.
SECONDS, SHARE = 1.0, 50


class Checkpoint:
    """The file `folder/state.npz`, and the description of the run that it belongs to."""

    def __init__(self, folder: Path, described: dict[str, str], together: Together) -> None:
        self.described, self._together = described, together
        self._saved, self._took = time.monotonic(), 0.0
        folder = folder.expanduser()
        self.path = folder / _FILE
        if not together.first:
            return
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
        temporary = self.path.parent / f"{prefix}{secrets.token_hex(4)}.tmp"
        try:
            with temporary.open("xb") as file:  # in the mode of all other files, unlike mkstemp
                np.savez(file, **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
            self._saved = time.monotonic()
            self._took = self._saved - start
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def try_to_save(self, state: Any, rows: list[dict[str, Any]]) -> str:
        """A save that fails costs no result: the run goes on, and this says why."""
        try:
            self.save(state, rows)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            unsaved = (
                f"The checkpoint could not be saved ({reason}); what is in its folder is older."
            )
            warnings.warn(unsaved, stacklevel=3)
            return unsaved
        return ""

    def load(self, state: Any, rows: list[Any]) -> tuple[Any, list[dict[str, Any]]]:
        """The saved state in the structure of `state`, or `state` itself when nothing is saved."""
        given = self._given()
        if given is None:
            return state, rows
        try:
            with np.load(given, allow_pickle=False) as file:
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

    def _given(self) -> Any:
        """What `np.load` takes; None when nothing is saved. Process 0 reads it."""
        if not self._together.many:
            return self.path if self.path.exists() else None
        read = lambda: self.path.read_bytes() if self.path.exists() else b""  # noqa: E731
        found = self._together.told_bytes(read)
        return io.BytesIO(found) if found else None

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
