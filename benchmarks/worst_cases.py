"""Tight worst cases of MVRC's scheme with exact gradients (batch = n) against α, by PEPit.

    z = (1−α)y + αx,   x⁺ = x − λ∇F(z),   y⁺ = z + (β/λ)(x⁺ − x),   β = λ/(1+α),

F with a 1-Lipschitz gradient, not convex (or convex): the largest min over t ≤ T of ‖∇F(z_t)‖² that
there is with F(x₀) − F* ≤ 1. At α = 1 the scheme is gradient descent with the step λ. Semidefinite
programs (Drori & Teboulle, 2014; Taylor, Hendrickx & Glineur, 2017; Goujaud et al., 2022): each
number is attained by some F, to the solver's tolerance.

    python -m benchmarks.worst_cases          # writes benchmarks/results/worst_cases.json

PEPit (`pip install pepit`) is not a dependency of the library.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "worst_cases.json"
ALPHAS = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
STEPS = (1, 3, 6)  # T
EQUAL = 1.0  # λL that all have once
GRID = [round(1.0 + 0.1 * k, 2) for k in range(11)]  # λL, for the best of each α


def worst(alpha: float, lam: float, steps: int, convex: bool) -> float:
    """The largest min ‖∇F(z_t)‖², t = 0, …, T, of all F; ∞ where there is none."""
    from PEPit import PEP
    from PEPit.functions import SmoothConvexFunction, SmoothFunction

    problem = PEP()
    kind = SmoothConvexFunction if convex else SmoothFunction
    F = problem.declare_function(kind, L=1.0)
    best = F.stationary_point() if convex else None
    x = problem.set_initial_point()
    if best is not None:
        problem.set_initial_condition(F(x) - F(best) <= 1)
    y, beta, gradients, seen = x, lam / (1 + alpha), [], []
    start = F(x)
    for _ in range(steps):
        z = (1 - alpha) * y + alpha * x
        g, value = F.oracle(z)
        gradients.append(g)
        seen.append((g, value))
        x, y = x - lam * g, z - beta * g
    g, value = F.oracle((1 - alpha) * y + alpha * x)
    gradients.append(g)
    seen.append((g, value))
    if best is None:  # F* is at most what a gradient step gains anywhere, and F(x₀) − F* ≤ 1
        for g, value in seen:
            problem.add_constraint(start - value + g**2 / 2 <= 1)
    for g in gradients:
        problem.set_performance_metric(g**2)
    found = problem.solve(verbose=0, solver="CLARABEL")
    return float(found) if found is not None and math.isfinite(found) else math.inf


def table(convex: bool) -> list[dict[str, Any]]:
    """A row for each α and T: the worst case at λL = 1, and at the λ whose worst case is least."""
    rows = []
    for steps in STEPS:
        for alpha in ALPHAS:
            tried = {lam: worst(alpha, lam, steps, convex) for lam in GRID}
            best = min(tried, key=lambda lam: tried[lam])
            rows.append(
                {"convex": convex, "steps": steps, "alpha": alpha, "equal": tried[EQUAL],
                 "best_step": best, "best": tried[best]}
            )  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """As docs/theory.md has it."""
    lines = ["| F | T | α | worst case at λL = 1 | best λL | worst case there |",
             "|---|--:|--:|--:|--:|--:|"]  # fmt: skip
    for r in rows:
        kind = "convex" if r["convex"] else "smooth"
        lines.append(
            f"| {kind} | {r['steps']} | {r['alpha']:g} | {r['equal']:.4f} | {r['best_step']:g} | "
            f"{r['best']:.4f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Compute, write, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--show", action="store_true", help="print the recorded table")
    if not parser.parse_args().show:
        rows = [row for convex in (False, True) for row in table(convex)]
        RESULT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    print(markdown(json.loads(RESULT.read_text("utf-8"))))


if __name__ == "__main__":
    main()
