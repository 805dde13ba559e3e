"""r on the host: value, prox with a step for each coordinate, its derivative; flat, in NumPy."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from typing import Any

import jax
import numpy as np

from mvrc.oracle import Layout
from mvrc.regularizers import Composed, Regularizer, Zero
from mvrc.support import cache
from mvrc.support.partition import Static, combine, partition


class Penalty:
    """A flat view of r. Numbers are float64 outside and of x's dtype inside.

    Coordinates that r couples share one number of a metric; where it couples none, D is free.

    Args:
        regularizer: r.
        layout: of x.
    """

    def __init__(self, regularizer: Regularizer, layout: Layout) -> None:
        self.zero = isinstance(regularizer, Zero)
        self.regularizer, self.layout = regularizer, layout
        self.calls = 0  # of the prox
        self._found: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # w, prox, derivative
        zeros = layout.unflatten(np.zeros(layout.size, layout.dtype))
        self._labels = np.asarray(regularizer.groups(zeros))
        self.separable = len(np.unique(self._labels)) == layout.size
        self._numbers, self._static = partition(regularizer, layout.dtype)
        # A numeric prox is some roundings away from its minimum, and r notices: in float64.
        self._layout, self._wide = layout, isinstance(regularizer, Composed)
        if self._wide:
            wide = np.dtype(np.float64)
            self._layout = dataclasses.replace(
                layout, dtypes=(wide,) * len(layout.dtypes), dtype=wide
            )
        self._native = self.zero or regularizer.numpy
        self._plain = isinstance(zeros, np.ndarray) and zeros.ndim == 1
        ends = np.cumsum([0, *(math.prod(shape) for shape in layout.shapes)])
        self._slices = [slice(a, b) for a, b in itertools.pairwise(ends)]

    def value(self, x: np.ndarray) -> float:
        """r(x)."""
        if self.zero:
            return 0.0
        x = x.astype(self.layout.dtype)
        if self._native:
            return float(type(self.regularizer).value(self.regularizer, self._tree(x)))
        return float(_value(self._static, self.layout)(self._numbers, x))

    def prox(self, w: np.ndarray, step: np.ndarray) -> np.ndarray:
        """argmin_u r(u) + Σᵢ (uᵢ − wᵢ)²/(2 stepᵢ), the steps equal where r couples coordinates."""
        self.calls += 1
        if self.zero:
            return w
        dtype = self._layout.dtype
        w, step = w.astype(dtype), step.astype(dtype)
        if self._native:
            steps = self._tree(step)
            # By the class: to bind a method, equinox takes the module apart and together again.
            tree = type(self.regularizer).prox(self.regularizer, self._tree(w), steps)
            if isinstance(tree, np.ndarray):
                return tree.ravel().astype(np.float64)
            leaves = [np.ravel(leaf) for leaf in jax.tree_util.tree_leaves(tree)]
            return np.concatenate(leaves).astype(np.float64)
        with jax.enable_x64(True) if self._wide else contextlib.nullcontext():
            found = _prox(self._static, self._layout)(self._numbers, w, step)
        return np.asarray(found).astype(np.float64)

    def _tree(self, vector: np.ndarray) -> Any:
        """As `Layout.unflatten`, faster."""
        if self._plain:
            return vector
        pairs = zip(self._slices, self.layout.shapes, strict=True)
        leaves = [vector[part].reshape(shape) for part, shape in pairs]
        return jax.tree_util.tree_unflatten(self.layout.treedef, leaves)

    def derivative(self, w: np.ndarray, step: np.ndarray, anew: bool = False) -> np.ndarray:
        """The derivative of the prox at w: r's own, or by differences, as it is piecewise linear or
        nearly so.

        A vector, its diagonal, where r couples no coordinates; else a d × d matrix: the last one
        where that tells the prox at w from where it was taken, unless it is wanted `anew`.
        """
        here = self.prox(w, step)
        if not self.separable:
            known = self.regularizer.prox_derivative(self._tree(here))
            if known is not None:
                return known
        if not anew and self._tells(w, here):
            assert self._found is not None
            return self._found[2]
        nudge = np.sqrt(np.finfo(self.layout.dtype).eps) * np.maximum(np.abs(w), np.abs(here))
        nudge = np.where(nudge > 0, nudge, np.sqrt(np.finfo(self.layout.dtype).eps))
        moved = (w + nudge).astype(self.layout.dtype).astype(np.float64)
        nudge = moved - w
        if self.separable:
            return (self.prox(moved, step) - here) / nudge
        columns = []
        for i in range(len(w)):
            there = w.copy()
            there[i] = moved[i]
            columns.append((self.prox(there, step) - here) / nudge[i])
        self._found = w, here, np.stack(columns, axis=1)
        return self._found[2]

    def _tells(self, w: np.ndarray, here: np.ndarray) -> bool:
        """Whether the last derivative leads to this prox, with the same zeros, but for rounding."""
        if self._found is None:
            return False
        before, there, slope = self._found
        if not np.array_equal(here == 0, there == 0):
            return False
        eps, moved = np.finfo(self.layout.dtype).eps, np.abs(w - before).max()
        away = np.abs(here - there - slope @ (w - before)).max()
        return bool(away <= 8 * eps**0.5 * moved + 8 * eps * np.abs(here).max())

    def common(self, squares: np.ndarray) -> np.ndarray:
        """D² with the largest number of each group of coordinates that r couples."""
        if self.separable:
            return squares
        largest = np.zeros(int(self._labels.max()) + 1)
        np.maximum.at(largest, self._labels, squares)
        return largest[self._labels]


@cache.program
def _value(static: Static, layout: Layout) -> Any:
    return lambda numbers, x: combine(numbers, static).value(layout.unflatten(x))


@cache.program
def _prox(static: Static, layout: Layout) -> Any:
    def run(numbers: Any, w: Any, step: Any) -> Any:
        regularizer = combine(numbers, static)
        return layout.flatten(regularizer.prox(layout.unflatten(w), layout.unflatten(step)))

    return run
