"""Compiled programs are kept on disk, so that the next command starts faster."""

from __future__ import annotations

import typer

import mvrc
from mvrc.support import cache


def keep() -> None:
    """Turn on the compilation cache; a folder that the user has set for JAX stays.

    Where nothing can be written the command works all the same, and says so.
    """
    if cache.disk_folder() is not None:
        return
    try:
        mvrc.compilation_cache()
    except ValueError as error:
        typer.echo(f"Without the cache of compiled programs: {error}", err=True)
