"""Where a run was made: machine and versions."""

from __future__ import annotations

import datetime
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "mvrc", "jax", "jaxlib", "equinox", "numpy", "scipy", "numba", "torch",
    "cvxpy-base", "clarabel",
)  # fmt: skip


def facts() -> dict[str, Any]:
    """All that may explain a number."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = {name: _version(name) for name in PACKAGES}
    return {
        "date": today(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": pages * 1e-9,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"Python": platform.python_version()}
        | {name: number for name, number in found.items() if number},
    }


def today() -> str:
    return datetime.date.today().isoformat()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown processor"
