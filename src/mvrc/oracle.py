"""The oracle: batch means of g, g', ∇f at flat points, counted where they are evaluated.

`Geometry` knows shapes, `Oracle` evaluates. Everything here runs inside a compiled function; the
counts are Python integers that are known once the function is traced.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mvrc.layout import Layout
from mvrc.operators import Composed
from mvrc.sampling import Rows, Samples, row_bytes
from mvrc.sharing import shared, two_points
from mvrc.structure import Structure

if TYPE_CHECKING:
    from mvrc.problem import Composition

Vector = Float[Array, "..."]
Pullback = Callable[[Vector], Vector]
Pullbacks = Callable[[Vector, Vector], Vector]

# A batch of more than about this many numbers (32 MiB in float64) is summed in pieces of about a
# sixteenth of that. Those of rows in order have at most 256 kB of data: they fit the cache, and are
# copied there by one thread, as XLA splits larger copies, whose parts then wait for each other.
_CHUNK = 2**22
_PIECES = 16
_PIECE = 2**18

_FEW = 4  # a y so short that all rows of the Jacobian cost less than a second pass


class Counts(NamedTuple):
    """What has been evaluated: one sample at one point is one evaluation."""

    inner_values: Any = 0
    inner_jacobians: Any = 0
    outer_gradients: Any = 0
    prox: Any = 0


def add_counts(*counts: Counts) -> Counts:
    """The sum, field by field."""
    return Counts(*(sum(column) for column in zip(Counts(), *counts, strict=True)))


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Layouts of x and y, the elements of one sample, the structure of g'; hashable, static."""

    x: Layout
    y: Layout
    inner_sample: int
    outer_sample: int
    jacobian: Structure  # of g'
    lanes: int = 1  # runs side by side, each with a state of its own

    def inner_rows(self, matrix: bool) -> int:
        """Rows of an inner chunk."""
        passes = self.jacobian.passes if matrix else 1
        # A pass a row of a large Jacobian: twice as fast where the pieces fit the cache.
        chunk = _CHUNK // 32 if passes > 64 else _CHUNK
        return max(1, chunk // (self.inner_sample + self.x.size + self.y.size * (1 + passes)))

    def outer_rows(self) -> int:
        """Rows of an outer chunk."""
        return max(1, _CHUNK // (self.outer_sample + 2 * self.y.size))


class Oracle:
    """Evaluations of one problem on named batches, with their count.

    A Jacobian is what `Geometry.jacobian` keeps of the p × d matrix; `pull` multiplies by it.

    Args:
        problem: the composition.
        geometry: layouts of its x and y.
        batches: the independent draws by name: "values" (A), "jacobians" (A'), "outer" (B).
    """

    def __init__(
        self, problem: Composition, geometry: Geometry, batches: Mapping[str, Samples | None]
    ) -> None:
        self.problem = problem
        self.geometry = geometry
        self.two_level = problem.outer_data is not None
        self._batches = batches
        self.counts = Counts()

    def batch(self, role: str) -> Samples | None:
        """The batch of that name; None where none is drawn, as for a single outer function."""
        return self._batches.get(role)

    def values(self, point: Vector, batch: Samples) -> Vector:
        """g_A(point)."""
        self._count(inner_values=batch.size)
        total = _sum(batch, lambda s: self._inner_sum(point, s), self.geometry.inner_rows(False))
        return total / batch.size

    def jacobian(self, point: Vector, batch: Samples) -> Float[Array, "rows d"]:
        """g'_A(point)."""
        self._count(inner_jacobians=batch.size)
        rows = self.geometry.inner_rows(True)
        return _sum(batch, lambda s: self._value_and_jacobian(point, s)[1], rows) / batch.size

    def values_and_jacobian(
        self, point: Vector, batch: Samples, jacobian_batch: Samples | None = None
    ) -> tuple[Vector, Float[Array, "rows d"]]:
        """g_A(point) and g'_A'(point), in one pass when A' is A (or not given)."""
        if jacobian_batch is not None and jacobian_batch is not batch:
            return self.values(point, batch), self.jacobian(point, jacobian_batch)
        self._count(inner_values=batch.size, inner_jacobians=batch.size)
        rows = self.geometry.inner_rows(True)
        value, jacobian = _sum(batch, lambda s: self._value_and_jacobian(point, s), rows)
        return value / batch.size, jacobian / batch.size

    def values_and_pullback(
        self, point: Vector, batch: Samples, jacobian_batch: Samples | None = None
    ) -> tuple[Vector, Pullback]:
        """g_A(point) and the map u ↦ g'_A'(point)ᵀ u, without the p × d matrix.

        A batch is passed through once when A' is A (or not given) and it is small, or y is.
        """
        chosen = batch if jacobian_batch is None else jacobian_batch
        rows = self.geometry.inner_rows(False)
        if chosen is batch and batch.size <= rows and self.problem.inner_jacobian is None:
            self._count(inner_values=batch.size, inner_jacobians=batch.size)
            samples = batch.piece(0, batch.size)
            total, pull = jax.vjp(lambda x: self._inner_sum(x, samples), point)
            return total / batch.size, lambda u: pull(u / batch.size)[0]
        if chosen is batch and self.geometry.y.size <= _FEW:
            value, jacobian = self.values_and_jacobian(point, batch)
            return value, lambda u: self.pull(jacobian, u)
        return self.values(point, batch), lambda u: self.pullback(point, chosen, u)

    def changes(
        self,
        new: Vector,
        old: Vector,
        batch: Samples,
        jacobian_batch: Samples,
        keep: Any = 1,
        keep_jacobian: Any = None,
    ) -> tuple[Vector, Float[Array, "rows d"]]:
        """g_A(new) − keep·g_A(old) and g'_A'(new) − keep·g'_A'(old), in one pass for both points.

        `keep` may be another number for the Jacobian. Rows of g' that do not depend on x are gone
        from the difference without being evaluated; the counts are those of the rule all the same.
        """
        keeps = keep, keep if keep_jacobian is None else keep_jacobian
        self._count(inner_jacobians=2 * jacobian_batch.size)
        rows = self.geometry.inner_rows(True)
        sums = _sum(jacobian_batch, lambda s: self._change(new, old, s, *keeps), rows)
        moved, change = (part / jacobian_batch.size for part in sums)
        if jacobian_batch is not batch:
            return self._value_change(new, old, batch, keep), change
        self._count(inner_values=2 * batch.size)
        return moved, change

    def change_and_pullbacks(
        self, new: Vector, old: Vector, batch: Samples, jacobian_batch: Samples, keep: Any = 1
    ) -> tuple[Vector, Pullbacks]:
        """g_A(new) − keep·g_A(old) and the map u, w ↦ g'_A'(new)ᵀu − g'_A'(old)ᵀw, no matrices.

        A small batch is passed through once for both points.
        """
        size = jacobian_batch.size
        together = None
        if size <= self.geometry.inner_rows(False):
            together = self._together(new, old, jacobian_batch.piece(0, size), keep)
        if together is None:
            first, pull_first = self.values_and_pullback(new, batch, jacobian_batch)
            second, pull_second = self.values_and_pullback(old, batch, jacobian_batch)
            return first - keep * second, lambda u, w: pull_first(u) - pull_second(w)
        moved, pull = together
        self._count(inner_jacobians=2 * size)
        if jacobian_batch is batch:
            self._count(inner_values=2 * size)
            moved = moved / size
        else:
            moved = self._value_change(new, old, batch, keep)
        return moved, lambda u, w: pull(u / size, -w / size)

    def pull(self, jacobian: Float[Array, "rows d"], u: Vector) -> Vector:
        """Jᵀu for what is kept of a Jacobian J."""
        return self.geometry.jacobian.pull(jacobian, u)

    def pullback(self, point: Vector, batch: Samples, cotangent: Vector) -> Vector:
        """g'_A(point)ᵀ cotangent."""
        self._count(inner_jacobians=batch.size)

        def part(samples: Any) -> Vector:
            if self.problem.inner_jacobian is not None:
                each = jax.vmap(self._written_jacobian, (None, 0))(point, samples)
                return jnp.einsum("spd,p->d", each, cotangent)
            return jax.vjp(lambda x: self._inner_sum(x, samples), point)[1](cotangent)[0]

        matrix = self.problem.inner_jacobian is not None
        return _sum(batch, part, self.geometry.inner_rows(matrix)) / batch.size

    def each(self, point: Vector, batch: Samples) -> tuple[Vector, Float[Array, "s rows d"]]:
        """gᵢ(point) and gᵢ'(point) of every sample of a small batch, one row each."""
        self._count(inner_values=batch.size, inner_jacobians=batch.size)
        samples = batch.piece(0, batch.size)
        return jax.vmap(self._one, (None, 0))(point, samples)

    def each_at(self, points: Vector, batch: Samples) -> tuple[Vector, Float[Array, "s rows d"]]:
        """The same with a point of its own for every sample."""
        self._count(inner_values=batch.size, inner_jacobians=batch.size)
        return jax.vmap(self._one)(points, batch.piece(0, batch.size))

    def each_outer(self, y: Vector, batch: Samples) -> Vector:
        """∇fₖ(y) of every sample of an outer batch, one row each."""
        self._count(outer_gradients=batch.size)
        single = jax.tree_util.tree_map(lambda a: a[:, None], batch.piece(0, batch.size))
        return jax.vmap(jax.grad(self._outer_sum), (None, 0))(y, single)

    def everything(self, most: int | None = None) -> tuple[Samples, Samples | None]:
        """Every inner and every outer sample (of a stream: its evaluation batch).

        With `most` a part of each where they are more, see `Source.part`.
        """
        outer = self.problem.outer_source
        inner = self.problem.inner_source.part(most)
        return inner, None if outer is None else outer.part(most)

    def outer_gradient(self, y: Vector, batch: Samples | None) -> Vector:
        """∇f_B(y)."""
        self._count(outer_gradients=1 if batch is None else batch.size)
        if batch is None:
            return jax.grad(self._outer_sum)(y, None)
        part = jax.grad(self._outer_sum)
        return _sum(batch, lambda s: part(y, s), self.geometry.outer_rows()) / batch.size

    def outer_value(self, y: Vector, batch: Samples | None) -> Float[Array, ""]:
        """f_B(y); not counted, as it is only measured."""
        if batch is None:
            return self._outer_sum(y, None)
        rows = self.geometry.outer_rows()
        return _sum(batch, lambda s: self._outer_sum(y, s), rows) / batch.size

    def projected(self, point: Vector, direction: Vector, samples: Any) -> Vector:
        """⟨direction, gᵢ(point)⟩ of each of some samples."""
        each = jax.vmap(self._inner, (None, 0))(point, samples)
        self._count(inner_values=len(each))
        return each @ direction

    def each_value(self, y: Vector, samples: Any) -> Vector:
        """fₖ(y) of each of some outer samples; not counted, as it is only measured."""
        tree = self.geometry.y.unflatten(y)
        return jax.vmap(lambda s: self.problem.outer(tree, s))(samples).astype(y.dtype)

    def penalty(self, point: Vector) -> Float[Array, ""]:
        """r(point)."""
        value = self.problem.regularizer.value(self.geometry.x.unflatten(point))
        return jnp.asarray(value).astype(point.dtype)

    def sizes(self, point: Vector, batch: Samples) -> Vector:
        """The mean of |gᵢ(point)|; not counted, as it is only measured."""

        def part(samples: Any) -> Vector:
            return jnp.sum(jnp.abs(jax.vmap(self._inner, (None, 0))(point, samples)), axis=0)

        return _sum(batch, part, self.geometry.inner_rows(False)) / batch.size

    def outer_size(self, y: Vector, batch: Samples | None) -> Float[Array, ""]:
        """The mean of |fₖ(y)|; not counted, as it is only measured."""
        if batch is None:
            return jnp.abs(self._outer_sum(y, None))
        rows = self.geometry.outer_rows()
        part = lambda s: jnp.sum(jnp.abs(self.each_value(y, s)))  # noqa: E731
        return _sum(batch, part, rows) / batch.size

    def hessian(
        self,
        point: Vector,
        inner: Vector,
        slope: Vector,
        batches: tuple[Samples, Samples | None],
        piece: Callable[[Any], Samples],
        pieces: Any,
    ) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
        """Jᵀ∇²f_B(y)J and the mean of ∇²⟨∇f_B(y), gᵢ⟩, with y = g(point) and ∇f_B(y) as given.

        J is that of the batch, as a valley of f ∘ g lies where J says; the mean is that of the
        first `pieces` pieces, a number that may be traced.
        """
        everything, outer = batches
        jacobian = self.geometry.jacobian.expand(self.jacobian(point, everything))

        def inside_of(samples: Any) -> Float[Array, "d d"]:
            pull = jax.grad(lambda x: jnp.vdot(slope, self._inner_sum(x, samples)))
            along = lambda e: jax.jvp(pull, (point,), (e,))[1]  # noqa: E731
            return jax.vmap(along)(jnp.eye(point.size, dtype=point.dtype))

        rows = max(1, self.geometry.inner_rows(False) // point.size)

        def add(i: Any, total: Any) -> Any:
            return total + _sum(piece(i), inside_of, rows)

        zeros = jnp.zeros((point.size, point.size), point.dtype)
        inside = jax.lax.fori_loop(0, pieces, add, zeros) / (piece(0).size * pieces)
        return self._outer_curvature(inner, outer, jacobian), inside

    def gauss_newton(
        self, point: Vector, inner: Vector, slope: Vector, batches: tuple[Samples, Samples | None]
    ) -> Float[Array, "d d"]:
        """Jᵀ∇²f_B(y)J + Σₖ ∂ₖf_B(y)·E[∇gₖ∇gₖᵀ/2gₖ]; not a number where a gₖ or ∂ₖf is negative."""
        everything, outer = batches
        jacobian_of = jax.jacrev if self.geometry.y.size <= point.size else jax.jacfwd

        def part(samples: Any) -> tuple[Any, Any, Any]:
            values = jax.vmap(self._inner, (None, 0))(point, samples)
            each = jax.vmap(jacobian_of(self._inner), (None, 0))(point, samples)
            weights = slope / (2 * jnp.where(values > 0, values, jnp.inf))
            square = jnp.einsum("npi,np,npj->ij", each, weights, each)
            return square, jnp.sum(each, axis=0), jnp.sum(values < 0, axis=0)

        rows = max(1, self.geometry.inner_rows(False) // (point.size * self.geometry.y.size))
        square, jacobian, negative = _sum(everything, part, rows)
        self._count(inner_jacobians=2 * everything.size)
        jacobian = jacobian / everything.size
        whole = self._outer_curvature(inner, outer, jacobian) + square / everything.size
        fits = jnp.all((negative == 0) | (slope == 0)) & jnp.all(slope >= 0)
        return jnp.where(fits, (whole + whole.T) / 2, jnp.nan)

    def hessian_product(
        self, point: Vector, inner: Vector, slope: Vector,
        batches: tuple[Samples, Samples | None], v: Vector,
    ) -> Vector:  # fmt: skip
        """∇²F(point)v = Jᵀ∇²f_B(y)Jv + the mean of ∇²⟨∇f_B(y), gᵢ⟩v, without a matrix."""
        everything, outer = batches
        along = jax.jvp(lambda x: self.values(x, everything), (point,), (v,))[1]
        turned = jax.jvp(lambda y: self.outer_gradient(y, outer), (inner,), (along,))[1]
        pull = lambda x, u: self.pullback(x, everything, u)  # noqa: E731
        return jax.jvp(pull, (point, slope), (v, turned))[1]

    def _outer_curvature(
        self, inner: Vector, outer: Samples | None, jacobian: Float[Array, "p d"]
    ) -> Float[Array, "d d"]:
        """Jᵀ∇²f_B(y)J."""

        def along(column: Vector) -> Vector:
            return jax.jvp(lambda y: self.outer_gradient(y, outer), (inner,), (column,))[1]

        return jax.lax.map(along, jacobian.T, batch_size=8) @ jacobian

    def prox(self, point: Vector, step: Any) -> Vector:
        """prox_{step·r}(point); for r(Ax) that of r itself, in the space of Ax."""
        self._count(prox=1)
        regularizer = self.problem.regularizer
        if isinstance(regularizer, Composed):
            return regularizer.regularizer.prox(point, step)
        layout = self.geometry.x
        return layout.flatten(regularizer.prox(layout.unflatten(point), step))

    def _count(self, **evaluated: int) -> None:
        old = self.counts._asdict()
        self.counts = Counts(**{k: v + evaluated.get(k, 0) for k, v in old.items()})

    def _outer_sum(self, y: Vector, samples: Any) -> Float[Array, ""]:
        tree = self.geometry.y.unflatten(y)
        if samples is None:
            return jnp.asarray(self.problem.outer(tree)).astype(y.dtype)
        return jnp.sum(jax.vmap(lambda s: self.problem.outer(tree, s))(samples)).astype(y.dtype)

    def _inner(self, point: Vector, sample: Any) -> Vector:
        geometry = self.geometry
        inner = shared(self.problem.inner)
        return geometry.y.flatten(inner(geometry.x.unflatten(point), sample))

    def _inner_sum(self, point: Vector, samples: Any) -> Vector:
        return jnp.sum(jax.vmap(self._inner, (None, 0))(point, samples), axis=0)

    def _value_and_jacobian(self, point: Vector, samples: Any) -> tuple[Vector, Vector]:
        """Sums over the samples, by as few passes as the structure of g' allows."""
        structure = self.geometry.jacobian
        if structure.written:
            each = jax.vmap(self._written_jacobian, (None, 0))(point, samples)
            return self._inner_sum(point, samples), jnp.sum(each, axis=0)
        seeds = structure.seeds().astype(point.dtype)
        if structure.columns is None:
            value, pull = jax.vjp(lambda x: self._inner_sum(x, samples), point)
            return value, jax.vmap(pull)(seeds)[0]
        value, push = jax.linearize(lambda x: self._inner_sum(x, samples), point)
        return value, structure.from_columns(jax.vmap(push)(seeds))

    def _change(
        self, new: Vector, old: Vector, samples: Any, keep: Any, keep_jacobian: Any
    ) -> tuple[Any, Any]:
        """Sums over the samples of g(new) − keep·g(old), and of g' likewise."""
        structure = self.geometry.jacobian
        exact = isinstance(
            keep_jacobian, int
        )  # 1: what does not depend on x is gone from the difference
        moving = np.array(structure.moving) | (not exact)
        if not moving.any():
            moved = self._inner_sum(new, samples) - keep * self._inner_sum(old, samples)
            return moved, jnp.zeros((structure.rows, structure.d), new.dtype)
        together = None
        if structure.columns is None:
            together = self._together(new, old, samples, keep)
        if together is not None:
            moved, pull = together
            seeds = structure.seeds()[moving].astype(moved.dtype)
            rows = jax.vmap(lambda e: pull(e, -keep_jacobian * e))(seeds)
            return moved, _placed(rows, moving)
        first, new_jacobian = self._value_and_jacobian(new, samples)
        second, old_jacobian = self._value_and_jacobian(old, samples)
        return first - keep * second, new_jacobian - keep_jacobian * old_jacobian

    def _value_change(self, new: Vector, old: Vector, batch: Samples, keep: Any) -> Vector:
        """g_A(new) − keep·g_A(old)."""
        return self.values(new, batch) - keep * self.values(old, batch)

    def _together(self, new: Vector, old: Vector, samples: Any, keep: Any) -> Any:
        """The sum of g(new) − keep·g(old), and u, w ↦ that of g'(new)ᵀu + g'(old)ᵀw.

        None where that cannot be had in one pass for both points.
        """
        if self.problem.inner_jacobian is not None:
            return None
        both = two_points(self._inner, new, old, samples)
        if both is None:
            return None
        (first, second), pulls = both
        return first - keep * second, lambda u, w: pulls((u, w))[0]

    def _one(self, point: Vector, sample: Any) -> tuple[Vector, Vector]:
        """g and g' of one sample."""
        single = jax.tree_util.tree_map(lambda a: a[None], sample)
        return self._value_and_jacobian(point, single)

    def _written_jacobian(self, point: Vector, sample: Any) -> Vector:
        """The user's own Jacobian of one sample as a p × d matrix."""
        assert self.problem.inner_jacobian is not None
        geometry = self.geometry
        tree = self.problem.inner_jacobian(geometry.x.unflatten(point), sample)
        return jacobian_matrix(tree, geometry)


def _placed(rows: Vector, chosen: np.ndarray) -> Vector:
    """The rows where they were chosen, zeros elsewhere."""
    if chosen.all():
        return rows
    places = np.where(chosen, np.cumsum(chosen) - 1, len(rows))  # the last: a row of zeros
    return jnp.pad(rows, ((0, 1), (0, 0)))[places]


def jacobian_matrix(tree: Any, geometry: Geometry) -> Float[Array, "p d"]:
    """A Jacobian in the structure of `jax.jacobian` (y's tree of x's trees) as a p × d matrix."""
    blocks = iter(jax.tree_util.tree_leaves(tree))
    rows = []
    for y_shape in geometry.y.shapes:
        row = [next(blocks) for _ in geometry.x.shapes]
        height = math.prod(y_shape)
        rows.append(jnp.concatenate([jnp.reshape(block, (height, -1)) for block in row], axis=1))
    return jnp.concatenate(rows, axis=0).astype(geometry.x.dtype)


def _sum(batch: Samples, part: Callable[[Any], Any], rows: int) -> Any:
    """Σ part(piece) over the pieces of a batch, at most `rows` samples at a time."""
    if batch.size <= rows:
        return part(batch.piece(0, batch.size))
    # Only rows in order are copied as one run; and a stream's draws depend on its pieces.
    row = row_bytes(batch) if isinstance(batch, Rows) else 0
    most = max(1, _PIECE // row) if row else batch.size
    limit = min(rows, most)
    rows = min(max(rows // _PIECES, min(rows, 1024)), most)
    # Pieces without a rest where that can be had: `part` is then in the program only once.
    even = [d for d in range(max(1, rows // 2), min(2 * rows, limit) + 1) if batch.size % d == 0]
    rows = min(even, key=lambda d: abs(d - rows), default=rows)
    count, rest = divmod(batch.size, rows)

    def add(total: Any, i: Any) -> tuple[Any, None]:
        return jax.tree_util.tree_map(jnp.add, total, part(batch.piece(i * rows, rows))), None

    shapes = jax.eval_shape(lambda: part(batch.piece(0, rows)))
    zeros = jax.tree_util.tree_map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    total, _ = jax.lax.scan(add, zeros, jnp.arange(count))
    if rest:
        last = part(batch.piece(count * rows, rest))
        total = jax.tree_util.tree_map(jnp.add, total, last)
    return total
