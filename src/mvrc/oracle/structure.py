"""Structure: what is known of g' without numbers, and how few passes give the whole matrix.

Read off the traced derivative of g, entry by entry: which entries of g' can be other than 0, and
which rows depend on x. Rows without a common column come out of one backward pass (columns without
a common row out of one forward pass), and a row that does not depend on x is gone from every
difference g'(new) − g'(old).
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.oracle.dependence import Dependence, TooLargeError, dependence
from mvrc.oracle.layout import Layout
from mvrc.support import cache
from mvrc.support.partition import Static, combine

# Fewer rows than this are not worth a look at the pattern: each is a pass of its own.
SPARSE_ROWS = 5

# Of a larger matrix, or in more groups, no groups are looked for.
_ENTRIES = 2**24
_GROUPS = 128


@dataclasses.dataclass(frozen=True)
class Structure:
    """How the p × d matrix g' is evaluated and kept; hashable, static.

    It is kept as `rows` × d numbers: all p rows, or where some share a backward pass, what each
    pass gives. `owners` says which row of g' such a number belongs to (p: to none, it is 0).
    """

    p: int
    d: int
    depends_on_x: tuple[bool, ...]  # which kept rows depend on x
    owners: tuple[tuple[int, ...], ...] | None = None  # rows × d; None: kept as it is
    columns: tuple[int, ...] | None = None  # the forward pass of each column; None: backward passes
    empty: bytes = b""  # of forward passes shared by columns: entries that are 0, as bits
    written: bool = False  # by the user's own Jacobian, at once

    @property
    def rows(self) -> int:
        """Rows that are kept."""
        return len(self.depends_on_x)

    @property
    def entries(self) -> int:
        """Numbers that are kept."""
        return self.rows * self.d

    @property
    def passes(self) -> int:
        """Passes through g that give the matrix at one point."""
        if self.written:
            return 1
        return self.rows if self.columns is None else 1 + max(self.columns)

    def seeds(self) -> np.ndarray:
        """What the passes start from, one row each: sums of unit vectors."""
        if self.columns is not None:
            groups = np.array(self.columns)
            return groups == np.arange(self.passes)[:, None]
        if self.owners is None:
            return np.eye(self.p, dtype=bool)
        seeds = np.zeros((self.rows, self.p + 1), bool)
        np.put_along_axis(seeds, np.array(self.owners), True, axis=1)
        return seeds[:, : self.p]

    def from_columns(self, pushed: Any) -> Any:
        """The matrix from its forward passes, `passes` × p."""
        assert self.columns is not None
        if self.passes == self.d:
            return pushed.T
        empty = np.unpackbits(np.frombuffer(self.empty, np.uint8), count=self.p * self.d)
        matrix = pushed.T[:, np.array(self.columns)]
        return jnp.where(empty.reshape(self.p, self.d).astype(bool), 0, matrix)

    def pull(self, kept: Any, u: Any) -> Any:
        """g'ᵀu from what is kept of g'."""
        if self.owners is None:
            return u @ kept
        return jnp.sum(kept * jnp.pad(u, (0, 1))[np.array(self.owners)], axis=0)

    def expand(self, kept: Any) -> Any:
        """g' as a p × d matrix."""
        if self.owners is None:
            return kept
        matrix = jnp.zeros((self.p + 1, self.d), kept.dtype)
        return matrix.at[np.array(self.owners), np.arange(self.d)].set(kept)[: self.p]

    def compress(self, matrix: Any) -> Any:
        """What is kept of a p × d matrix with this structure."""
        if self.owners is None:
            return matrix
        return jnp.pad(matrix, ((0, 1), (0, 0)))[np.array(self.owners), np.arange(self.d)]


def dense(p: int, d: int, written: bool = False) -> Structure:
    """The structure of a matrix of which nothing is known."""
    backward = written or p <= d
    return Structure(p, d, (True,) * p, None, None if backward else tuple(range(d)), b"", written)


