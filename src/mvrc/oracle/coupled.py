"""The user's f and g of a coupled problem at flat points, for batches of outer samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mvrc.compiler import cse, rows
from mvrc.oracle.functions import Functions, Vector
from mvrc.oracle.layout import Layout
from mvrc.oracle.oracle import Oracle
from mvrc.sampling import Batch, Pair, PairSource, Samples

Pullback = Callable[[Any], Vector]

TOGETHER = 2**20  # numbers of the pairs that are evaluated side by side


class Coupling(eqx.Module):
    """Fₖ(x) = fₖ(gₖ(x)) of one outer sample as a function, as a composition has it for g.

    Args:
        inner: `g(x, outer_sample, sample)`.
        outer: `f(y, outer_sample)`.
        source: of the pairs.
    """

    inner: Callable[..., Any]
    outer: Callable[..., Any]
    source: PairSource

    def __call__(self, x: Any, pair: Pair) -> Any:
        one = jax.tree_util.tree_map(lambda a: a[None], pair)
        return self.outers(self.means(x, one), one)

    def means(self, x: Any, pair: Pair) -> Any:
        """gₖ(x) of each of a batch of outer samples, over the inner ones that go with it."""
        g = cse.merged(self.inner)
        found = self._rows(pair)
        sample = jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), found)
        numbers = jax.eval_shape(g, x, sample, self.source.inside.spec(sample))
        size = sum(leaf.size for leaf in jax.tree_util.tree_leaves((numbers, sample)))
        return self.source.inside.means(
            lambda row, inside: g(x, row, inside), found, pair, max(1, TOGETHER // (size + 8))
        )

    def outers(self, y: Any, pair: Pair) -> Any:
        """fₖ(yₖ) of each."""
        return jax.vmap(self.outer)(y, self._rows(pair))

    def _rows(self, pair: Pair) -> Any:
        """The rows of the outer samples."""
        return rows.gather(pair.k, self.source.data)


def only(y: Any) -> Any:
    """The outer function that is left."""
    return y[0]


@dataclasses.dataclass(frozen=True)
class CoupledFunctions(Functions):
    """The functions of the composition F = mean of Fₖ, and what is inside of Fₖ."""

    @property
    def coupling(self) -> Coupling:
        """Fₖ by its parts."""
        assert isinstance(self.inner, Coupling)
        return self.inner

    @property
    def inside(self) -> Layout:
        """Of gₖ."""
        assert self.geometry.inside is not None
        return self.geometry.inside

    def values(self, point: Vector, samples: Any) -> Vector:
        """Fₖ of each of some outer samples, in a column; what they share is evaluated once."""
        x = self.geometry.x.unflatten(point)
        found = self.coupling.outers(self.coupling.means(x, samples), samples)
        return found[:, None].astype(self.geometry.y.dtype)

    def together(self, new: Vector, old: Vector, samples: Samples, keep: Any) -> None:
        return None

    def means(self, point: Vector, pair: Pair) -> Float[Array, "B p"]:
        """gₖ(point), a row each."""
        tree = self.coupling.means(self.geometry.x.unflatten(point), pair)
        leaves = jax.tree_util.tree_leaves(tree)
        return jnp.concatenate(
            [leaf.reshape(len(leaf), -1).astype(point.dtype) for leaf in leaves], axis=1
        )

    def outer_gradients(self, y: Float[Array, "B p"], pair: Pair) -> Float[Array, "B p"]:
        """∇fₖ(yₖ), a row each."""

        def total(y: Any) -> Any:
            return jnp.sum(self.coupling.outers(jax.vmap(self.inside.unflatten)(y), pair))

        return jax.grad(total)(y)


def functions_of(oracle: Oracle) -> CoupledFunctions:
    """Those of an oracle of a coupled problem."""
    functions = oracle.functions
    assert isinstance(functions, CoupledFunctions)
    return functions


def means_and_pullback(
    oracle: Oracle, point: Vector, batch: Batch, pair: Pair
) -> tuple[Float[Array, "B p"], Pullback]:
    """gₖ(point) of a small batch, and u ↦ mean of gₖ'(point)ᵀuₖ; each counted where it is asked."""
    functions = functions_of(oracle)
    oracle.count(inner_values=batch.amount())
    value, pull = jax.vjp(lambda x: functions.means(x, pair), point)

    def pulled(u: Any) -> Vector:
        oracle.count(inner_jacobians=batch.amount())
        return batch.joined(pull(u / len(value))[0])

    return value, pulled


def outer_gradients(oracle: Oracle, y: Any, pair: Pair) -> Float[Array, "B p"]:
    """∇fₖ(yₖ) of a small batch; counted."""
    oracle.count(outer_gradients=len(y))
    return functions_of(oracle).outer_gradients(y, pair)


def table(oracle: Oracle, point: Vector, batch: Batch) -> Float[Array, "N p"]:
    """gₖ(point) of every outer sample of a batch, a row each, in pieces."""
    functions = functions_of(oracle)
    oracle.count(inner_values=batch.amount())
    size = batch.size
    length = min(size, max(1, TOGETHER // (functions.inside.size + 8)))
    starts = [min(i * length, size - length) for i in range(-(-size // length))]
    found = jax.lax.map(
        lambda start: functions.means(point, batch.piece(start, length)), jnp.array(starts)
    )
    last = size - (len(starts) - 1) * length  # of the last piece these are new
    whole = found[:-1].reshape(-1, functions.inside.size)
    return jnp.concatenate([whole, found[-1, length - last :]])
