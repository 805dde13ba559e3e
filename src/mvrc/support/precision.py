"""float32 and float64 follow the user's arrays: 64-bit mode is on exactly where they need it.

JAX cuts float64 to float32 unless a global switch is set. Instead of touching the user's global
state, every public entry point runs inside `follow(...)`, which turns 64-bit mode on for its
duration when one of the arrays is float64 or complex128, and makes the other settings those that
the library needs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from mvrc.support import settings


@contextlib.contextmanager
def follow(*trees: Any) -> Iterator[None]:
    """Context in which the arrays in `trees` keep their dtype and stay on their device."""
    leaves = jax.tree_util.tree_leaves(trees)
    with settings.needed(leaves):
        if wide() or not any(_is_wide(leaf) for leaf in leaves):
            yield
        else:
            with jax.enable_x64(True):
                yield


def wide() -> bool:
    """Whether 64-bit mode is on."""
    return bool(jax.config.read("jax_enable_x64"))


def _is_wide(leaf: Any) -> bool:
    return getattr(leaf, "dtype", None) in (np.float64, np.complex128)
