"""Where samples come from: rows of the user's arrays or a `Stream`, and how batches are drawn.

A batch is a `Samples`: something with a size that hands out pieces, so that a large batch can be
evaluated in chunks without ever being held as a whole.
"""

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
from jaxtyping import Array, Int, UInt32

from mvrc import checks

SAMPLING = ("replacement", "reshuffled")

# Indices of a whole epoch are drawn at once up to this many (4 MiB), step by step above it.
_AT_ONCE = 2**20

# Up to this many rows a random word gives two indices.
_TWICE = 2**20

# Rows of data larger than a processor's cache are fetched before they are copied: of each row the
# first lines, as processors fetch the next ones of a long row by themselves.
_CACHE, _LINE, _LINES = 2**22, 64, 8

# Of many more blocks than an epoch takes, only those that it takes are put into a random order.
_MANY, _ROUNDS = 4, 6

_INT32 = 2**31 - 1  # the largest 32-bit integer


def key_bits(seed: int) -> Any:
    """The bits of a random key: those of jax.random.key(seed) below 2³², and all 64 above it,
    where JAX without 64-bit mode keeps the lower half only."""
    return np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)


class Stream(eqx.Module):
    """An endless source of samples, for the online classes E¹ and E².

    The expectation itself is never known, so what is *measured* (objective, gradient mapping) is
    the mean over one fixed evaluation batch, the same for every run and every method.

    Args:
        draw: `draw(key, size)` gives a pytree of arrays with leading axis `size`; JAX-traceable.
        evaluation_size: number of samples in the evaluation batch.
        seed: seed of the evaluation batch alone; a run's own draws come from `minimize(seed=)`.
    """

    draw: Callable[[Any, int], Any] = eqx.field(static=True)
    evaluation_size: int = eqx.field(static=True)
    seed: int = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(
        self, draw: Callable[[Any, int], Any], evaluation_size: int = 10_000, seed: int = 0
    ) -> None:
        if not callable(draw):
            raise TypeError(f"draw must be a function draw(key, size), not {checks.shown(draw)}.")
        self.draw = draw
        self.evaluation_size = checks.whole("evaluation_size", evaluation_size, least=2)
        self.seed = checks.seed("seed", seed)

    def evaluation(self) -> Streamed:
        """The fixed batch on which objective and gradient mapping are measured."""
        key = jax.random.wrap_key_data(key_bits(self.seed))
        return Streamed(self.draw, key, self.evaluation_size)


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
                checks.whole(f"{field.name} of Sizes", size)


class Samples(abc.ABC):
    """A batch that hands out pieces `[start, start + length)`."""

    size: int

    @abc.abstractmethod
    def piece(self, start: Any, length: int) -> Any:
        """A pytree with leading axis `length`; `start` may be traced, `length` is static."""

    def indices(self) -> Int[Array, " size"]:
        """The rows of the batch, for methods that keep a table; a stream has none."""
        raise AssertionError("only rows of arrays have indices")


@dataclasses.dataclass(frozen=True)
class Rows(Samples):
    """All rows of the arrays, in order, without a copy."""

    data: Any
    size: int

    def piece(self, start: Any, length: int) -> Any:
        if length == self.size:
            return self.data
        return _cut(self.data, start, length, self.size)

    def indices(self) -> Int[Array, " size"]:
        return jnp.arange(self.size, dtype=jnp.int32)


