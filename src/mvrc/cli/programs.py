"""Compiled programs are kept on disk, so that the next command starts faster."""

from __future__ import annotations

import jax
import typer

import mvrc


def keep() -> None:
    """Turn on the compilation cache; a folder that the user has set for JAX stays.

    Where nothing can be written the command works all the same, and says so.
    """
    if jax.config.jax_compilation_cache_dir is not None:  # type: ignore[attr-defined]
        return
    try:
        mvrc.compilation_cache()
    except ValueError as error:
        typer.echo(f"Without the cache of compiled programs: {error}", err=True)
