"""The contract of data: a `Source` gives batches, a `Batch` gives samples and sums over them.

A new kind of data is a new file beside this one. Nobody outside of this room asks what kind it is,
only what a source says of itself: how many samples there are, and that it is endless.

Longer than other files: the contract, which is read as a whole.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import Array, Bool, Int

from mvrc.sampling.draws import Words

# A sum over more samples than a piece may have is made of pieces of about a sixteenth of that.
_PIECES = 16
_LEAST = 1024  # samples of a piece, if it may have so many


def key_bits(seed: int) -> Any:
    """The bits of a random key: those of jax.random.key(seed) below 2³², and all 64 above it,
    where JAX without 64-bit mode keeps the lower half only."""
    return np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)


class Samples(NamedTuple):
    """Some samples, of which those that are not `valid` only fill up a shape."""

    rows: Any  # a pytree with a leading axis
    valid: Bool[Array, " length"] | None = None  # None: all are

    def sum(self, each: Any) -> Any:
        """The sum of what is there for each sample, along the leading axis."""

        def total(a: Any) -> Any:
            if self.valid is not None:
                a = jnp.where(self.valid.reshape(-1, *(1,) * (a.ndim - 1)), a, 0)
            return jnp.sum(a, axis=0)

        return jax.tree_util.tree_map(total, each)


class Batch(abc.ABC):
    """Some samples, in an order that the source fixes, without being held as a whole.

    Sample i depends on the batch alone, never on the piece that it is asked for in.
    """

    size: Any  # a number that may be traced
    length: int | None = None  # samples of a piece, a power of two, where the size is traced
    most: int | None = None  # what such a size is at most, where that is one piece
    complete: ClassVar[bool] = False  # whether it is every sample that there is
    distinct: ClassVar[bool] = False  # whether it is known that none is there twice

    @abc.abstractmethod
    def piece(self, start: Any, length: int) -> Any:
        """Samples start, …, start + length − 1: a pytree with that leading axis.

        `start` may be traced, `length` is static.
        """

    def samples(self) -> Any:
        """All of them, of a batch that is small."""
        return self.piece(0, self.size)

    def each(self, function: Callable[[Any], Any]) -> Any:
        """What a function makes of rows with a leading axis, of all of them."""
        return function(self.samples())

    def indices(self) -> Int[Array, " size"]:
        """The rows of the batch, for methods that keep a table."""
        raise AssertionError("only rows of arrays have indices")

    def piece_limit(self) -> int:
        """The most samples that a piece should have."""
        return self.size

    def amount(self) -> Any:
        """The size, to be counted: a number, or an `Amount`."""
        return self.size

    def outside(self) -> Any:
        """Outer samples among them, of a coupled problem."""
        return 0

    def at_once(self, most: int) -> bool:
        """Whether they are known to be at most so many."""
        return self.length is None and self.size <= most

    def in_one_piece(self, most: int) -> bool:
        """Whether a sum over pieces of at most so many samples is no loop."""
        if self.length is None:
            return self.size <= most
        return self.most is not None and self.most <= _piece(self.length, most)

    def mean(self, part: Callable[[Samples], Any], most: int) -> Any:
        """The same divided by the size."""
        return self.divided(self.sum(part, most))

    def divided(self, total: Any) -> Any:
        """A total divided by the size, and joined."""
        if self.length is None:
            return self.joined(jax.tree_util.tree_map(lambda a: a / self.size, total))
        size = jnp.asarray(self.size)
        return self.joined(jax.tree_util.tree_map(lambda a: a / size.astype(a.dtype), total))

    def joined(self, mean: Any) -> Any:
        """The mean over all that hold a part of the batch, of the mean over this part."""
        return mean

    def sum(self, part: Callable[[Samples], Any], most: int) -> Any:
        """Σ part(piece) over pieces of at most `most` samples."""
        if self.length is not None:
            return self._sum_traced(part, most, _piece(self.length, most))
        if self.in_one_piece(most):
            return part(Samples(self.samples()))
        limit = min(most, self.piece_limit())
        rows = min(max(most // _PIECES, min(most, _LEAST)), limit)
        # Pieces without a rest where that can be had: `part` is then in the program only once.
        lengths = range(max(1, rows // 2), min(2 * rows, limit) + 1)
        even = [length for length in lengths if self.size % length == 0]
        rows = min(even, key=lambda length: abs(length - rows), default=rows)
        count, rest = divmod(self.size, rows)

        def add(total: Any, i: Any) -> tuple[Any, None]:
            more = part(Samples(self.piece(i * rows, rows)))
            return jax.tree_util.tree_map(jnp.add, total, more), None

        zeros = _zeros(lambda: part(Samples(self.piece(0, rows))))
        total, _ = jax.lax.scan(add, zeros, jnp.arange(count))
        if rest:
            last = part(Samples(self.piece(count * rows, rest)))
            total = jax.tree_util.tree_map(jnp.add, total, last)
        return total

    def _sum_traced(self, part: Callable[[Samples], Any], most: int, rows: int) -> Any:
        """The same in pieces of so many samples; what the last has too many of is not valid."""

        def piece(i: Any) -> Any:
            start = i * rows
            valid = start + jnp.arange(rows, dtype=jnp.int32) < self.size
            return part(Samples(self.piece(start, rows), valid))

        if self.in_one_piece(most):
            return piece(jnp.int32(0))
        traced, shapes = jax.make_jaxpr(piece, return_shape=True)(jnp.int32(0))  # once for all
        leaves, tree = jax.tree_util.tree_flatten(shapes)

        def add(i: Any, total: list[Any]) -> list[Any]:
            return [a + b for a, b in zip(total, core.jaxpr_as_fun(traced)(i), strict=True)]

        pieces = (self.size + (rows - 1)) // rows
        zeros = [jnp.zeros(s.shape, s.dtype) for s in leaves]
        total = jax.lax.fori_loop(0, pieces, add, zeros)
        return jax.tree_util.tree_unflatten(tree, total)


def _piece(length: int, most: int) -> int:
    """Samples of a piece where the size is traced: a power of two."""
    return min(length, 2 ** (most.bit_length() - 1))


def _zeros(like: Callable[[], Any]) -> Any:
    shapes = jax.eval_shape(like)
    return jax.tree_util.tree_map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)


Draws = tuple[Any, Callable[[Any], Batch]]  # tickets, one per step, and what opens a ticket


class Source(eqx.Module):
    """The samples of one side, inner or outer.

    What is random is drawn by the host, as tickets: arrays that a program is given, and makes
    batches of. Sample i of the batch of step t depends on the words, on t and on i alone.
    """

    drawn: ClassVar[bool] = False  # whether a mean over everything has a standard error
    traceable: ClassVar[bool] = True  # False: the host hands rows over while a program runs

    @property
    @abc.abstractmethod
    def count(self) -> int | None:
        """How many there are; None: endless."""

    @property
    def capacity(self) -> int | None:
        """How many there may be in the programs of this one; None: endless."""
        return self.count

    @abc.abstractmethod
    def given(self) -> Any:
        """What the user gave."""

    @abc.abstractmethod
    def spec(self) -> Any:
        """Shapes and dtypes of one sample."""

    @abc.abstractmethod
    def fingerprint(self) -> tuple[str, Any]:
        """What a resumed run must find again: words, and arrays or a function to be compared."""

    @abc.abstractmethod
    def everything(self) -> Batch:
        """Every sample once; of an endless source the fixed batch that is measured on."""

    @abc.abstractmethod
    def part(self, most: int | None) -> Batch:
        """Everything, or where that is more than `most` so many of it, always the same ones."""

    @abc.abstractmethod
    def refresh_ticket(self, words: Words, size: int | None) -> Any:
        """What tells the batch of a refresh; None: everything."""

    @abc.abstractmethod
    def refresh(self, ticket: Any, size: int | None) -> Batch:
        """That batch: everything when `size` is None, else so many samples."""

    @abc.abstractmethod
    def subsample(self, bits: Any, size: int, i: Any) -> Batch:
        """About `size` samples spread over all; another number i gives others, until all were
        seen. The bits are those of a key."""

    @abc.abstractmethod
    def spread(self, size: Any, shift: Any = 0) -> Batch:
        """So many samples, a number that may be traced, spread over all; n of them are all."""

    @abc.abstractmethod
    def thinned(self, rows: int) -> Source:
        """A random part of the samples as a source of its own, always the same one."""

    def sampled(self, sampling: str) -> Source:
        """The same with small batches drawn that way, where there is more than one."""
        return self

    def note(self, rows: int) -> str:
        """What is to be said of an epoch with so many rows in small batches; "" for nothing."""
        return ""

    def numbered(self, numbers: np.ndarray) -> Any:
        """Some samples by number, asked outside of programs."""
        batch = self.everything()
        if np.all(np.diff(numbers) == 1):
            return batch.piece(int(numbers[0]), len(numbers))
        each = [batch.piece(int(i), 1) for i in numbers]
        return jax.tree_util.tree_map(lambda *a: np.concatenate(a), *each)

    def devices(self) -> list[Any]:
        """Those of a mesh that the samples are shared out among, if there is one."""
        return []

    def packed(self, side: str, numbers: int) -> Source:
        """The same in a shape that other numbers of samples share, where it has such a thing.

        `side` is "inner" or "outer"; `numbers` is what the evaluation of a sample holds.
        """
        return self

    def stage(self, bits: Any, rows: int) -> Source:
        """What a stage of a run on growing batches passes over: so many fresh samples of an endless
        source, drawn by a key of these bits; of any other source everything."""
        return self

    @abc.abstractmethod
    def tickets(self, words: Words, steps: int, size: int) -> Any:
        """What tells the small batches of so many steps; a leading axis of steps."""

    def all_tickets(self, small: Mapping[str, tuple[Words, int]], steps: int) -> dict[str, Any]:
        """Those of all the small batches that an epoch draws here, by role."""
        return {role: self.tickets(words, steps, size) for role, (words, size) in small.items()}

    @abc.abstractmethod
    def small(self, ticket: Any, size: int) -> Batch:
        """The small batch that one of them tells."""

    def epoch(
        self, refresh: Mapping[str, tuple[Any, int | None]], small: Mapping[str, tuple[Any, int]]
    ) -> tuple[dict[str, Batch], Callable[[Any], dict[str, Draws]]]:
        """All batches of an epoch from this source, by role: those of its refresh, and what gives
        those of its small steps.

        They are asked for together, as a source may pick small batches while the pass of the
        refresh goes by, or exchange all of them at once.

        Args:
            refresh: tickets and sizes of the batches of `refresh`; empty where none is made.
            small: tickets of all steps, and sizes.

        Returns:
            the batches, and a function of `after`, numbers that are known once the refresh is made.
        """
        batches = {role: self.refresh(ticket, size) for role, (ticket, size) in refresh.items()}

        def opener(size: int) -> Callable[[Any], Batch]:
            return lambda ticket: self.small(ticket, size)

        def draws(after: Any) -> dict[str, Draws]:
            return {role: (tickets, opener(size)) for role, (tickets, size) in small.items()}

        return batches, draws
