"""Where the inner samples of an outer sample come from: a pool, groups of rows, a simulator.

Longer than other files: three kinds of inner samples behind one contract, which are read together.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from mvrc.compiler import rows
from mvrc.sampling.draws import in_order, indices
from mvrc.sampling.source import key_bits
from mvrc.support import checks


class Pair(eqx.Module):
    """An outer sample and its inner samples; of a batch both have a leading axis of outer samples,
    but for inner samples that all of them share."""

    k: Any  # number of the outer sample
    inside: Any = None  # numbers of the inner samples, or a key; None: every one of them
    part: tuple[int, int] | None = eqx.field(static=True, default=None)  # only these places
    distinct: bool = eqx.field(static=True, default=False)  # whether no k is there twice

    def half(self, start: int, size: int) -> Pair:
        """The same with inner samples start, …, start + size − 1 of those that were drawn."""
        return Pair(self.k, self.inside, (start, size), self.distinct)


Means = Callable[[Any, Any], Any]  # g of an outer row and an inner sample


class Inside(eqx.Module):
    """Where the inner samples of an outer sample come from."""

    drawn: ClassVar[bool] = False  # whether the expectation itself is not known

    @abc.abstractmethod
    def pairs(self, N: int) -> int:
        """Pairs that a pass over everything evaluates."""

    @abc.abstractmethod
    def most(self) -> int:
        """The inner samples of an outer one in such a pass, at most."""

    @abc.abstractmethod
    def each(self, size: int) -> int:
        """Evaluations for an outer sample where so many are asked for."""

    @abc.abstractmethod
    def draw(self, key: Any, start: Any, k: Int[Array, " B"], size: int) -> Any:
        """So many inner samples for each k: what `Pair.inside` holds. The i-th k is number
        start + i of its batch."""

    @abc.abstractmethod
    def spec(self, row: Any) -> Any:
        """Shapes and dtypes of an inner sample of an outer row, itself a shape."""

    @abc.abstractmethod
    def fingerprint(self) -> Any:
        """Arrays, or a function, that a resumed run must find again."""

    @abc.abstractmethod
    def means(self, g: Means, outer_rows: Any, pair: Pair, most: int) -> Any:
        """The mean of g over the inner samples, for each of a batch of outer samples.

        At most so many pairs are evaluated side by side.
        """


def _tree(function: Any, *trees: Any) -> Any:
    return jax.tree_util.tree_map(function, *trees)


def _some_of(values: Any, there: Any, count: Any) -> Any:
    """The sum along the second axis of those that are there, divided by a count."""

    def wide(w: Any, axes: int, dtype: Any) -> Any:
        return w.reshape(w.shape + (1,) * (axes - w.ndim)).astype(dtype)

    def mean(a: Any) -> Any:
        total = jnp.sum(wide(there, a.ndim, a.dtype) * a, axis=1)
        return total / (count if isinstance(count, int) else wide(count, total.ndim, a.dtype))

    return _tree(mean, values)


def _in_pieces(piece: Callable[[Any, int], Any], count: int, length: int) -> Any:
    """Σ piece(start, length) over 0, …, count − 1, without keeping what a piece evaluates."""
    if count <= length:
        return piece(0, count)
    again = jax.checkpoint(piece, static_argnums=1)
    whole, rest = divmod(count, length)

    def add(total: Any, i: Any) -> tuple[Any, None]:
        return _tree(jnp.add, total, again(i * length, length)), None

    shapes = jax.eval_shape(lambda: piece(0, length))
    zeros = _tree(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    total, _ = jax.lax.scan(add, zeros, jnp.arange(whole))
    return total if not rest else _tree(jnp.add, total, again(whole * length, rest))


class Pool(Inside):
    """One set of rows for all outer samples; a batch shares what it draws.

    Args:
        data: the rows.
        others: whether row k is left out for outer sample k.
    """

    data: Any
    others: bool = eqx.field(static=True)

    @property
    def count(self) -> int:
        return jax.tree_util.tree_leaves(self.data)[0].shape[0]

    def pairs(self, N: int) -> int:
        return N * self.count

    def most(self) -> int:
        return self.count

    def each(self, size: int) -> int:
        return size + self.others

    def draw(self, key: Any, start: Any, k: Any, size: int) -> Any:
        if not self.others:
            return indices(key, size, self.count)
        # Distinct ones, and one more: without k, or else the last, they are uniform on the others.
        return in_order(key, jnp.arange(size + 1, dtype=jnp.int32), self.count)

    def spec(self, row: Any) -> Any:
        return _tree(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), self.data)

    def fingerprint(self) -> Any:
        return self.data

    def means(self, g: Means, outer_rows: Any, pair: Pair, most: int) -> Any:
        table = jax.vmap(jax.vmap(g, (None, 0)), (0, None))  # B × m, what is shared once
        if pair.inside is None:
            length = max(1, most // len(pair.k))

            def piece(start: Any, length: int) -> Any:
                some = _tree(lambda a: jax.lax.dynamic_slice_in_dim(a, start, length), self.data)
                there = jnp.ones((1, length), bool)
                if self.others:
                    there = start + jnp.arange(length) != pair.k[:, None]
                return _some_of(table(outer_rows, some), there, self.count - self.others)

            return _in_pieces(piece, self.count, length)
        chosen = pair.inside if pair.part is None else _cut(pair.inside, pair.part, 0)
        values = table(outer_rows, rows.gather(chosen, self.data))
        if not self.others:
            return _tree(lambda a: jnp.mean(a, axis=1), values)
        apart = chosen != pair.k[:, None]
        all_apart = jnp.all(apart, axis=1, keepdims=True)
        last = jnp.arange(len(chosen)) == len(chosen) - 1
        return _some_of(values, apart & ~(all_apart & last), len(chosen) - 1)


class Groups(Inside):
    """Rows that belong to one outer sample each.

    Args:
        data: the rows, sorted by their outer samples.
        first, counts: where those of k begin, and how many there are.
        longest: the largest of the counts.
    """

    data: Any
    first: Any
    counts: Any
    longest: int = eqx.field(static=True)

    def pairs(self, N: int) -> int:
        return jax.tree_util.tree_leaves(self.data)[0].shape[0]

    def most(self) -> int:
        return self.longest

    def each(self, size: int) -> int:
        return size

    def draw(self, key: Any, start: Any, k: Any, size: int) -> Any:
        def one(i: Any, k: Any) -> Any:
            return self.first[k] + indices(jax.random.fold_in(key, i), size, self.counts[k])

        return jax.vmap(one)(start + jnp.arange(len(k)), k)

    def spec(self, row: Any) -> Any:
        return _tree(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), self.data)

    def fingerprint(self) -> Any:
        return self.data, self.first

    def means(self, g: Means, outer_rows: Any, pair: Pair, most: int) -> Any:
        table = jax.vmap(jax.vmap(g, (None, 0)))
        if pair.inside is None:
            first, counts = self.first[pair.k][:, None], self.counts[pair.k][:, None]

            def piece(start: Any, length: int) -> Any:
                place = start + jnp.arange(length, dtype=jnp.int32)
                there = place < counts
                some = self._rows(first + jnp.where(there, place, 0))
                return _some_of(table(outer_rows, some), there, counts[:, 0])

            return _in_pieces(piece, self.longest, max(1, most // len(pair.k)))
        chosen = pair.inside if pair.part is None else _cut(pair.inside, pair.part, 1)
        values = table(outer_rows, self._rows(chosen))
        return _tree(lambda a: jnp.mean(a, axis=1), values)

    def _rows(self, chosen: Any) -> Any:
        found = rows.gather(chosen.reshape(-1), self.data)
        return _tree(lambda a: a.reshape(*chosen.shape, *a.shape[1:]), found)


class Simulator(Inside):
    """Inner samples drawn given the outer one, as from a simulator.

    The conditional expectation itself is never known, so what is *measured* is over one fixed set
    of draws for each outer sample, the same for every run and every method; where f is curved its
    Φ differs from the true one by a share of 1/`evaluation_size`.

    Args:
        draw: `draw(key, outer_sample, size)` gives a pytree of arrays with leading axis `size`;
            JAX-traceable.
        evaluation_size: inner samples for each outer one that are measured on.
        seed: seed of those alone; a run's own draws come from `minimize(seed=)`.

    Examples:
        >>> near = mvrc.Simulator(lambda key, k, m: k + jax.random.normal(key, (m, 3)), 100)
        >>> noisy = mvrc.Coupled(
        ...     lambda x, k, s: s - x, lambda y, k: (y**2).sum(), near, returns[:40], inner_batch=8)
        >>> mvrc.minimize(noisy, x0, "bsgd", epochs=2).x.shape
        (3,)
    """

    drawn: ClassVar[bool] = True

    sampler: Callable[[Any, Any, int], Any] = eqx.field(static=True)
    evaluation_size: int = eqx.field(static=True)
    seed: int = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(
        self, draw: Callable[[Any, Any, int], Any], evaluation_size: int = 1_000, seed: int = 0
    ) -> None:
        if not callable(draw):
            raise TypeError(
                f"draw must be a function draw(key, outer_sample, size), not {checks.shown(draw)}."
            )
        self.sampler = draw
        self.evaluation_size = checks.integer("evaluation_size", evaluation_size, least=2)
        self.seed = checks.seed("seed", seed)

    def pairs(self, N: int) -> int:
        return N * self.evaluation_size

    def most(self) -> int:
        return self.evaluation_size

    def each(self, size: int) -> int:
        return size

    def draw(self, key: Any, start: Any, k: Any, size: int) -> Any:
        each = jax.vmap(lambda i: jax.random.key_data(jax.random.fold_in(key, i)))
        # The size travels as a shape.
        return each(start + jnp.arange(len(k))), jnp.zeros((len(k), size), bool)

    def spec(self, row: Any) -> Any:
        drawn = jax.eval_shape(lambda r: self.sampler(jax.random.key(0), r, 1), row)
        return _tree(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), drawn)

    def fingerprint(self) -> Any:
        return None

    def means(self, g: Means, outer_rows: Any, pair: Pair, most: int) -> Any:
        if pair.inside is None:
            base = jax.random.wrap_key_data(key_bits(self.seed))
            bits = jax.vmap(lambda k: jax.random.key_data(jax.random.fold_in(base, k)))(pair.k)
            size = self.evaluation_size
        else:
            bits, size = pair.inside[0], pair.inside[1].shape[1]

        def one(bits: Any, row: Any) -> Any:
            drawn = self.sampler(jax.random.wrap_key_data(bits), row, size)
            if pair.part is not None:
                drawn = _tree(lambda a: _cut(a, pair.part, 0), drawn)
            values = jax.vmap(g, (None, 0))(row, drawn)
            return _tree(lambda a: jnp.mean(a, axis=0), values)

        together = max(1, most // size)
        if len(bits) <= together:
            return jax.vmap(one)(bits, outer_rows)
        again = jax.checkpoint(one)
        return jax.lax.map(lambda a: again(*a), (bits, outer_rows), batch_size=together)


def _cut(a: Any, part: Any, axis: int) -> Any:
    start, size = part
    return jax.lax.slice_in_dim(a, start, start + size, axis=axis)
