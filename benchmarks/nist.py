"""The nonlinear regressions of NIST with certified values: 27 problems, two starts each.

Problem: g = squared residual of an observation, f = identity; the certified parameters minimise it.
An answer is right when its objective, in float64, is at most 1e-6 above that of the certified
parameters (float32: 1e-3), and false when a run says CONVERGED of one that is not.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mvrc

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "nist"
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
