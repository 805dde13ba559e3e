"""Linear constraints, alone and together with bounds, absolute values and the simplex."""

from __future__ import annotations

import functools
import operator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from mvrc.regularizers.base import Regularizer, flat_numpy, number, spread
from mvrc.regularizers.constraints import ROUNDINGS, NonNegative, Simplex
from mvrc.regularizers.penalties import L1
from mvrc.regularizers.pieces import Pieces, on_one_row, on_rows, pieces
from mvrc.support import checks
from mvrc.support.numerics import namespace


@checks.explain_init
class LinearConstraint(Regularizer):
    """C = {x : lower ≤ Ax ≤ upper}; the prox is the projection, exact up to rounding.

    With `+` also within a `Box`, `NonNegative` or `Simplex`, and with `L1`: budgets, limits of
    groups, a least return.

    Args:
        matrix: A: m × d; d numbers for one row; or one number, which stands for a row of it.
        lower, upper: a number, or one for each row; ±inf where there is no bound.

    Examples:
        >>> r = mvrc.LinearConstraint([1.0, 1.0, 0.0], upper=1.0)  # x₁ + x₂ ≤ 1
        >>> r.prox(np.array([1.0, 1.0, 5.0]), 1.0).round(3)
        Array([0.5, 0.5, 5. ], dtype=float32)
    """

    matrix: ArrayLike = eqx.field(converter=number)
    lower: ArrayLike = eqx.field(converter=number, default=-np.inf)
    upper: ArrayLike = eqx.field(converter=number, default=np.inf)

    def __check_init__(self) -> None:
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self)):
            return  # not known yet
        try:
            matrix, lower, upper = (
                np.asarray(part, float) for part in (self.matrix, self.lower, self.upper)
            )
        except (TypeError, ValueError):  # no numbers, or ragged
            matrix = np.asarray(np.nan)
        if matrix.ndim > 2 or not matrix.size or not np.all(np.isfinite(matrix)):
            raise ValueError(
                f"matrix of LinearConstraint must be a finite number, d numbers or an m × d matrix "
                f"(dense), not {checks.shown(self.matrix)}."
            )
        if any(
            part.ndim > 1 or part.size not in (1, self.count) or np.isnan(part).any()
            for part in (lower, upper)
        ) or np.any((lower > upper) | (lower == np.inf) | (upper == -np.inf)):
            raise ValueError(
                f"lower and upper of LinearConstraint must be numbers, or one for each of the "
                f"{self.count} rows, with lower <= upper and no NaN, not "
                f"{checks.shown(self.lower)} and {checks.shown(self.upper)}."
            )

    @property
    def count(self) -> int:
        """m."""
        return np.shape(self.matrix)[0] if np.ndim(self.matrix) == 2 else 1

    def check(self, x: Any) -> None:
        size, columns = _size(x), np.shape(self.matrix)[-1:] or (1,)
        if columns[0] not in (1, size):
            raise ValueError(
                f"matrix of LinearConstraint has {columns[0]} columns and x has {size} coordinates."
            )
        Within((self,)).check_feasible(x)

    def value(self, x: Any) -> Any:
        vector = _ravel(x)
        xp = namespace(vector)
        rows, below, above = self.rows(xp, vector)
        y = rows @ vector
        gap = xp.maximum(xp.maximum(below - y, y - above), 0)
        allowed = ROUNDINGS * xp.finfo(vector.dtype).eps * (abs(rows) @ abs(vector))
        return xp.where(xp.all(gap <= allowed), 0.0, xp.inf).astype(vector.dtype)

    def prox(self, x: Any, step: Any) -> Any:
        return Within((self,)).prox(x, step)

    def prox_derivative(self, image: Any) -> np.ndarray | None:
        return Within((self,)).prox_derivative(image)

    def rows(self, xp: Any, like: Any) -> tuple[Any, Any, Any]:
        """A, lower and upper as arrays of the size and dtype of a vector."""
        matrix = xp.asarray(self.matrix, like.dtype)
        matrix = xp.broadcast_to(matrix, (self.count, like.size))
        ends = (xp.asarray(end, like.dtype).reshape(-1) for end in (self.lower, self.upper))
        return matrix, *(xp.broadcast_to(end, (self.count,)) for end in ends)


