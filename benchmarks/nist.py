"""The nonlinear regressions of NIST with certified values: 27 problems, two starts each.

Problem: g = squared residual of an observation, f = identity; the certified parameters minimise it.
An answer is right when its objective, in float64, is at most 1e-6 above that of the certified
parameters (float32: 1e-3), and false when a run says CONVERGED of one that is not.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

import mvrc
from benchmarks import paths
from benchmarks.report import machine

FOLDER = paths.ROOT.parent / "shared" / "data" / "nist"
RESULTS, PAGE = paths.RESULTS / "nist.json", paths.DOCS / "auto.md"
MARK = "<!-- nist -->"
ABOVE = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-3}


def _rational(b: Any, x: Any, above: int) -> Any:
    top = sum(b[i] * x**i for i in range(above))
    return top / (1 + sum(b[above + i] * x ** (i + 1) for i in range(len(b) - above)))


def _gauss(b: Any, x: Any) -> Any:
    bells = (b[i] * jnp.exp(-((x - b[i + 1]) ** 2) / b[i + 2] ** 2) for i in (2, 5))
    return b[0] * jnp.exp(-b[1] * x) + sum(bells)


def _lanczos(b: Any, x: Any) -> Any:
    return sum(b[i] * jnp.exp(-b[i + 1] * x) for i in (0, 2, 4))


def _enso(b: Any, x: Any) -> Any:
    turn = 2 * np.pi * x
    waves = ((1, 2, 12.0), (4, 5, b[3]), (7, 8, b[6]))
    return b[0] + sum(b[i] * jnp.cos(turn / t) + b[j] * jnp.sin(turn / t) for i, j, t in waves)


MODELS: dict[str, Callable[[Any, Any], Any]] = {
    "Bennett5": lambda b, x: b[0] * (b[1] + x) ** (-1 / b[2]),
    "BoxBOD": lambda b, x: b[0] * (1 - jnp.exp(-b[1] * x)),
    "Chwirut1": lambda b, x: jnp.exp(-b[0] * x) / (b[1] + b[2] * x),
    "Chwirut2": lambda b, x: jnp.exp(-b[0] * x) / (b[1] + b[2] * x),
    "DanWood": lambda b, x: b[0] * x ** b[1],
    "ENSO": _enso,
    "Eckerle4": lambda b, x: b[0] / b[1] * jnp.exp(-0.5 * ((x - b[2]) / b[1]) ** 2),
    "Gauss1": _gauss,
    "Gauss2": _gauss,
    "Gauss3": _gauss,
    "Hahn1": lambda b, x: _rational(b, x, 4),
    "Kirby2": lambda b, x: _rational(b, x, 3),
    "Lanczos1": _lanczos,
    "Lanczos2": _lanczos,
    "Lanczos3": _lanczos,
    "MGH09": lambda b, x: b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3]),
    "MGH10": lambda b, x: b[0] * jnp.exp(b[1] / (x + b[2])),
    "MGH17": lambda b, x: b[0] + b[1] * jnp.exp(-x * b[3]) + b[2] * jnp.exp(-x * b[4]),
    "Misra1a": lambda b, x: b[0] * (1 - jnp.exp(-b[1] * x)),
    "Misra1b": lambda b, x: b[0] * (1 - (1 + b[1] * x / 2) ** -2),
    "Misra1c": lambda b, x: b[0] * (1 - (1 + 2 * b[1] * x) ** -0.5),
    "Misra1d": lambda b, x: b[0] * b[1] * x / (1 + b[1] * x),
    "Nelson": lambda b, x: b[0] - b[1] * x[0] * jnp.exp(-b[2] * x[1]),
    "Rat42": lambda b, x: b[0] / (1 + jnp.exp(b[1] - b[2] * x)),
    "Rat43": lambda b, x: b[0] / (1 + jnp.exp(b[1] - b[2] * x)) ** (1 / b[3]),
    "Roszman1": lambda b, x: b[0] - b[1] * x - jnp.arctan(b[2] / (x - b[3])) / np.pi,
    "Thurber": lambda b, x: _rational(b, x, 4),
}


@dataclasses.dataclass(frozen=True)
class Regression:
    """One file of the collection."""

    name: str
    y: np.ndarray
    x: np.ndarray
    starts: tuple[np.ndarray, np.ndarray]
    certified: np.ndarray

    def residual(self, b: Any, y: Any, x: Any) -> Any:
        return MODELS[self.name](b, x) - y

    def problem(self, dtype: Any = np.float64, scale: np.ndarray | None = None) -> mvrc.Composition:
        """The mean squared residual, of parameters b = scale·unknowns."""
        factors = np.ones(len(self.certified)) if scale is None else scale
        factors = factors.astype(dtype)

        def inner(b: Any, row: Any) -> Any:
            return (self.residual(b * factors, row["y"], row["x"]) ** 2)[None]

        data = {"y": self.y.astype(dtype), "x": self.x.astype(dtype)}
        return mvrc.Composition(inner, lambda y: y[0], data)

    def objective(self, b: Any) -> float:
        """The mean squared residual, in float64."""
        with jax.enable_x64(True):
            rows = jnp.asarray(self.x).T if self.x.ndim == 2 else jnp.asarray(self.x)
            return float(jnp.mean(self.residual(jnp.asarray(b, float), self.y, rows) ** 2))

    def right(self, b: Any, dtype: Any = np.float64) -> bool:
        dtype = np.dtype(dtype)
        rounding = 100 * float(np.finfo(dtype).eps) ** 2 * float(np.mean(self.y**2))
        return self.objective(b) <= (1 + ABOVE[dtype]) * self.objective(self.certified) + rounding


def load(name: str, folder: Path = FOLDER) -> Regression:
    """A file of the collection."""
    text = (folder / f"{name}.dat").read_text().splitlines()
    first = max(i for i, line in enumerate(text) if line.startswith("Data:"))
    rows = np.array(
        [[float(v) for v in line.split()] for line in text[first + 1 :] if line.strip()]
    )
    values = []
    for line in text:
        if found := re.match(r"\s*b\d+ =\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)", line):
            values.append([float(v) for v in found.groups()])
    table = np.array(values)
    y, x = rows[:, 0], rows[:, 1] if rows.shape[1] == 2 else rows[:, 1:]
    y = np.log(y) if name == "Nelson" else y
    return Regression(name, y, x, (table[:, 0], table[:, 1]), table[:, 2])


def available() -> bool:
    return FOLDER.is_dir()


def table(
    dtype: Any = np.float64, others: bool = True, scaled: bool = False
) -> list[dict[str, Any]]:
    """All 54 runs: `Auto`, and SciPy's Levenberg–Marquardt and L-BFGS-B beside it."""
    rng = np.random.default_rng(0)
    rows = []
    for name in MODELS:
        case = load(name)
        for number, start in enumerate(case.starts, start=1):
            scale = 10 ** rng.uniform(-6, 6, len(start)) if scaled else np.ones(len(start))
            row: dict[str, Any] = {
                "name": name,
                "start": number,
                "auto": _auto(case, start, dtype, scale),
            }
            if others:
                row |= {"lm": _lm(case, start), "l-bfgs": _lbfgs(case, start)}
            rows.append(row)
    return rows


