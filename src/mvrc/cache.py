"""The compilation cache on disk: a program compiled once is read back by the next process."""

from __future__ import annotations

import os
from pathlib import Path

import jax


def compilation_cache(folder: str | Path | None = None) -> Path:
    """Keep compiled programs in `folder` (by default `mvrc` in the user's cache folder).

    Call it once, before the first `minimize`. It sets JAX's own persistent cache, for programs of
    any size and compile time.
    """
    if folder is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(home) / "mvrc" / "xla"
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return path