class Within(Regularizer):
    """r = Σₖ rₖ of `L1`, `Box`, `NonNegative`, `Simplex` and `LinearConstraint`, made by `+`.

    All but rows of A are separable with a piecewise linear prox. The prox of the sum is exact: a
    root in one multiplier for one row, Newton's method on the multipliers for several
    (`regularizers/pieces.py`).
    """

    terms: tuple[Regularizer, ...]

    def check(self, x: Any) -> None:
        for term in self.terms:
            term.check(x)
        self.check_feasible(x)

    def check_feasible(self, x: Any) -> None:
        """A sentence where no x meets all of them."""
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self)):
            return
        vector = _ravel(jax.tree.map(lambda leaf: np.zeros(np.shape(leaf)), x))
        h, rows, below, above = self._parts(np, x, vector)
        if np.any(h.low > h.high):
            i = int(np.argmax(h.low > h.high))
            raise ValueError(
                f"No x meets {_names(self.terms)} together: coordinate {i} would have to be at "
                f"least {h.low[i]:g} and at most {h.high[i]:g}."
            )
        if len(rows):
            _refuse_infeasible(self.terms, h, rows, below, above)

    def value(self, x: Any) -> Any:
        return functools.reduce(operator.add, (term.value(x) for term in self.terms))

    def prox(self, x: Any, step: Any) -> Any:
        if not self._count() and isinstance(x, np.ndarray):
            steps = np.asarray(step, x.dtype)
            h = self._parts(np, x, x.ravel())[0]
            return h.prox(x.ravel(), steps.ravel() if steps.ndim else steps).reshape(x.shape)
        vector, unravel = _flat(x)
        leaves = jax.tree.leaves(step)
        s = jnp.asarray(leaves[0] if len(leaves) == 1 else ravel_pytree(step)[0], vector.dtype)
        s = s.ravel() if s.ndim else s
        h, rows, below, above = self._parts(jnp, x, vector)
        if not len(rows):
            return unravel(h.prox(vector, s))
        if len(rows) == 1:
            return unravel(on_one_row(h, vector, s, rows[0], below[0], above[0]))
        return unravel(on_rows(h, vector, s, rows, below, above))

    def prox_derivative(self, image: Any) -> np.ndarray | None:
        """E − EAᵀ(AEAᵀ)⁺AE, E the coordinates that move and A the rows at a bound."""
        x = flat_numpy(image)
        h, rows, below, above = self._parts(np, image, x)
        free = h.free(x).astype(float)
        if not len(rows):
            return np.diag(free)
        y, size = rows @ x, abs(rows) @ abs(x)
        near = ROUNDINGS * np.finfo(x.dtype).eps * size
        active = rows[(abs(y - below) <= near) | (abs(y - above) <= near)] * free
        return np.diag(free) - active.T @ np.linalg.pinv(active.T)

    def groups(self, x: Any) -> np.ndarray:
        return super().groups(x) if self._count() else np.arange(_size(x))

    @property
    def numpy(self) -> bool:
        return not self._count()

    def _count(self) -> int:
        return sum(
            1 if isinstance(term, Simplex) else term.count
            for term in self.terms
            if isinstance(term, Simplex | LinearConstraint)
        )

    def _parts(self, xp: Any, x: Any, like: Any) -> tuple[Pieces, Any, Any, Any]:
        low, high = xp.full_like(like, -np.inf), xp.full_like(like, np.inf)
        kinks, rows = [], []
        for term in self.terms:
            if isinstance(term, L1):
                centre = 0.0 if term.center is None else term.center
                kinks.append((_spread(xp, term.weight, x, like), _spread(xp, centre, x, like)))
            elif isinstance(term, LinearConstraint):
                rows.append(term.rows(xp, like))
            else:
                lower, upper = _bounds(term)
                low = xp.maximum(low, _spread(xp, lower, x, like))
                high = xp.minimum(high, _spread(xp, upper, x, like))
            if isinstance(term, Simplex):
                rows.append(LinearConstraint(1.0, term.radius, term.radius).rows(xp, like))
        if not rows:
            return pieces(kinks, low, high), rows, (), ()
        matrix, below, above = (xp.concatenate(part) for part in zip(*rows, strict=True))
        return pieces(kinks, low, high), matrix, below, above


def _bounds(term: Any) -> tuple[Any, Any]:
    if isinstance(term, NonNegative):
        return 0.0, np.inf
    if isinstance(term, Simplex):
        return 0.0, np.inf if term.upper is None else term.upper
    return term.lower, term.upper


def _spread(xp: Any, given: Any, x: Any, like: Any) -> Any:
    """A number, array or tree as a vector with a number for each coordinate of x."""
    if jax.tree_util.all_leaves([x]):
        values = xp.broadcast_to(xp.asarray(given, like.dtype), np.shape(x))
        return values.reshape(-1)
    trees = zip(jax.tree.leaves(spread(given, x)), jax.tree.leaves(x), strict=True)
    arrays = [xp.broadcast_to(xp.asarray(a, like.dtype), np.shape(leaf)) for a, leaf in trees]
    return xp.concatenate([array.reshape(-1) for array in arrays])


def _flat(x: Any) -> tuple[Any, Any]:
    """x as a vector in JAX, and the way back."""
    if not isinstance(x, np.ndarray):
        return ravel_pytree(x)
    return jnp.asarray(x).ravel(), lambda vector: vector.reshape(x.shape)


def _ravel(x: Any) -> Any:
    return x.ravel() if isinstance(x, np.ndarray) else ravel_pytree(x)[0]


def _size(x: Any) -> int:
    return sum(np.size(leaf) for leaf in jax.tree.leaves(x))


def _names(terms: tuple[Regularizer, ...]) -> str:
    return " + ".join(type(term).__name__ for term in terms)


def _refuse_infeasible(terms: Any, h: Pieces, rows: Any, below: Any, above: Any) -> None:
    """By a linear program; a row that the bounds alone forbid is named."""
    for i, row in enumerate(rows):
        used = row != 0
        at_least, at_most = np.where(row > 0, h.low, h.high), np.where(row > 0, h.high, h.low)
        least, most = (float(row[used] @ end[used]) for end in (at_least, at_most))
        slack = 1e-9 * max(1.0, abs(least), abs(most))  # 49 · (1/49) rounds to less than 1
        if least > above[i] + slack or most < below[i] - slack:
            raise ValueError(
                f"No x meets {_names(terms)} together: row {i} of the constraints must lie in "
                f"[{below[i]:g}, {above[i]:g}], and within the bounds of x it lies in "
                f"[{least:g}, {most:g}]."
            )
    from scipy.optimize import linprog

    up, down = np.isfinite(above), np.isfinite(below)
    found = linprog(
        np.zeros(rows.shape[1]),
        A_ub=np.concatenate([rows[up], -rows[down]]),
        b_ub=np.concatenate([above[up], -below[down]]),
        bounds=np.stack([h.low, h.high], axis=1),
    )
    if found.status == 2:
        raise ValueError(
            f"No x meets all {len(rows)} rows of {_names(terms)} together, though it meets each "
            f"alone; widen lower or upper of one of them."
        )