def _auto(case: Regression, start: np.ndarray, dtype: Any, scale: np.ndarray) -> dict[str, Any]:
    result = mvrc.minimize(case.problem(dtype, scale), (start / scale).astype(dtype))
    right = case.right(np.asarray(result.x, float) * scale, dtype)
    said = result.status is mvrc.Status.CONVERGED
    return {
        "right": right, "false": said and not right, "status": result.status.name,
        "passes": result.counts.inner_values / len(case.y),
    }  # fmt: skip


def _functions(case: Regression) -> tuple[Any, Any]:
    with jax.enable_x64(True):
        rows = jnp.asarray(case.x).T if case.x.ndim == 2 else jnp.asarray(case.x)
        each = jax.jit(lambda b: case.residual(b, case.y, rows))
        slopes = jax.jit(jax.jacfwd(lambda b: case.residual(b, case.y, rows)))
        return each, slopes


def _lm(case: Regression, start: np.ndarray) -> dict[str, Any]:
    each, slopes = _functions(case)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        try:
            ended = scipy.optimize.least_squares(
                lambda b: np.asarray(each(b)), start, lambda b: np.asarray(slopes(b)), method="lm"
            )
        except ValueError:  # residuals that are not finite
            return {"right": False, "passes": None}
    return {"right": case.right(ended.x), "passes": ended.nfev}


def _lbfgs(case: Regression, start: np.ndarray) -> dict[str, Any]:
    with jax.enable_x64(True), np.errstate(all="ignore"):
        each, _ = _functions(case)
        both = jax.jit(jax.value_and_grad(lambda b: jnp.mean(each(b) ** 2)))
        ended = scipy.optimize.minimize(
            lambda b: tuple(np.asarray(a, float) for a in both(b)), start, jac=True,
            method="L-BFGS-B", options={"maxiter": 10_000, "maxfun": 10_000, "ftol": 0, "gtol": 0},
        )  # fmt: skip
    return {"right": case.right(ended.x), "passes": ended.nfev}


def main() -> None:
    """`python -m benchmarks.nist`: writes results/nist.json and the table of docs/auto.md."""
    start = time.perf_counter()
    found = {
        "float64": table(), "other units": table(others=False, scaled=True),
        "float32": table(np.float32, others=False),
    }  # fmt: skip
    facts = machine.facts() | {"minutes": (time.perf_counter() - start) / 60}
    RESULTS.write_text(json.dumps({"machine": facts, "runs": found}, indent=1) + "\n")
    text = PAGE.read_text()
    before, after = text.split(MARK)[0], text.split(MARK)[-1]
    PAGE.write_text(before + MARK + "\n" + markdown(found) + "\n" + MARK + after)
    print(markdown(found))


def markdown(found: dict[str, list[dict[str, Any]]]) -> str:
    """The outcome, a row for each solver."""
    rows = [
        "| solver | right | false `CONVERGED` | passes, median of those right |",
        "|---|---|---|---|",
    ]

    def line(name: str, runs: list[dict[str, Any]]) -> str:
        good = [run["passes"] for run in runs if run["right"]]
        wrong = sum(run.get("false", False) for run in runs)
        said = str(wrong) if "false" in runs[0] else "–"
        return f"| {name} | {len(good)} of {len(runs)} | {said} | {np.median(good):.1f} |"

    wide = found["float64"]
    rows.append(line("`Auto`", [row["auto"] for row in wide]))
    rows.append(
        line(
            "`Auto`, every unknown in a random unit, 10^±6",
            [row["auto"] for row in found["other units"]],
        )
    )
    rows.append(line("`Auto`, float32", [row["auto"] for row in found["float32"]]))
    rows.append(line('SciPy, `least_squares(method="lm")`', [row["lm"] for row in wide]))
    rows.append(line("SciPy, L-BFGS-B on the mean", [row["l-bfgs"] for row in wide]))
    return "\n".join(["", *rows, ""])


if __name__ == "__main__":
    main()
