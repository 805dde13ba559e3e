"""The oracle: batch means of g, g', ∇f at flat points, counted where they are evaluated.

Everything here runs inside a compiled function; the counts are Python integers that are known once
the function is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mvrc.oracle.functions import Functions, Vector
from mvrc.sampling import Amount, Batch, Samples

Pullback = Callable[[Vector], Vector]
Pullbacks = Callable[[Vector, Vector], Vector]

_FEW = 4  # a y so short that all rows of the Jacobian cost less than a second pass


class Counts(NamedTuple):
    """What has been evaluated: one sample at one point is one evaluation.

    Of a program that serves every n they are `Amount`s.
    """

    inner_values: Any = 0
    inner_jacobians: Any = 0
    outer_gradients: Any = 0
    prox: Any = 0

    def at(self, n: int | None, N: int | None) -> Counts:
        """In numbers, for so many samples."""
        return Counts(*(a.at(n, N) if isinstance(a, Amount) else a for a in self))


def add_counts(*counts: Counts) -> Counts:
    """The sum, field by field."""
    return Counts(*(sum(column) for column in zip(Counts(), *counts, strict=True)))


class Oracle:
    """Evaluations of f, g and r on named batches, with their count.

    Args:
        functions: at flat points.
        batches: the independent draws by name: "values" (A), "jacobians" (A'), "outer" (B), or
            "everything" and "everything outside".
    """

    def __init__(
        self, functions: Functions, batches: Mapping[str, Batch | None] | None = None
    ) -> None:
        self.functions = functions
        self.geometry = functions.geometry
        self._batches = batches or {}
        self.counts = Counts()

    def batch(self, role: str) -> Batch | None:
        """The batch of that name; None where none is drawn, as for a single outer function."""
        return self._batches.get(role)

    def values(self, point: Vector, batch: Batch) -> Vector:
        """g_A(point)."""
        self.count(inner_values=batch.amount())
        rows = self.geometry.inner_rows(False)
        return batch.mean(lambda s: self.functions.value_sum(point, s), rows)

    def jacobian(self, point: Vector, batch: Batch) -> Float[Array, "rows d"]:
        """g'_A(point)."""
        self._slopes(batch)
        rows = self.geometry.inner_rows(True)
        return batch.mean(lambda s: self.functions.value_and_jacobian(point, s)[1], rows)

    def values_and_jacobian(
        self, point: Vector, batch: Batch, jacobian_batch: Batch | None = None
    ) -> tuple[Vector, Float[Array, "rows d"]]:
        """g_A(point) and g'_A'(point), in one pass when A' is A (or not given)."""
        if jacobian_batch is not None and jacobian_batch is not batch:
            return self.values(point, batch), self.jacobian(point, jacobian_batch)
        self.count(inner_values=batch.amount())
        self._slopes(batch)
        rows = self.geometry.inner_rows(True)
        return batch.mean(lambda s: self.functions.value_and_jacobian(point, s), rows)

    def values_and_pullback(
        self, point: Vector, batch: Batch, jacobian_batch: Batch | None = None
    ) -> tuple[Vector, Pullback]:
        """g_A(point) and the map u ↦ g'_A'(point)ᵀ u, without the p × d matrix.

        A batch is passed through once when A' is A (or not given) and it is small, or y is.
        """
        chosen = batch if jacobian_batch is None else jacobian_batch
        rows = self.geometry.inner_rows(False)
        if chosen is batch and batch.at_once(rows) and self.functions.inner_jacobian is None:
            self.count(inner_values=batch.amount())
            self._slopes(batch)
            samples = Samples(batch.samples())
            total, pull = jax.vjp(lambda x: self.functions.value_sum(x, samples), point)
            return batch.divided(total), lambda u: batch.joined(pull(u / batch.size)[0])
        if chosen is batch and self.geometry.y.size <= _FEW:
            value, jacobian = self.values_and_jacobian(point, batch)
            return value, lambda u: self.pull(jacobian, u)
        return self.values(point, batch), lambda u: self.pullback(point, chosen, u)

    def changes(
        self,
        new: Vector,
        old: Vector,
        batch: Batch,
        jacobian_batch: Batch,
        keep: Any = 1,
        keep_jacobian: Any = None,
    ) -> tuple[Vector, Float[Array, "rows d"]]:
        """g_A(new) − keep·g_A(old) and g'_A'(new) − keep·g'_A'(old), in one pass for both points.

        `keep` may be another number for the Jacobian. Rows of g' that do not depend on x are gone
        from the difference without being evaluated; the counts are those of the rule all the same.
        """
        keeps = keep, keep if keep_jacobian is None else keep_jacobian
        self._slopes(jacobian_batch, 2)
        rows = self.geometry.inner_rows(True)
        part = lambda s: self.functions.change(new, old, s, *keeps)  # noqa: E731
        moved, change = jacobian_batch.mean(part, rows)
        if jacobian_batch is not batch:
            return self._value_change(new, old, batch, keep), change
        self.count(inner_values=2 * batch.amount())
        return moved, change

    def change_and_pullbacks(
        self, new: Vector, old: Vector, batch: Batch, jacobian_batch: Batch, keep: Any = 1
    ) -> tuple[Vector, Pullbacks]:
        """g_A(new) − keep·g_A(old) and the map u, w ↦ g'_A'(new)ᵀu − g'_A'(old)ᵀw, no matrices.

        A small batch is passed through once for both points.
        """
        size = jacobian_batch.size
        together = None
        if jacobian_batch.at_once(self.geometry.inner_rows(False)):
            samples = Samples(jacobian_batch.samples())
            together = self.functions.together(new, old, samples, keep)
        if together is None:
            first, pull_first = self.values_and_pullback(new, batch, jacobian_batch)
            second, pull_second = self.values_and_pullback(old, batch, jacobian_batch)
            return first - keep * second, lambda u, w: pull_first(u) - pull_second(w)
        moved, pull = together
        self._slopes(jacobian_batch, 2)
        if jacobian_batch is batch:
            self.count(inner_values=2 * size)
            moved = batch.divided(moved)
        else:
            moved = self._value_change(new, old, batch, keep)
        return moved, lambda u, w: jacobian_batch.joined(pull(u / size, -w / size))

    def pull(self, jacobian: Float[Array, "rows d"], u: Vector) -> Vector:
        """Jᵀu for what is kept of a Jacobian J."""
        return self.geometry.jacobian.pull(jacobian, u)

    def pullback(self, point: Vector, batch: Batch, cotangent: Vector) -> Vector:
        """g'_A(point)ᵀ cotangent."""
        self._slopes(batch)
        part = lambda s: self.functions.pullback(point, s, cotangent)  # noqa: E731
        matrix = self.functions.inner_jacobian is not None
        return batch.mean(part, self.geometry.inner_rows(matrix))

    def each(self, point: Vector, batch: Batch) -> tuple[Vector, Float[Array, "s rows d"]]:
        """gᵢ(point) and gᵢ'(point) of every sample of a small batch, one row each."""
        self.count(inner_values=batch.size, inner_jacobians=batch.size)
        one = self.functions.of_one
        return batch.each(lambda rows: jax.vmap(one, (None, 0))(point, rows))

    def each_at(self, points: Vector, batch: Batch) -> tuple[Vector, Float[Array, "s rows d"]]:
        """The same with a point of its own for every sample."""
        self.count(inner_values=batch.size, inner_jacobians=batch.size)
        return jax.vmap(self.functions.of_one)(points, batch.samples())

    def each_outer(self, y: Vector, batch: Batch) -> Vector:
        """∇fₖ(y) of every sample of an outer batch, one row each."""
        self.count(outer_gradients=batch.size)

        def slopes(rows: Any) -> Vector:
            single = jax.tree_util.tree_map(lambda a: a[:, None], rows)
            return jax.vmap(jax.grad(self.functions.outer_sum), (None, 0))(y, Samples(single))

        return batch.each(slopes)

    def outer_gradient(self, y: Vector, batch: Batch | None) -> Vector:
        """∇f_B(y)."""
        if batch is not None:
            self.count(outer_gradients=batch.amount())
        elif self.geometry.inside is None:  # of a coupled problem they come with the Jacobians
            self.count(outer_gradients=1)
        if batch is None:
            return jax.grad(self.functions.outer_sum)(y, None)
        part = jax.grad(self.functions.outer_sum)
        return batch.mean(lambda s: part(y, s), self.geometry.outer_rows())

    def outer_value(self, y: Vector, batch: Batch | None) -> Float[Array, ""]:
        """f_B(y); not counted, as it is only measured."""
        if batch is None:
            return self.functions.outer_sum(y, None)
        rows = self.geometry.outer_rows()
        return batch.mean(lambda s: self.functions.outer_sum(y, s), rows)

    def projected(self, point: Vector, direction: Vector, samples: Any) -> Vector:
        """⟨direction, gᵢ(point)⟩ of each of some samples."""
        each = self.functions.values(point, samples)
        self.count(inner_values=len(each))
        return each @ direction

    def sizes(self, point: Vector, batch: Batch) -> Vector:
        """The mean of |gᵢ(point)|; not counted, as it is only measured."""

        def part(samples: Samples) -> Vector:
            return samples.sum(jnp.abs(self.functions.values(point, samples.rows)))

        return batch.mean(part, self.geometry.inner_rows(False))

    def outer_size(self, y: Vector, batch: Batch | None) -> Float[Array, ""]:
        """The mean of |fₖ(y)|; not counted, as it is only measured."""
        if batch is None:
            return jnp.abs(self.functions.outer_sum(y, None))
        rows = self.geometry.outer_rows()
        part = lambda s: s.sum(jnp.abs(self.functions.outer_values(y, s.rows)))  # noqa: E731
        return batch.mean(part, rows)

    def prox(self, point: Vector, step: Any) -> Vector:
        """prox_{step·r}(point)."""
        self.count(prox=1)
        return self.functions.prox(point, step)

    def prox_of_image(self, image: Vector, step: Any) -> Vector:
        """The same of r alone in the space of Ax, for r(Ax)."""
        self.count(prox=1)
        return self.functions.prox_of_image(image, step)

    def count(self, **evaluated: Any) -> None:
        """Add to what has been evaluated."""
        old = self.counts._asdict()
        self.counts = Counts(**{k: v + evaluated.get(k, 0) for k, v in old.items()})

    def _slopes(self, batch: Batch, times: int = 1) -> None:
        """Count the Jacobians of a batch, at so many points."""
        self.count(inner_jacobians=times * batch.amount(), outer_gradients=times * batch.outside())

    def _value_change(self, new: Vector, old: Vector, batch: Batch, keep: Any) -> Vector:
        """g_A(new) − keep·g_A(old)."""
        return self.values(new, batch) - keep * self.values(old, batch)