def _cut(data: Any, start: Any, length: int, size: int) -> Any:
    """Rows from `start` on, copied as one run of numbers: row by row takes half as long again."""
    each = jax.tree_util.tree_map
    # Where a number's place exceeds an index of 32 bits, rows are counted instead.
    width = each(lambda a: 1 if a.size > _INT32 else a.size // size, data)
    runs = each(lambda a: a if a.size > _INT32 else a.reshape(-1), data)
    first = each(lambda w: start * w, width)

    def cut() -> Any:
        slices = jax.lax.dynamic_slice_in_dim
        return each(lambda run, i, w: slices(run, i, length * w), runs, first, width)

    def top() -> Any:
        return each(lambda run, w: run[: length * w], runs, width)

    def rows() -> Any:
        cuts = jax.lax.cond(start >= 0, cut, top)
        return each(lambda c, a: c.reshape(length, *a.shape[1:]), cuts, data)

    # Branches that are always taken: the inner one keeps the copy a plain run, the outer one the
    # rows whole. XLA then multiplies them by its fast kernels, instead of cutting or folding them
    # anew inside a slow loop for every product.
    return jax.lax.cond(start < size, rows, lambda: each(lambda a: a[:length], data))


def _take(chosen: Any, data: Any) -> Any:
    return jax.tree_util.tree_map(lambda a: a.at[chosen].get(mode="promise_in_bounds"), data)


@jax.custom_batching.custom_vmap
def _gathered(chosen: Int[Array, " size"], data: Any) -> Any:
    """Rows at some indices, by one thread.

    A branch that is always taken: outside of one XLA splits the rows of a small batch among its
    threads, which costs more than the copy.
    """
    few = jax.tree_util.tree_map(lambda a: jnp.zeros((len(chosen), *a.shape[1:]), a.dtype), data)
    leaves = jax.tree_util.tree_leaves(data)
    touched = sum(_touched(chosen, a) for a in leaves if a.nbytes > _CACHE)
    always = (chosen[0] >= 0) & (touched >= 0)
    return jax.lax.cond(always, lambda: _take(chosen, data), lambda: few)


def _touched(chosen: Int[Array, " size"], a: Array) -> Any:
    """A count that needs a number of the rows' first cache lines, so that they are fetched.

    Memory is asked for many of these at once, for rows that are copied for a few only.
    """
    numbers = a.reshape(a.shape[0], -1)
    width = numbers.shape[1]
    places = {*range(0, width, max(1, _LINE // a.dtype.itemsize)), width - 1}
    first = np.array(sorted(places)[:_LINES], np.int32)
    found = numbers.at[chosen[:, None], first].get(mode="promise_in_bounds")
    return jnp.sum(found != 0, dtype=jnp.int32)


@_gathered.def_vmap
def _(lanes: int, batched: Any, chosen: Any, data: Any) -> tuple[Any, Any]:
    # Of a cond both branches would run.
    return _take(chosen, data), jax.tree_util.tree_map(lambda _: True, data)


@dataclasses.dataclass(frozen=True)
class Gathered(Samples):
    """Rows at drawn indices."""

    data: Any
    chosen: Int[Array, " size"]
    size: int

    def piece(self, start: Any, length: int) -> Any:
        chosen = self.chosen
        if length != self.size:
            chosen = jax.lax.dynamic_slice_in_dim(chosen, start, length)
        return _gathered(chosen, self.data)

    def indices(self) -> Int[Array, " size"]:
        return self.chosen


@dataclasses.dataclass(frozen=True)
class Block(Samples):
    """`size` contiguous rows from `first` on, wrapping round the end."""

    data: Any
    first: Int[Array, ""]
    size: int
    count: int  # rows in all

    def piece(self, start: Any, length: int) -> Any:
        start = _turned(self.first, start, self.count)
        if self.count % self.size == 0 and length == self.size:
            return Rows(self.data, self.count).piece(start, length)

        def inside(start: Any, a: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(a, start, length)

        def over_the_end(start: Any, a: Array) -> Array:
            # The last rows joined to the first, and cut there.
            joined = jnp.concatenate([a[-length:], a[:length]], axis=0)
            return jax.lax.dynamic_slice_in_dim(joined, start - (self.count - length), length)

        @jax.custom_batching.custom_vmap
        def wrapped(start: Any, a: Array) -> Array:
            return jax.lax.cond(start <= self.count - length, inside, over_the_end, start, a)

        @wrapped.def_vmap
        def _(lanes: int, batched: Any, starts: Any, a: Array) -> tuple[Array, bool]:
            # Slices at many starts are gathers anyway, and of a cond both branches would run.
            rows = (starts[:, None] + jnp.arange(length, dtype=starts.dtype)) % self.count
            return a.at[rows].get(mode="promise_in_bounds"), True

        return jax.tree_util.tree_map(lambda a: wrapped(start, a), self.data)

    def indices(self) -> Int[Array, " size"]:
        return _turned(self.first, jnp.arange(self.size, dtype=jnp.int32), self.count)


@dataclasses.dataclass(frozen=True)
class Streamed(Samples):
    """Fresh samples from a stream; the same key and pieces give the same samples."""

    draw: Callable[[Any, int], Any]
    key: Any
    size: int

    def piece(self, start: Any, length: int) -> Any:
        return self.draw(jax.random.fold_in(self.key, start), length)


def row_bytes(batch: Samples) -> int:
    """Memory of one row of the data that a batch comes from; 0 for a stream, which has none."""
    if isinstance(batch, Rows | Gathered | Block):
        return sum(a.nbytes // a.shape[0] for a in jax.tree_util.tree_leaves(batch.data))
    return 0


class Source(eqx.Module):
    """One side's samples (inner or outer) with the rule by which batches are drawn from it."""

    data: Any  # pytree of arrays, or a Stream
    count: int | None = eqx.field(static=True)  # None: a stream
    sampling: str = eqx.field(static=True)

    def everything(self) -> Samples:
        """Every sample once (of a stream: the evaluation batch)."""
        if self.count is None:
            return self.data.evaluation()
        return Rows(self.data, self.count)

    def part(self, most: int | None) -> Samples:
        """Everything, or where that is more than `most` so many of it, always the same ones.

        Those of arrays are spread over all rows; of a stream it is a smaller evaluation batch.
        """
        everything = self.everything()
        if most is None or most >= everything.size:
            return everything
        if isinstance(everything, Streamed):
            return dataclasses.replace(everything, size=most)
        return self.scattered(most, 0)(0)

    def large(self, key: Any, size: int | None) -> Samples:
        """The batch of a refresh: everything when `size` is None, else a fresh draw."""
        if self.count is None:
            assert size is not None, "a refresh from a stream has a size"
            return Streamed(self.data.draw, key, size)
        if size is None or size == self.count:
            return self.everything()
        return Gathered(self.data, _indices(key, (size,), self.count), size)

    def scattered(self, rows: int, shift: Any) -> Callable[[Any], Samples]:
        """Piece i of all rows in an order that is spread over the data; ⌈n/rows⌉ pieces are all."""
        data, count = self.data, self.count
        assert count is not None
        stride = next(
            a for a in range(int(0.618 * count) + 1, count + 2) if math.gcd(a, count) == 1
        )
        within = np.arange(rows, dtype=np.int64) * stride % count
        firsts = np.arange(-(-count // rows), dtype=np.int64) * (rows * stride) % count
        places, starts = jnp.asarray(within, jnp.int32), jnp.asarray(firsts, jnp.int32)
        return lambda i: Gathered(data, ((places + starts[i]) % count + shift) % count, rows)

    def plan(self, key: Any, steps: int, size: int) -> tuple[Any, Callable[[Any], Samples]]:
        """Draws for `steps` small batches: per-step tickets, and the way from ticket to batch."""
        times = jnp.arange(steps)
        if self.count is None:
            draw = self.data.draw
            return times, lambda t: Streamed(draw, jax.random.fold_in(key, t), size)
        data, count = self.data, self.count
        if size == count:
            return times, lambda t: Rows(data, count)
        if self.sampling == "reshuffled":
            starts = _block_starts(key, steps, size, count)
            return starts, lambda first: Block(data, first, size, count)
        if steps * size > _AT_ONCE:

            def at_step(t: Any) -> Samples:
                return Gathered(data, _indices(jax.random.fold_in(key, t), (size,), count), size)

            return times, at_step
        chosen = _indices(key, (steps, size), count)
        return chosen, lambda indices: Gathered(data, indices, size)


def _indices(key: Any, shape: tuple[int, ...], count: int) -> Int[Array, ...]:
    """Uniform on 0, …, count − 1: ⌊w·count/2⁶⁴⌋ for a random 64-bit word w.

    What the product leaves, w·count mod 2⁶⁴, is the word of a second index: uniform to one part in
    2⁶⁴/count², hence used while that is 2²⁴ or more. Random words are what a draw costs.
    """
    *lead, size = shape
    twice = count <= _TWICE
    words = (size + 1) // 2 if twice else size
    high, low = jax.random.bits(key, (2, *lead, words), jnp.uint32)
    index, high, low = _scaled(high, low, count)
    if twice:
        index = jnp.concatenate([index, _scaled(high, low, count)[0]], axis=-1)[..., :size]
    return index.astype(jnp.int32)


def _scaled(high: Any, low: Any, count: int) -> tuple[Any, Any, Any]:
    """The three words of the product of a 64-bit word and a count, in 32-bit arithmetic."""
    below = high * jnp.uint32(count)
    middle = below + _times(low, count)
    return _times(high, count) + (middle < below), middle, low * jnp.uint32(count)


def _times(word: UInt32[Array, ...], count: int) -> UInt32[Array, ...]:
    """The upper 32 bits of the 64-bit product word·count, in 32-bit arithmetic."""
    w1, w0 = word >> 16, word & 0xFFFF
    c1, c0 = jnp.uint32(count >> 16), jnp.uint32(count & 0xFFFF)
    middle = (w0 * c0 >> 16) + (w0 * c1 & 0xFFFF) + (w1 * c0 & 0xFFFF)
    return w1 * c1 + (w0 * c1 >> 16) + (w1 * c0 >> 16) + (middle >> 16)


def _block_starts(key: Any, steps: int, size: int, count: int) -> Int[Array, " steps"]:
    """Starts of contiguous blocks: each pass visits all blocks once, in random order.

    The blocks' common offset is uniform on the circle of rows, hence every row is equally likely
    even when the size does not divide the number of rows.
    """
    blocks = max(1, count // size)
    passes = -(-steps // blocks)
    if blocks > _MANY * steps:
        starts = _some_of_an_order(key, steps, blocks)[None] * size
    else:
        words = jax.random.bits(key, (passes, blocks), jnp.uint32)  # sorted: a random order
        starts = jnp.argsort(words, axis=1).astype(jnp.int32) * size
    if count % size:
        starts = _turned(starts, _indices(jax.random.fold_in(key, 1), (passes, 1), count), count)
    return starts.reshape(-1)[:steps]


def _some_of_an_order(key: Any, places: int, count: int) -> Int[Array, " places"]:
    """What stands at the first places of a random order of 0, …, count − 1, without the others.

    The order is that of a Feistel cipher with random keys on the next even power of two, followed
    until it is back below the count, and turned by a uniform number: each place is uniform.
    """
    half = (max(2, (count - 1).bit_length()) + 1) // 2
    low = jnp.uint32(2**half - 1)
    keys = jax.random.bits(key, (_ROUNDS,), jnp.uint32)

    def cipher(number: UInt32[Array, ...]) -> UInt32[Array, ...]:
        left, right = number >> half, number & low
        for i in range(_ROUNDS):
            mixed = (right ^ keys[i]) * jnp.uint32(0x9E3779B1)
            mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(0x85EBCA77)
            left, right = right, left ^ ((mixed ^ (mixed >> 13)) & low)
        return (left << half) | right

    number = jax.lax.while_loop(
        lambda number: jnp.any(number >= count),
        lambda number: jnp.where(number >= count, cipher(number), number),
        cipher(jnp.arange(places, dtype=jnp.uint32)),
    )
    turn = _indices(jax.random.fold_in(key, 2), (1,), count)
    return _turned(number.astype(jnp.int32), turn, count)


def _turned(number: Any, turn: Any, count: int) -> Any:
    """(number + turn) mod count of two numbers below it, whose sum may be too large for 32 bits."""
    rest = number - (count - turn)
    return jnp.where(rest < 0, rest + count, rest)
