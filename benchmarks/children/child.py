"""Run a module of this room in a process of its own, which prints one line of JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import paths

LIMIT = 300  # seconds; a child that takes longer has failed


def run(module: str, *arguments: str, programs: str = "0") -> Any:
    """A module of this room, with compiled programs in a folder; "0": in none."""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    environment["MVRC_CACHE"] = programs
    try:
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.children.{module}", *arguments],
            cwd=paths.ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"benchmarks.children.{module} took more than {LIMIT} s.") from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"ended with {done.returncode}"]
        raise RuntimeError(f"benchmarks.children.{module} failed: {last[0]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(cases: list[Any], sides: tuple[str, ...], seconds: float) -> list[dict[str, Any]]:
    """Cases in turns in one child; an entry each, as measure.py has it."""
    fields = [dataclasses.asdict(case) for case in cases]
    asked = {"cases": fields, "sides": sides, "seconds": seconds}
    return run("measure", json.dumps(asked))


def measure_all(cases: list[Any], seconds: float) -> list[dict[str, Any]]:
    """The same without twins, for a comparison that needs every case."""
    entries = measure(cases, (), seconds)
    for entry in entries:
        if "error" in entry:
            raise RuntimeError(entry["error"])
    return entries


def resident() -> tuple[float, float]:
    """Resident memory of this process now and at its highest, in MB (10⁶ bytes)."""
    status = Path("/proc/self/status")
    if not status.exists():
        raise RuntimeError("memory is measured from /proc/self/status, which only Linux has.")
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    now, peak = (int(lines[name].split()[0]) * 1024e-6 for name in ("VmRSS", "VmHWM"))
    return now, peak
