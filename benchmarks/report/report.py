"""results.json, and docs/performance.md from it: a section for `make bench`, one for the full run.

Each command replaces its own section of the results and writes the whole page again, so neither
takes away the other's tables.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from benchmarks import paths
from benchmarks.cases.case import Case
from benchmarks.parts import grid
from benchmarks.report import plots
from benchmarks.row import Measured, Row
from benchmarks.twins import sides

PAGE = paths.DOCS / "performance.md"
RESULTS = paths.RESULTS / "results.json"
COMMANDS = {"quick": "make bench", "full": "make bench-full"}

HEAD = """\
# Performance

This page is written by `make bench` and `make bench-full`, a section each, and never edited by
hand; the numbers are also in `benchmarks/results/results.json`. A speed is a ratio of two things
measured side by side in one run. A demand that is not met stays in the table as FAIL.

"""

SECTION = """\
## `{command}`

Run on {date} in {minutes:.1f} minutes.

**Machine:** {cpu}, {cores} cores, {memory_gb:.0f} GB, {system}; load average {load_before:.1f}
before and {load_after:.1f} after the run (1 is one busy core, so more than this run's own means
that the machine was shared).
**Versions:** {versions}.

### Demands and ratios, {command}

{demands}
"""

MISSING = "–"
GROUPS = {
    "step": "The portfolio step",
    "n": "Samples n",
    "d": "Unknowns d",
    "batch": "Batch size",
    "p": "Outputs p of g (g(x, a) = tanh(W(a∘x)))",
    "seeds": "Seeds in one program",
    "sampling": "Reshuffled blocks instead of drawn rows",
    "jacobian": "Matrix and matrix-free, batch 64",
    "method": "Methods (epochs of 96 steps; their full pass is spread over the steps)",
    "application": "Applications (MVRC with default batches; likewise)",
}

TEXT = """\
## What was run

- **Portfolio problem**: seeded random returns, 24,452 × 30;
  g(x, r) = (rᵀx, (rᵀx)²), f(y) = −y₀ − 0.2(y₀² − y₁), r(x) = 0.01‖x‖₁. MVRC with constant momentum
  0.8, step 1e-3, batch 256, period 96. Derivatives of `mvrc` by autodiff from the two functions.
- **Twins**: the same algorithm with derivatives by hand, on one thread. *Plain NumPy* is written
  as the formulas read; *tuned NumPy* gathers once for both points and makes one product of the two
  Jacobians (`twin.py`); *Numba* has fused loops with fast-math (`numba_twin.py`); *PyTorch* is
  eager, on the CPU, and measured where it is installed (`torch_twin.py`). They are in
  `benchmarks/twins/`.
- **Small step**: all sides run epochs of 96 and of 288 steps in turns; the slope between the two
  is the step, so the full pass drops out. *Epoch / steps* is an epoch of 96 steps divided by 96.
  *Best* is the shortest time of each kind, *median* the middle one. For `mvrc` the clock is the
  column `seconds` of the history.
- **Kernels**: small steps of `mvrc` are one function of machine code where their operations allow
  it ([architecture](architecture.md#what-may-surprise)); `MVRC_FUSED_LOOP=0 make bench` is without.
- **Tables of cases**: each case in a process of its own, with only the named size changed. The
  refresh of `mvrc` is one small batch there, so that an epoch is steps alone; the twins' step is a
  slope again. *Samples* are evaluations of g a second, of all seeds together. *Compilation* is the
  first call of `minimize` less a later one. *Memory* is the peak above the data, compilation
  counted in.
- **Exponents**: least squares on the logarithms of sizes and best times.
- **Regressions**: the speeds relative to plain NumPy are compared with
  `benchmarks/results/baseline.json`; one has fallen when the ratio of the best times and that of
  the medians both fell by more than 20 %. `python -m benchmarks --accept` makes the last run of
  `make bench` the baseline.
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


def read() -> dict[str, Any]:
    """The recorded sections."""
    if not RESULTS.exists():
        return {}
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {name: found[name] for name in COMMANDS if name in found}


def write(kind: str, section: dict[str, Any]) -> None:
    """Replace one section of the results, then the page and the section's plots."""
    sections = read() | {kind: section}
    text = json.dumps(sections, indent=1, ensure_ascii=False)
    RESULTS.write_text(text + "\n", encoding="utf-8")
    page()


def page() -> None:
    """The page and its plots from the recorded sections."""
    sections = read()
    parts = [_section(name, sections[name]) for name in COMMANDS if name in sections]
    PAGE.write_text(HEAD + "\n".join([*parts, TEXT]), encoding="utf-8")


def section(rows: list[Row], measured: list[Measured], ratios: list[Any], facts: Any) -> Any:
    """A run as plain data."""
    return {
        "machine": facts,
        "rows": [dataclasses.asdict(r) | {"verdict": r.verdict} for r in rows],
        "cases": [dataclasses.asdict(m) for m in measured],
        "ratios": [dataclasses.asdict(r) for r in ratios],
    }


def _section(name: str, found: dict[str, Any]) -> str:
    facts = found["machine"]
    fields = [field.name for field in dataclasses.fields(Row)]
    rows = [Row(**{key: row[key] for key in fields}) for row in found["rows"]]
    measured = [Measured(**case) for case in found["cases"]]
    body = "\n".join(
        f"| {r.name} | {r.number} | {r.demand} | {r.verdict} | {r.note} |" for r in rows
    )
    versions = ", ".join(f"{key} {number}" for key, number in facts["versions"].items())
    text = SECTION.format(
        **{key: value for key, value in facts.items() if key != "versions"},
        command=COMMANDS[name],
        minutes=facts["seconds"] / 60,
        versions=versions,
        demands="| | measured | demand | | how |\n|---|---:|---|---|---|\n" + body,
    )
    parts = [text]
    for title, image in plots.draw(name, measured):
        parts.append(f"![{title}](images/{image})\n")
    for group, title in GROUPS.items():
        cases = [m for m in measured if m.group == group]
        if cases:
            parts.append(f"### {title}, {COMMANDS[name]}\n\n{_cases(group, cases)}\n")
    return "\n".join(parts)


def _cases(group: str, cases: list[Measured]) -> str:
    """A table of cases, with the columns that were measured."""
    columns: dict[str, list[str]] = {
        "": [grid.label(group, Case(**m.case)) for m in cases],
        "µs a step, best": [f"{m.step['mvrc']['best']:,.1f}" for m in cases],
        "median": [f"{m.step['mvrc']['median']:,.1f}" for m in cases],
        "million samples a second": [f"{1e-6 * m.samples:,.3g}" for m in cases],
        "compilation, s": [_cell(m.compile, ".1f") for m in cases],
        "memory, MB": [_cell(m.memory, ",.0f") for m in cases],
    }
    for side in sides.ALL:
        ratios = [m.ratio(side) for m in cases]
        columns[f"{side} / mvrc"] = [_cell(r and r.best, ".1f", " x") for r in ratios]
    columns = {head: cells for head, cells in columns.items() if set(cells) != {MISSING}}
    lines = [" | ".join(columns), "---" + "|---:" * (len(columns) - 1)]
    lines += [" | ".join(cells) for cells in zip(*columns.values(), strict=True)]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


def _cell(value: float | None, shape: str, unit: str = "") -> str:
    return MISSING if value is None else f"{value:{shape}}{unit}"
