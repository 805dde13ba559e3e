"""`python -m benchmarks.comparison`: docs/comparison.md from what is in results/."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import auto, held_out, paths, solvers

PAGE = paths.DOCS / "comparison.md"
CONVEX, NONCONVEX = 0.7, 1.2  # most that Auto may need of the best tuned method's samples
PASSES = 14  # on 30 industries

TEXT = """\
# Auto against tuned methods and other solvers

This page was written by `make bench-auto` (`python -m benchmarks.auto`, `benchmarks.solvers`,
`benchmarks.held_out`, `benchmarks.comparison`) and is never edited by hand; all runs behind it are
in `auto.json`, `held_out.json` and `solvers.json` of `benchmarks/results/`. Rows that `Auto` loses
stay.

## Against every method at its best step

`minimize(problem, x0)` with nothing chosen, against each of {methods} methods at eight step sizes
({steps} times 1/L, L the curvature near x0), each with its own best; the portfolios with the
paper's batch of 256 (1,024 at n = 10⁶), the others with the methods' own defaults. The goal is a
relative gap of 1e-6 (nonconvex: the gradient mapping down to 1e-6 of its start, with Φ not above
its start, as it is at x = 0 of the paper's SpAM). *Passes* are evaluations of g divided by n, with
the subsample of the power iteration and the rehearsal. Where `Auto` measures the curvature g is
known already: a column of a sample's Hessian counts as a Jacobian, in *g'*. *Ratio* is passes of
`Auto` by those of the best tuned method, *with curvature* the same if each sample of such a
measurement counted as an evaluation of g as well. *Seconds* are those of the algorithm, compiled.
A tuned run is given up once it is behind the best so far, or after {most} passes (at most
{largest:.0e} evaluations) or {seconds} s. Methods that always keep a Jacobian
({keepers}) are left out where it has more than
{entries:,} numbers, as that of the SNE; the others are matrix-free there.

{auto_machine}

{auto_table}

Demanded: at most {convex} times the best tuned method's samples on convex instances, {nonconvex} on
nonconvex ones, and at most {passes} passes on 30 industries. {verdict}

Tuning is not counted: a user who tries eight step sizes has made eight runs. The grid of tuned runs
takes an hour; `python -m benchmarks.auto --only auto` keeps it and runs `Auto` again, with the best
tuned method beside it for its seconds.

All 13 instances had a part in choosing constants of `Auto`: the secant error from which on the
curvature is measured again (of 0.3, 0.5 and 0.7 the one with the fewest passes here), the samples
of a first measurement, the limit of 32 passes, when small steps are made at all. The first radius
and its growth were chosen on the
[NIST regressions](auto.md#regressions-with-certified-values). The next table but one has instances
that had a part in nothing.

{losses}

## Instances that had no part in any choice

The same goal; `Auto` against FISTA and VRSC-PG, each at the best of the eight steps
(`python -m benchmarks.held_out`).

{held_out_machine}

{held_out_table}

## Against other solvers

Mean–variance (−mean + 0.2·variance + 0.01‖x‖₁) and mean–CVaR (β = 0.95, on the simplex) of 30
assets with simulated returns, float64. *First call* contains imports of the solver, compilation and
canonicalisation; *second call* is the same again in the same process. *Gap* is the exact objective
above the lowest that any solver found, relative; the CVaR of `Auto`, L-BFGS-B and FISTA is
smoothed, that of cvxpy exact. Each solver has a process of its own, {limit} s and 22 GB.

- *cvxpy*: Clarabel, the problem as a user writes it, a row for every day. *On the covariance*: the
  same after the data were reduced to a 30 × 30 matrix, which mean–variance allows, CVaR does not.
- *L-BFGS-B*: SciPy, gradient by hand in NumPy, x = u − v for the L1 norm, softmax for the simplex.
- *FISTA*: with restart, hand-written in JAX, 1/L from the data.

{solver_machine}

{solver_table}
"""


def main() -> None:
    """Write the page."""
    tuned = json.loads(auto.RESULTS.read_text())
    others = json.loads(solvers.RESULTS.read_text())
    unseen = json.loads(held_out.RESULTS.read_text())
    PAGE.write_text(
        TEXT.format(
            methods=len(_methods(tuned["instances"])),
            steps=", ".join(f"{step:g}" for step in auto.STEPS),
            most=auto.MOST,
            largest=auto.LARGEST,
            seconds=auto.SECONDS,
            keepers=", ".join(auto.KEEPS_JACOBIAN),
            entries=auto.LARGEST_JACOBIAN,
            auto_machine=_machine(tuned["machine"]) + _days(tuned["instances"]),
            auto_table=_auto_table(tuned["instances"]),
            convex=CONVEX,
            nonconvex=NONCONVEX,
            passes=PASSES,
            verdict=_verdict(tuned["instances"]),
            losses=_losses(tuned["instances"]),
            held_out_machine=_machine(unseen["machine"]) + _days(unseen["instances"]),
            held_out_table=_held_out_table(unseen["instances"]),
            limit=solvers.LIMIT,
            solver_machine=_machine(others["machine"]),
            solver_table=_solver_table(others["rows"]),
        )
    )
    print(PAGE)


def _held_out_table(found: dict[str, Any]) -> str:
    lines = [
        "| instance | n | d | Auto: passes of g | of g' | ended | best of the others | "
        "passes of g | ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        own, best = row["auto"], row["best"]
        passes = [
            f"{own[k]:.1f}" if own[k] is not None else "not reached"
            for k in ("values", "jacobians")
        ]
        other = ("none", "–", "–")
        if best is not None:
            other = (f"{best['method']}, {best['factor']:g}/L", f"{best['values']:.1f}", "–")
            if own["values"] is not None:
                other = (*other[:2], f"{own['values'] / best['values']:.2f}")
        cells = (name, f"{row['n']:,}", f"{row['d']:,}", *passes, own["status"], *other)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _methods(found: dict[str, Any]) -> set[str]:
    return {run["method"] for row in found.values() for run in row["tuned"]}


def _machine(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return (
        f"**Run:** {facts['date']}, {facts['minutes']:.0f} minutes. **Machine:** {facts['cpu']}, "
        f"{facts['cores']} cores, {facts['memory_gb']:.0f} GB. **Versions:** {versions}."
    )


def _days(found: dict[str, Any]) -> str:
    """Which rows were run when, unless all were on one day."""
    parts, every = [], set()
    for side, who in (("auto", "`Auto`"), ("tuned", "tuned methods")):
        names: dict[str, list[str]] = {}
        for name, row in found.items():
            names.setdefault(row.get("ran", {}).get(side, "not recorded"), []).append(name)
        every |= names.keys()
        usual = max(names, key=lambda day: len(names[day]))
        others = [f" ({'; '.join(names[day])}: {day})" for day in names if day != usual]
        parts.append(f"{who} {usual}{''.join(others)}")
    return "" if len(every) == 1 else f" **Rows:** {', '.join(parts)}."


def _auto_table(found: dict[str, Any]) -> str:
    lines = [
        "| instance | n | d | Auto: passes of g | of g' | seconds | first call | best tuned | "
        "passes of g | of g' | seconds | ratio | with curvature | demand |",
        "|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|---|",
    ]
    for name, row in found.items():
        mine, best = row["auto"], row["best"]
        limit = CONVEX if row["convex"] else NONCONVEX
        cells = [name, f"{row['n']:,}", f"{row['d']:,}", *_run(mine), _number(mine["cold"], "s")]
        if best is None:
            cells += ["none within the limits", "", "", ""]
        else:
            cells += [f"{best['method']}, {best['factor']:g}/L", *_run(best)]
        ratios = (_ratio(row), _ratio(row, mine["looked"]))
        shown = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        lines.append("| " + " | ".join([*cells, *shown, f"{limit} {_word(row)}"]) + " |")
    return "\n".join(lines)


def _run(run: dict[str, Any]) -> list[str]:
    if run["values"] is None:
        return ["not reached", "", ""]
    return [f"{run['values']:.1f}", f"{run['jacobians']:.1f}", _number(run["seconds"], "s")]


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 4
    return f"{value:,.{digits}f} {unit}"


def _ratio(row: dict[str, Any], more: float = 0) -> float | None:
    if row["auto"]["values"] is None or row["best"] is None:
        return None
    return (row["auto"]["values"] + more) / row["best"]["values"]


def _word(row: dict[str, Any]) -> str:
    if row["auto"]["values"] is None:
        return "pass" if row["best"] is None else "FAIL"
    ratio = _ratio(row)
    return "pass" if ratio is None or ratio <= (CONVEX if row["convex"] else NONCONVEX) else "FAIL"


def _verdict(found: dict[str, Any]) -> str:
    failed = [name for name, row in found.items() if _word(row) == "FAIL"]
    passes = found["mean–variance, 30 industries"]["auto"]["values"]
    text = f"30 industries took {passes:.1f} passes. "
    if not failed:
        return f"{text}All {len(found)} instances pass."
    return f"{text}{len(failed)} of {len(found)} fail: {'; '.join(failed)}."


def _losses(found: dict[str, Any]) -> str:
    """Instances on which a tuned method is ahead by another count."""
    lines = []
    for name, row in found.items():
        mine, best = row["auto"], row["best"]
        if best is None or mine["values"] is None:
            continue
        words = [
            f"{mine[key] / best[key]:.1f} times its {label}"
            for key, label in (("jacobians", "Jacobians"), ("seconds", "seconds"))
            if mine[key] > best[key]
        ]
        if words:
            lines.append(f"- {name}: {' and '.join(words)} ({best['method']}).")
    if not lines:
        return "By Jacobians and by seconds, too, `Auto` is ahead everywhere."
    return "\n".join(
        ["By another count than passes of g a tuned method is ahead here:", "", *lines]
    )


def _solver_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| problem | n | solver | first call | second call | by Auto's | gap |",
        "|---|--:|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        mine = next(
            r for r in rows
            if (r["problem"], r["n"], r["solver"]) == (row["problem"], row["n"], "auto")
        )  # fmt: skip
        start = f"| {row['problem']} | {row['n']:,} | {row['solver'].replace('auto', '**Auto**')} |"
        if "failed" in row:
            lines.append(f"{start} {row['failed']} | | | |")
            continue
        by = ""
        if row is not mine and "second" in mine:
            by = f"{row['first'] / mine['first']:.2g}x, {row['second'] / mine['second']:.2g}x"
        lines.append(
            f"{start} {_number(row['first'], 's')} | {_number(row['second'], 's')} | {by} | "
            f"{max(row['gap'], 0):.0e} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