@cache.remember
def structure(
    static: Static, numbers: tuple[Any, ...], x: Layout, y: Layout, sample: Any, wide: bool
) -> Structure:
    """The structure of g' for g = combine(numbers, static), told by shapes alone.

    `numbers` and `sample` are (treedef and) shapes: a pattern read off numbers would be that of
    these numbers. `wide`, 64-bit mode, is here for the cache.
    """
    specs = [jax.ShapeDtypeStruct(*spec) for spec in numbers]
    treedef, leaves = sample
    one = jax.tree_util.tree_unflatten(treedef, [jax.ShapeDtypeStruct(*leaf) for leaf in leaves])
    point = jax.ShapeDtypeStruct((x.size,), x.dtype)

    def tangent(point: Any, along: Any, numbers: Any, sample: Any) -> Any:
        inner = combine(numbers, static)
        flat = lambda x_: y.flatten(inner(x.unflatten(x_), sample))  # noqa: E731
        return jax.jvp(flat, (point,), (along,))[1]

    p, d = y.size, x.size
    try:
        closed = jax.make_jaxpr(tangent)(point, point, specs, one)
    except (TypeError, NotImplementedError):  # no forward mode, as behind a custom_vjp
        return Structure(p, d, (True,) * p)
    for tangents in (True, False):
        if tangents and (p < SPARSE_ROWS or d == 1 or p * d > _ENTRIES):
            continue
        with contextlib.suppress(TooLargeError):
            return _choose(p, d, dependence(closed, tangents))
    return dense(p, d)


def _choose(p: int, d: int, found: Dependence) -> Structure:
    """The structure with the fewest passes."""
    moving = tuple(bool(m) for m in found.moving)
    if found.backward_only:
        return Structure(p, d, (True,) * p)
    groups = columns = None
    if found.pattern is not None:
        # Rows that depend on x and rows that do not, apart: the latter are left out of differences.
        first = _grouped(found.pattern, np.flatnonzero(found.moving))
        second = _grouped(found.pattern, np.flatnonzero(~found.moving))
        if first is not None and second is not None:
            groups = first + second
        columns = _grouped(found.pattern.T, np.arange(d))
    backward = p if groups is None else len(groups)
    forward = d if columns is None else len(columns)
    if forward < backward:
        if columns is None or forward == d:
            return Structure(p, d, moving, None, tuple(range(d)))
        place = np.empty(d, int)
        for number, members in enumerate(columns):
            place[members] = number
        assert found.pattern is not None
        empty = np.packbits(~found.pattern).tobytes()
        return Structure(p, d, moving, None, tuple(place.tolist()), empty)
    if groups is None or backward == p:
        return Structure(p, d, moving)
    assert found.pattern is not None
    owners = np.full((backward, d), p)
    for number, members in enumerate(groups):
        for row in members:
            owners[number, found.pattern[row]] = row
    moves = tuple(any(moving[row] for row in members) for members in groups)
    return Structure(p, d, moves, tuple(map(tuple, owners.tolist())))


def _grouped(pattern: np.ndarray, rows: np.ndarray) -> list[list[int]] | None:
    """The rows in groups without a common column, greedily, the fullest first; None: too many."""
    groups: list[list[int]] = []
    taken: list[int] = []  # columns of each group, as bits
    full = pattern[rows].sum(axis=1)
    bits = np.packbits(pattern, axis=1)
    for row in rows[np.argsort(-full, kind="stable")]:
        own = int.from_bytes(bits[row].tobytes(), "big")
        place = next((i for i, other in enumerate(taken) if not own & other), len(groups))
        if place == len(groups):
            if place == _GROUPS:
                return None
            groups.append([])
            taken.append(0)
        groups[place].append(int(row))
        taken[place] |= own
    return groups


def specs(tree: Any) -> tuple[tuple[tuple[int, ...], Any], ...]:
    """Shapes and dtypes of the leaves; hashable."""
    leaves = jax.tree_util.tree_leaves(tree)
    return tuple((tuple(np.shape(leaf)), leaf.dtype) for leaf in leaves)
