"""`mvrc bench`: the benchmarks of a checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer


def bench() -> None:
    """Run the benchmarks, from a checkout of the repository.

    They print a table, write docs/performance.md and take some minutes.

    Example:

      cd mvrc && mvrc bench
    """
    folder = Path.cwd()
    for root in (folder, *folder.parents):
        if (root / "benchmarks" / "__main__.py").exists() and (root / "src" / "mvrc").is_dir():
            run = subprocess.run([sys.executable, "-m", "benchmarks"], cwd=root, check=False)
            raise typer.Exit(run.returncode)
    raise FileNotFoundError(
        f"{folder} is not in a checkout of mvrc; the benchmarks come with the source: clone the "
        f"repository, and run mvrc bench in its folder."
    )
