"""The contract of data: a `Source` gives batches, a `Batch` gives samples and sums over them.

A new kind of data is a new file beside this one. Nobody outside of this room asks what kind it is,
only what a source says of itself: how many samples there are, and that it is endless.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from mvrc.support import checks

# A sum over more samples than a piece may have is made of pieces of about a sixteenth of that.
_PIECES = 16
_LEAST = 1024  # samples of a piece, if it may have so many


def key_bits(seed: int) -> Any:
    """The bits of a random key: those of jax.random.key(seed) below 2³², and all 64 above it,
    where JAX without 64-bit mode keeps the lower half only."""
    return np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Batch sizes of the three independent draws A (values), A' (Jacobians) and B (outer).

    `None` stands for every sample, and where there is one outer function for that function.
    """

    values: int | None = None
    jacobians: int | None = None
    outer: int | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            size = getattr(self, field.name)
            if size is not None:
                checks.integer(f"{field.name} of Sizes", size)


class Batch(abc.ABC):
    """Some samples, in an order that the source fixes, without being held as a whole.

    Sample i depends on the batch alone, never on the piece that it is asked for in.
    """

    size: int
    complete: ClassVar[bool] = False  # whether it is every sample that there is

    @abc.abstractmethod
    def piece(self, start: Any, length: int) -> Any:
        """Samples start, …, start + length − 1: a pytree with that leading axis.

        `start` may be traced, `length` is static.
        """

    def samples(self) -> Any:
        """All of them, of a batch that is small."""
        return self.piece(0, self.size)

    def indices(self) -> Int[Array, " size"]:
        """The rows of the batch, for methods that keep a table."""
        raise AssertionError("only rows of arrays have indices")

    def piece_limit(self) -> int:
        """The most samples that a piece should have."""
        return self.size

    def sum(self, part: Callable[[Any], Any], most: int) -> Any:
        """Σ part(piece) over pieces of at most `most` samples."""
        if self.size <= most:
            return part(self.samples())
        limit = min(most, self.piece_limit())
        rows = min(max(most // _PIECES, min(most, _LEAST)), limit)
        # Pieces without a rest where that can be had: `part` is then in the program only once.
        lengths = range(max(1, rows // 2), min(2 * rows, limit) + 1)
        even = [length for length in lengths if self.size % length == 0]
        rows = min(even, key=lambda length: abs(length - rows), default=rows)
        count, rest = divmod(self.size, rows)

        def add(total: Any, i: Any) -> tuple[Any, None]:
            return jax.tree_util.tree_map(jnp.add, total, part(self.piece(i * rows, rows))), None

        shapes = jax.eval_shape(lambda: part(self.piece(0, rows)))
        zeros = jax.tree_util.tree_map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        total, _ = jax.lax.scan(add, zeros, jnp.arange(count))
        if rest:
            last = part(self.piece(count * rows, rest))
            total = jax.tree_util.tree_map(jnp.add, total, last)
        return total


Draws = tuple[Any, Callable[[Any], Batch]]  # tickets, one per step, and what opens a ticket


class Source(eqx.Module):
    """The samples of one side, inner or outer.

    Sample i of the batch of step t depends on the key, on t and on i alone.
    """

    @property
    @abc.abstractmethod
    def count(self) -> int | None:
        """How many there are; None: endless."""

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
    def refresh(self, key: Any, size: int | None) -> Batch:
        """The batch of a refresh: everything when `size` is None, else a fresh draw."""

    @abc.abstractmethod
    def subsample(self, key: Any, size: int, i: Any) -> Batch:
        """About `size` samples spread over all; another number i gives others, until all were
        seen."""

    @abc.abstractmethod
    def scattered(self, rows: int, shift: Any) -> Callable[[Any], Batch]:
        """Piece i of all samples in an order that is spread over them; ⌈n/rows⌉ pieces are all."""

    @abc.abstractmethod
    def thinned(self, rows: int) -> Source:
        """A random part of the samples as a source of its own, always the same one."""

    @abc.abstractmethod
    def draws(self, key: Any, steps: int, size: int) -> Draws:
        """The small batches of so many steps."""
