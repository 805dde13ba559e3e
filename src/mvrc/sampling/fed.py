"""Rows that lie outside of memory: the host hands them to a program piece by piece."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.sampling.draws import Words, indices, spread, stride_of
from mvrc.sampling.rows import SAMPLING, Rows, row_tickets
from mvrc.sampling.source import Batch, Draws, Samples, Source
from mvrc.support import feeding


class Feed(abc.ABC):
    """What the host does. Its methods give pytrees of NumPy arrays, and do not use JAX.

    Programs are kept by feed: they serve all runs that share it. It is called from one thread at
    a time, which is not always the same.
    """

    count: int  # rows in all
    chunk: int  # rows that a pass takes at a time, a power of two
    spec: Any  # shapes and dtypes of one row

    @abc.abstractmethod
    def cut(self, token: Any, first: Any) -> Any:
        """Rows first, …, first + chunk − 1; behind the last one anything finite.

        A pass asks for first = 0, chunk, 2·chunk, … `token` is what `begin` has returned, or −1.
        """

    @abc.abstractmethod
    def pick(self, chosen: Any) -> Any:
        """The rows of these numbers, an array of any shape, which the rows get in front."""

    def begin(self, chosen: dict[str, Any]) -> Any:
        """Told before the pass of a refresh: the rows that the small batches of its epoch need.

        `chosen` has arrays of steps × size numbers of rows, with an axis of seeds in front where
        several runs go side by side. The int32 that is returned is the token of this pass. It may
        not come to `picked`, if a run ends.
        """
        return -1

    def picked(self, token: Any, role: str, chosen: Any) -> Any:
        """`pick(chosen)` after that pass, with what one seed had under that name in `begin`."""
        return self.pick(chosen)


class FedSource(Source):
    """Rows that a `Feed` hands over.

    A pass is a loop over chunks. The small batches of an epoch are picked while the pass of its
    refresh goes by, and arrive as arrays with a leading axis of steps.
    """

    traceable: ClassVar[bool] = False

    feed: Feed = eqx.field(static=True)

    @property
    def count(self) -> int:
        return self.feed.count

    def spec(self) -> Any:
        return self.feed.spec

    def everything(self) -> Batch:
        return Fed(self.feed, self.count)

    def part(self, most: int | None) -> Batch:
        return self.everything() if most is None or most >= self.count else self.spread(most)

    def refresh_ticket(self, words: Words, size: int | None) -> Any:
        return None if size is None else words.indices(1, size, self.count)[0]

    def refresh(self, ticket: Any, size: int | None) -> Batch:
        if size is None:
            return self.everything()
        return Picked(self.feed, lambda i: ticket[i], size)

    def subsample(self, bits: Any, size: int, i: Any) -> Batch:
        if self.count <= size:
            return self.everything()
        return self._spread(size, 0, (i % -(-self.count // size)) * size)

    def spread(self, size: Any, shift: Any = 0) -> Batch:
        return self._spread(size, shift, 0)

    def _spread(self, size: Any, shift: Any, first: Any) -> Batch:
        count, stride = self.count, stride_of(self.count)

        def chosen(i: Any) -> Any:
            return (spread((first + i) % count, stride, count, count) + shift) % count

        return Picked(self.feed, chosen, size, None if isinstance(size, int) else self.feed.chunk)

    def tickets(self, words: Words, steps: int, size: int) -> Any:
        if size == self.count:
            return np.zeros(steps, np.int32)
        return row_tickets(words, SAMPLING[0], self.count, steps, size)

    def small(self, ticket: Any, size: int) -> Batch:
        raise AssertionError("all small batches of an epoch are picked together")

    def epoch(
        self, refresh: Mapping[str, Any], small: Mapping[str, Any]
    ) -> tuple[dict[str, Batch], Callable[[Any], dict[str, Draws]]]:
        passes = {role: self.refresh(*given) for role, given in refresh.items()}
        chosen = {role: self._chosen(*given) for role, given in small.items()}
        drawn = {role: found for role, found in chosen.items() if found is not None}
        if not drawn or not any(isinstance(batch, Fed) for batch in passes.values()):
            return passes, lambda after: {
                role: self._opened(*given, chosen[role], self.feed.pick)
                for role, given in small.items()
            }

        def begin(*given: Any) -> Any:
            return np.int32(self.feed.begin(dict(zip(drawn, given, strict=True))))

        token = feeding.call(
            begin, jax.ShapeDtypeStruct((), jnp.int32), *drawn.values(), how=feeding.ONCE
        )
        for role, batch in passes.items():
            if isinstance(batch, Fed):
                passes[role] = dataclasses.replace(batch, token=token)

        def draws(after: Any) -> dict[str, Draws]:
            def pick(role: str) -> Callable[..., Any]:
                return lambda found, token, _: self.feed.picked(token, role, found)

            more = token, _waited(after)
            return {
                role: self._opened(*given, chosen[role], pick(role), *more)
                for role, given in small.items()
            }

        return passes, draws

    def _chosen(self, tickets: Any, size: int) -> Any:
        """Numbers of rows, steps × size; None where a batch is everything."""
        if size == self.count:
            return None
        if tickets.dtype != np.uint32:
            return tickets
        keys = jax.random.wrap_key_data(tickets)
        return jax.vmap(lambda key: indices(key, size, self.count))(keys)

    def _opened(self, tickets: Any, size: int, chosen: Any, pick: Any, *more: Any) -> Draws:
        if chosen is None:
            return tickets, lambda t: self.everything()
        rows = feeding.call(pick, shapes_of(self.feed.spec, chosen.shape), chosen, *more)
        return (rows, chosen), lambda ticket: Handed(ticket[0], ticket[1], size)


def _waited(after: Any) -> Any:
    """A number that is known once all of a tree is."""
    leaves = jax.tree_util.tree_leaves(after)
    firsts = [a.ravel()[:1] != a.ravel()[:1] for a in leaves if a.size]
    return sum((jnp.sum(a, dtype=jnp.int32) for a in firsts), jnp.int32(0))


def shapes_of(spec: Any, front: tuple[int, ...]) -> Any:
    each = jax.tree_util.tree_map
    return each(lambda s: jax.ShapeDtypeStruct((*front, *s.shape), s.dtype), spec)


@dataclasses.dataclass(frozen=True)
class Fed(Batch):
    """Every row, chunk by chunk: each is fetched once, and summed as rows in memory are."""

    complete: ClassVar[bool] = True

    feed: Feed
    size: int
    token: Any = -1

    def chunk(self, first: Any) -> Any:
        shapes = shapes_of(self.feed.spec, (self.feed.chunk,))
        return feeding.call(self.feed.cut, shapes, jnp.int32(self.token), jnp.int32(first))

    def piece(self, start: Any, length: int) -> Any:
        chosen = start + jnp.arange(length, dtype=jnp.int32)
        return feeding.call(self.feed.pick, shapes_of(self.feed.spec, (length,)), chosen)

    def indices(self) -> Any:
        return jnp.arange(self.size, dtype=jnp.int32)

    def at_once(self, most: int) -> bool:
        return False

    def in_one_piece(self, most: int) -> bool:
        return False

    def sum(self, part: Callable[[Samples], Any], most: int) -> Any:
        length = self.feed.chunk

        def one(i: Any) -> Any:
            rows = self.chunk(i * length)
            return Rows(rows, jnp.minimum(length, self.size - i * length), length).sum(part, most)

        def add(total: Any, i: Any) -> tuple[Any, None]:
            return jax.tree_util.tree_map(jnp.add, total, one(i)), None

        shapes = jax.eval_shape(one, jax.ShapeDtypeStruct((), jnp.int32))
        zeros = jax.tree_util.tree_map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        chunks = jnp.arange(-(-self.size // length), dtype=jnp.int32)
        return jax.lax.scan(add, zeros, chunks)[0]


@dataclasses.dataclass(frozen=True)
class Picked(Batch):
    """Rows by number, fetched in each piece."""

    feed: Feed
    chosen: Callable[[Any], Any]  # numbers of rows at some places
    size: Any
    length: int | None = None

    def piece(self, start: Any, length: int) -> Any:
        chosen = self.chosen(start + jnp.arange(length, dtype=jnp.int32))
        return feeding.call(self.feed.pick, shapes_of(self.feed.spec, (length,)), chosen)

    def indices(self) -> Any:
        return self.chosen(jnp.arange(self.size, dtype=jnp.int32))


@dataclasses.dataclass(frozen=True)
class Handed(Batch):
    """A small batch whose rows are here."""

    rows: Any
    chosen: Any
    size: int

    def piece(self, start: Any, length: int) -> Any:
        if length == self.size:
            return self.rows
        cut = lambda a: jax.lax.dynamic_slice_in_dim(a, start, length)  # noqa: E731
        return jax.tree_util.tree_map(cut, self.rows)

    def indices(self) -> Any:
        return self.chosen
