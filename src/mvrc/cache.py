"""The compilation cache on disk: a program compiled once is read back by the next process."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import jax

from mvrc import checks


@checks.explain_keywords
def compilation_cache(folder: str | Path | None = None) -> Path:
    """Keep compiled programs in `folder` (by default `mvrc` in the user's cache folder).

    Call it once, before the first `minimize`. It sets JAX's own persistent cache, for programs of
    any size and compile time.
    """
    if folder is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(home) / "mvrc" / "xla"
    path = _writable(folder)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return path


def _writable(folder: Any) -> Path:
    """The folder, made if need be; refused when nothing can be written to it."""
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise TypeError(f"folder must be the path of a folder, not {checks.shown(folder)}.")
    path = Path(folder).expanduser().resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(
            f"folder {str(path)!r} cannot be written ({reason}); give a folder that can."
        ) from error
    return path
