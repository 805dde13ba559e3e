"""The table on the terminal, docs/performance.md and results.json, from one list of rows."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.child import ROOT
from benchmarks.row import Row

PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results.json"

TEXT = """\
# Performance

This page was written by `make bench` (`python -m benchmarks`) on {date}, in one run of
{minutes:.1f} minutes, and is never edited by hand; the numbers are also in
`benchmarks/results.json`. A speed is a ratio of two things measured side by side in that run. A
demand that is not met stays in the table as FAIL.

**Machine:** {cpu}, {cores} cores, {memory:.0f} GB, {system}; load average {before:.1f} before and
{after:.1f} after the run (1 is one busy core, so more than this run's own means that the machine
was shared).
**Versions:** {versions}.

{table}

## What was run

- **Portfolio problem**: seeded random returns, 24,452 × 30;
  g(x, r) = (rᵀx, (rᵀx)²), f(y) = −y₀ − 0.2(y₀² − y₁), r(x) = 0.01‖x‖₁. MVRC with constant momentum
  0.8, step 1e-3, batch 256, period 96. Derivatives of `mvrc` by autodiff from the two functions.
- **NumPy twins** (`benchmarks/twin.py`): the same algorithm, vectorised, derivatives by hand, BLAS
  on one thread. The *plain* one is written as the formulas read; the *tuned* one gathers once for
  both points and makes one product of the two Jacobians. All sides run epochs of 96 and of 288
  steps in turns. *Small step* is the slope
  between the two, so the refresh drops out; *epoch / steps* is an epoch of 96 steps divided by 96.
  *Best* is the shortest epoch of each kind, *median* the middle one. For `mvrc` the clock is the
  column `seconds` of the history.
- **Compilation and first epoch**: all of `minimize(epochs=1)` in a new process without any cache.
  **Warm cache**: from before the first import to the result of 5 epochs, in a new process, with
  `mvrc.compilation_cache(folder)` filled by an earlier one.
- **Memory** is resident memory (`VmHWM`) of a process of its own. *Aligned* data lie on a 64-byte
  boundary, as JAX's own arrays do and those of `np.load(file, mmap_mode="r")`; XLA can use them in
  place. A NumPy array as it comes (*plain*) does not, and XLA needs a copy.
"""


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    lines = [
        ("", "measured", "demand", ""),
        *((r.name, r.number, r.demand, r.verdict) for r in rows),
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    align = (str.ljust, str.rjust, str.ljust, str.ljust)
    return "\n".join(
        "  ".join(put(cell, width) for put, cell, width in zip(align, line, widths, strict=True))
        for line in lines
    )


def write(rows: list[Row], seconds: float, before: float) -> None:
    """The page and the JSON file."""
    facts = machine()
    facts |= {"seconds": seconds, "load_before": before, "load_after": os.getloadavg()[0]}
    body = "\n".join(
        f"| {r.name} | {r.number} | {r.demand} | {r.verdict} | {r.note} |" for r in rows
    )
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(
        TEXT.format(
            date=facts["date"],
            minutes=seconds / 60,
            cpu=facts["cpu"],
            cores=facts["cores"],
            memory=facts["memory_gb"],
            system=facts["system"],
            before=before,
            after=facts["load_after"],
            versions=", ".join(f"{name} {number}" for name, number in facts["versions"].items()),
            table="| | measured | demand | | how |\n|---|---:|---|---|---|\n" + body,
        )
    )
    entries = [dataclasses.asdict(r) | {"verdict": r.verdict} for r in rows]
    RESULTS.write_text(json.dumps({"machine": facts, "rows": entries}, indent=1) + "\n")


def machine() -> dict[str, Any]:
    """Where the run was made."""
    names = ("mvrc", "jax", "jaxlib", "equinox", "numpy")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": pages * 1e-9,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"Python": platform.python_version()} | {n: version(n) for n in names},
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown processor"
