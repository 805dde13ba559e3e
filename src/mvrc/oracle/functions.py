"""The user's f, g and r at flat points, one sample or a sum over some; and their shapes."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mvrc.compiler import cse
from mvrc.oracle.differences import two_points
from mvrc.oracle.layout import Layout
from mvrc.oracle.structure import Structure
from mvrc.regularizers import Composed, Regularizer
from mvrc.sampling import Batch, Samples, Source

Vector = Float[Array, "..."]

# A batch of more than about this many numbers (32 MiB in float64) is summed in pieces.
_CHUNK = 2**22


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Layouts of x and y, the elements of one sample, the structure of g'; hashable, static."""

    x: Layout
    y: Layout
    inner_sample: int
    outer_sample: int
    jacobian: Structure  # of g'
    inner_held: int | None = None  # numbers that g of a sample makes on its way; None: about d
    seeds: int = 1  # runs side by side, each with a state of its own
    inside: Layout | None = None  # of a coupled problem: of gₖ
    inner_drawn: int | None = None  # of its inner_sample what a small batch has; None: all

    def inner_rows(self, matrix: bool) -> int:
        """Rows of an inner chunk."""
        passes = self.jacobian.passes if matrix else 1
        # A pass a row of a large Jacobian: twice as fast where the pieces fit the cache.
        chunk = _CHUNK // 32 if passes > 64 else _CHUNK
        return max(1, chunk // self.inner_numbers(passes))

    def outer_rows(self) -> int:
        """Rows of an outer chunk."""
        return max(1, _CHUNK // self.outer_numbers())

    def inner_numbers(self, passes: int = 1) -> int:
        """What the evaluation of an inner sample holds."""
        held = self.x.size if self.inner_held is None else min(self.inner_held, self.x.size)
        return self.inner_sample + held + self.y.size * (1 + passes)

    def outer_numbers(self) -> int:
        """The same of an outer one."""
        return self.outer_sample + 2 * self.y.size


@dataclasses.dataclass(frozen=True)
class Functions:
    """f, g and r of a problem at flat points.

    A Jacobian is what `Geometry.jacobian` keeps of the p × d matrix.
    """

    inner: Callable[..., Any]
    outer: Callable[..., Any]
    inner_jacobian: Callable[..., Any] | None
    regularizer: Regularizer
    geometry: Geometry

    def value(self, point: Vector, sample: Any) -> Vector:
        """g of one sample."""
        geometry = self.geometry
        inner = cse.merged(self.inner)
        return geometry.y.flatten(inner(geometry.x.unflatten(point), sample))

    def values(self, point: Vector, samples: Any) -> Vector:
        """g of each of some samples."""
        return jax.vmap(self.value, (None, 0))(point, samples)

    def value_sum(self, point: Vector, samples: Samples) -> Vector:
        return samples.sum(self.values(point, samples.rows))

    def value_and_jacobian(self, point: Vector, samples: Samples) -> tuple[Vector, Vector]:
        """Sums over the samples, by as few passes as the structure of g' allows."""
        structure = self.geometry.jacobian
        if structure.written:
            each = jax.vmap(self.written_jacobian, (None, 0))(point, samples.rows)
            return self.value_sum(point, samples), samples.sum(each)
        seeds = structure.seeds().astype(point.dtype)
        if structure.columns is None:
            value, pull = jax.vjp(lambda x: self.value_sum(x, samples), point)
            return value, jax.vmap(pull)(seeds)[0]
        value, push = jax.linearize(lambda x: self.value_sum(x, samples), point)
        return value, structure.from_columns(jax.vmap(push)(seeds))

    def of_one(self, point: Vector, sample: Any) -> tuple[Vector, Vector]:
        """g and g' of one sample."""
        one = jax.tree_util.tree_map(lambda a: a[None], sample)
        return self.value_and_jacobian(point, Samples(one))

    def pullback(self, point: Vector, samples: Samples, cotangent: Vector) -> Vector:
        """Σ gᵢ'(point)ᵀ cotangent."""
        if self.inner_jacobian is not None:
            each = jax.vmap(self.written_jacobian, (None, 0))(point, samples.rows)
            return samples.sum(jnp.einsum("spd,p->sd", each, cotangent))
        return jax.vjp(lambda x: self.value_sum(x, samples), point)[1](cotangent)[0]

    def written_jacobian(self, point: Vector, sample: Any) -> Vector:
        """The user's own Jacobian of one sample as a p × d matrix."""
        assert self.inner_jacobian is not None
        tree = self.inner_jacobian(self.geometry.x.unflatten(point), sample)
        return jacobian_matrix(tree, self.geometry)

    def change(
        self, new: Vector, old: Vector, samples: Samples, keep: Any, keep_jacobian: Any
    ) -> tuple[Any, Any]:
        """Sums over the samples of g(new) − keep·g(old), and of g' likewise."""
        structure = self.geometry.jacobian
        # With a factor of 1 what does not depend on x is gone from the difference.
        exact = isinstance(keep_jacobian, int)
        moving = np.array(structure.depends_on_x) | (not exact)
        if not moving.any():
            moved = self.value_sum(new, samples) - keep * self.value_sum(old, samples)
            return moved, jnp.zeros((structure.rows, structure.d), new.dtype)
        together = None
        if structure.columns is None:
            together = self.together(new, old, samples, keep)
        if together is not None:
            moved, pull = together
            seeds = structure.seeds()[moving].astype(moved.dtype)
            rows = jax.vmap(lambda e: pull(e, -keep_jacobian * e))(seeds)
            return moved, _placed(rows, moving)
        first, new_jacobian = self.value_and_jacobian(new, samples)
        second, old_jacobian = self.value_and_jacobian(old, samples)
        return first - keep * second, new_jacobian - keep_jacobian * old_jacobian

    def together(self, new: Vector, old: Vector, samples: Samples, keep: Any) -> Any:
        """The sum of g(new) − keep·g(old), and u, w ↦ that of g'(new)ᵀu + g'(old)ᵀw.

        None where that cannot be had in one pass for both points.
        """
        if self.inner_jacobian is not None:
            return None
        both = two_points(self.value, new, old, samples)
        if both is None:
            return None
        (first, second), pulls = both
        return first - keep * second, lambda u, w: pulls((u, w))[0]

    def outer_values(self, y: Vector, samples: Any) -> Vector:
        """fₖ(y) of each of some outer samples."""
        tree = self.geometry.y.unflatten(y)
        return jax.vmap(lambda s: self.outer(tree, s))(samples).astype(y.dtype)

    def outer_sum(self, y: Vector, samples: Samples | None) -> Float[Array, ""]:
        """Their sum; of a single f, for which samples are None, f(y)."""
        if samples is None:
            return jnp.asarray(self.outer(self.geometry.y.unflatten(y))).astype(y.dtype)
        return samples.sum(self.outer_values(y, samples.rows))

    def penalty(self, point: Vector) -> Float[Array, ""]:
        """r(point)."""
        value = self.regularizer.value(self.geometry.x.unflatten(point))
        return jnp.asarray(value).astype(point.dtype)

    def prox(self, point: Vector, step: Any) -> Vector:
        """prox_{step·r}(point)."""
        layout = self.geometry.x
        return layout.flatten(self.regularizer.prox(layout.unflatten(point), step))

    def prox_of_image(self, image: Vector, step: Any) -> Vector:
        """The prox of r of r(Ax), in the space of Ax; elsewhere A is the identity."""
        if isinstance(self.regularizer, Composed):
            return self.regularizer.regularizer.prox(image, step)
        return self.prox(image, step)


class Problem(eqx.Module):
    """What is asked of a problem: its functions, and its samples."""

    regularizer: eqx.AbstractVar[Regularizer]
    inner_source: eqx.AbstractVar[Source]
    outer_source: eqx.AbstractVar[Source | None]  # None: a single outer function

    @abc.abstractmethod
    def functions(self, geometry: Geometry) -> Functions:
        """f, g and r at flat points."""

    def packed(self, geometry: Geometry) -> Any:
        """The same for a program that serves every number of samples, where there is such a one."""
        inner = self.inner_source.packed("inner", geometry.inner_numbers())
        outer = self.outer_source
        if outer is not None:
            outer = outer.packed("outer", geometry.outer_numbers())
        return eqx.tree_at(
            lambda p: (p.inner_source, p.outer_source), self, (inner, outer),
            is_leaf=lambda a: a is None,
        )  # fmt: skip

    def everything(self, most: int | None = None) -> tuple[Batch, Batch | None]:
        """Every inner and every outer sample, or with `most` a part of each where they are more."""
        outer = self.outer_source
        return self.inner_source.part(most), None if outer is None else outer.part(most)


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
