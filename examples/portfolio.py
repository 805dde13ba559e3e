"""The risk-averse portfolio of the paper: MVRC and CIVR against the exact optimum, with a figure.

    min over x of  −mean(rᵀx) + 0.2·variance(rᵀx) + 0.01‖x‖₁,   r the daily returns in percent

is f(E g(x)) + r(x) with g(x, r) = (rᵀx, (rᵀx)²) and f(y) = −y₀ + 0.2(y₁ − y₀²). The returns are
those of the 30 industry portfolios where the file is there, else simulated ones of the paper's
size. Run it with `make demo`; `--simulated` never reads the file, `--output` names the figure.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

import mvrc
from mvrc.applications import mean_variance
from mvrc.applications.portfolio import exact_mean_variance
from mvrc.datasets import industry30, simulate_industry

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT.parent / "shared" / "data" / "industry30_daily.csv"

RISK, SPARSITY = 0.2, 0.01
STEP_SIZE, BATCH, EPOCHS, SEEDS = 1e-3, 256, 30, 5


def load_returns(simulated: bool) -> tuple[np.ndarray, str]:
    """The returns, and what they are."""
    if not simulated and FILE.exists():
        return industry30(FILE).values, "30 industry portfolios"
    return simulate_industry().values, "simulated returns"


def methods(n: int) -> dict[str, mvrc.MVRC | mvrc.CIVR]:
    """The settings of the paper's experiment."""
    sizes = {"step_size": STEP_SIZE, "batch_size": BATCH, "period": math.ceil(n / BATCH)}
    return {
        "MVRC, constant momentum 0.8": mvrc.MVRC(momentum=mvrc.Constant(0.8), **sizes),
        "MVRC, diminishing, restart": mvrc.MVRC(momentum=mvrc.Diminishing(restart=True), **sizes),
        "CIVR (no momentum)": mvrc.CIVR(**sizes),
    }


def table_row(name: str, results: list[mvrc.Result], best: float) -> str:
    """Medians over the seeds; the seconds are those of all seeds together."""
    gap = np.median([(r.objective - best) / abs(best) for r in results])
    shown = f"{gap:.2e}" if gap > 1e-14 else "< 1e-14"  # rounding may even make it negative
    mapping = np.median([r.gradient_mapping for r in results])
    samples, seconds = results[0].counts.inner_values, results[0].seconds
    return f"{name:<30}{shown:>14}{mapping:>18.2e}{samples:>13,}{seconds:>9.2f}"


def draw(
    runs: dict[str, list[mvrc.Result]], untuned: mvrc.Result, best: float, title: str, path: Path
) -> None:
    """Gap and gradient mapping over samples: median line, band from lowest to highest seed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    def curve(result: mvrc.Result, column: str) -> np.ndarray:
        values = result.history[column]
        return (values - best) / abs(best) if column == "objective" else values

    # Okabe and Ito's colours, told apart by colour-blind readers; markers for print.
    looks = [("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^")]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    panels = zip(
        axes,
        ("objective", "gradient_mapping"),
        ("relative gap to the exact optimum", "norm of the gradient mapping"),
        strict=True,
    )
    for axis, column, label in panels:
        lowest, highest = math.inf, 0.0
        for (name, results), (colour, marker) in zip(runs.items(), looks, strict=True):
            samples = results[0].history["inner_values"] / 1e6
            values = np.stack([curve(result, column) for result in results])
            lowest, highest = min(lowest, values.min()), max(highest, values.max())
            axis.fill_between(samples, values.min(0), values.max(0), color=colour, alpha=0.3, lw=0)
            axis.plot(
                samples, np.median(values, axis=0), color=colour, lw=2, label=name,
                marker=marker, markevery=5, markersize=6,
            )  # fmt: skip
        axis.plot(
            untuned.history["inner_values"] / 1e6, curve(untuned, column),
            color="black", lw=1.5, ls="--", label="MVRC, all defaults",
        )  # fmt: skip
        axis.set(yscale="log", xlabel="samples of g (millions)", ylabel=label)
        # The dashed line falls much further; cut there, so that the others can be told apart.
        axis.set(xlim=(0, 1.02 * samples[-1]), ylim=(lowest / 1.5, highest * 1.3))
        axis.grid(which="both", alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulated", action="store_true", help="never read the industry file")
    parser.add_argument("--output", type=Path, default=ROOT / "demo" / "portfolio.png")
    options = parser.parse_args()

    returns, what = load_returns(options.simulated)
    n, assets = returns.shape
    problem, x0 = mean_variance(returns, RISK, SPARSITY), np.zeros(assets)
    _, best = exact_mean_variance(returns, RISK, SPARSITY)
    print(f"Portfolio of {assets} assets, {n:,} days ({what}); exact optimum {best:.6f}.")
    print(
        f"Step size {STEP_SIZE:g}, batch {BATCH}, {EPOCHS} epochs; medians of {SEEDS} seeds, "
        f"run together.\n"
    )

    print(
        f"{'method':<30}{'relative gap':>14}{'gradient mapping':>18}{'samples':>13}{'seconds':>9}"
    )
    runs = {}
    for name, method in methods(n).items():
        runs[name] = mvrc.minimize_many(problem, x0, method, seeds=SEEDS, epochs=EPOCHS)
        print(table_row(name, runs[name], best), flush=True)

    untuned = mvrc.minimize(problem, x0)
    print(table_row("MVRC, all defaults, 1 seed", [untuned], best))
    print(f"\nmvrc.minimize(problem, x0) chose the step size {untuned.step_size:.3g}.")
    print(untuned.message)

    title = f"Risk-averse portfolio: {what}, {n:,} × {assets}, median and range of {SEEDS} seeds"
    draw(runs, untuned, best, title, options.output)
    print(f"\nFigure: {options.output}")


if __name__ == "__main__":
    main()
