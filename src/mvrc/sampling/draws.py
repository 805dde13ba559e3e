"""Random indices and orders, by the host in NumPy and inside a program."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt32

_ROUNDS = 6  # of the cipher that makes a random order

# SplitMix64 (Steele, Lea & Flood, Fast Splittable Pseudorandom Number Generators, 2014).
_STEP = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_WORD = 2**64

_SORTED = 2**12  # blocks up to which an order of all takes less time than one of those needed
_TOGETHER = 2**13  # words that are made at a time: they stay in a core's cache


class Words:
    """Random 64-bit words of the host: word i of row t depends on the names, on t and on i alone.

        w(t, i) = mix(key + (2³²t + i)·0x9E3779B97F4A7C15),

    with SplitMix64's mix, and as key the same of the names, one after the other.

    Args:
        names: numbers: a seed, an epoch, what is drawn.
    """

    def __init__(self, *names: int) -> None:
        key = 0
        for name in names:
            key = (key + (name + 1) * _STEP) % _WORD
            for shift, factor in _MIX:
                key = (key ^ key >> shift) * factor % _WORD
            key ^= key >> 31
        self._key = key

    def rows(self, first: int, count: int, size: int) -> np.ndarray:
        """Rows first, …, first + count − 1 of `size` words."""
        times = np.arange(first, first + count, dtype=np.uint64) << np.uint64(32)
        begins = times * np.uint64(_STEP) + np.uint64(self._key)
        return _mixed(begins[:, None] + np.arange(size, dtype=np.uint64) * np.uint64(_STEP))

    def indices(self, rows: int, size: int, count: int) -> np.ndarray:
        """Uniform on 0, …, count − 1: ⌊w·count/2⁶⁴⌋."""
        found = np.empty((rows, size), np.int32)
        some = max(1, _TOGETHER // size)
        for first in range(0, rows, some):
            here = self.rows(first, min(some, rows - first), size)
            low = here & np.uint64(0xFFFFFFFF)
            low *= np.uint64(count)
            low >>= np.uint64(32)
            here >>= np.uint64(32)
            here *= np.uint64(count)
            here += low
            here >>= np.uint64(32)
            found[first : first + some] = here
        return found

    def bits(self, *shape: int) -> np.ndarray:
        """Random keys of JAX's, as their bits."""
        found = self.rows(0, shape[0], math.prod(shape[1:])).view(np.uint32)
        return found.reshape(*shape, 2)

    def uniform(self, rows: int, size: int) -> np.ndarray:
        """Uniform on [0, 1), in float32, so that both precisions pick the same."""
        return (self.rows(0, rows, size) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)


def _mixed(state: np.ndarray) -> np.ndarray:
    upper = np.empty_like(state)
    for shift, factor in _MIX:
        state ^= np.right_shift(state, np.uint64(shift), out=upper)
        state *= np.uint64(factor)
    state ^= np.right_shift(state, np.uint64(31), out=upper)
    return state


def block_starts(words: Words, steps: int, size: int, count: int) -> np.ndarray:
    """Starts of contiguous blocks: each pass visits all blocks once, in random order.

    The blocks' common offset is uniform on the circle of rows, hence every row is equally likely
    even when the size does not divide the number of rows.
    """
    blocks = max(1, count // size)
    starts = []
    for number in range(-(-steps // blocks)):  # of the pass
        asked = min(blocks, steps - number * blocks)
        if blocks <= _SORTED:
            drawn = words.rows(number, 1, blocks + 1)[0]
            order = np.argsort(drawn[:-1])[:asked]
        else:
            drawn = words.rows(number, 1, _ROUNDS + 2)[0]
            turn = int(drawn[-2]) * blocks // _WORD
            order = _ordered(np.arange(asked), drawn[:_ROUNDS], turn, blocks)
        offset = 0 if count % size == 0 else int(drawn[-1]) * count // _WORD
        starts.append((order.astype(np.int64) * size + offset) % count)
    return np.concatenate([*starts, np.empty(0)]).astype(np.int32)


def _ordered(place: np.ndarray, drawn: np.ndarray, turn: int, count: int) -> np.ndarray:
    """`in_order`, on the host."""
    half = np.uint32((max(2, (count - 1).bit_length()) + 1) // 2)
    cipher = _cipher([np.uint32(k >> np.uint64(32)) for k in drawn], half, np.uint32)
    number = cipher(place.astype(np.uint32))
    while (beyond := number >= count).any():
        number[beyond] = cipher(number[beyond])
    return (number.astype(np.int64) + turn) % count


def indices(key: Any, size: int, count: Any) -> Int[Array, " size"]:
    """Uniform on 0, …, count − 1: ⌊w·count/2⁶⁴⌋ for a random 64-bit word w, inside a program.

    The i-th depends on the key and on i alone. The count may be traced, here and below.
    """
    words = jax.random.bits(key, (size, 2), jnp.uint32)
    high, low = words[:, 0], words[:, 1]
    below = high * jnp.uint32(count)
    middle = below + _upper(low, count)
    return (_upper(high, count) + (middle < below)).astype(jnp.int32)


def _upper(word: UInt32[Array, ...], count: Any) -> UInt32[Array, ...]:
    """The upper 32 bits of the 64-bit product word·count, in 32-bit arithmetic."""
    w1, w0 = word >> 16, word & 0xFFFF
    c1, c0 = jnp.uint32(count >> 16), jnp.uint32(count & 0xFFFF)
    middle = (w0 * c0 >> 16) + (w0 * c1 & 0xFFFF) + (w1 * c0 & 0xFFFF)
    return w1 * c1 + (w0 * c1 >> 16) + (w1 * c0 >> 16) + (middle >> 16)


def in_order(key: Any, place: Any, count: int) -> Any:
    """What stands at some places of a random order of 0, …, count − 1, without the others.

    The order is that of a Feistel cipher with random keys on the next even power of two, followed
    until it is back below the count, and turned by a uniform number: each place is uniform.
    """
    half = jnp.uint32((max(2, (count - 1).bit_length()) + 1) // 2)
    least = jnp.asarray(count, jnp.uint32)
    cipher = _cipher(jax.random.bits(key, (_ROUNDS,), jnp.uint32), half, jnp.uint32)
    number = jax.lax.while_loop(
        lambda number: jnp.any(number >= least),
        lambda number: jnp.where(number >= least, cipher(number), number),
        cipher(jnp.asarray(place).astype(jnp.uint32)),
    )
    turn = indices(jax.random.fold_in(key, 2), 1, count)[0]
    return turned(number.astype(jnp.int32), turn, count)


def _cipher(keys: Any, half: Any, word: Any) -> Callable[[Any], Any]:
    """A Feistel cipher of twice `half` bits, for NumPy's words and for JAX's."""
    low = (word(1) << half) - word(1)

    def cipher(number: Any) -> Any:
        left, right = number >> half, number & low
        for i in range(_ROUNDS):
            mixed = (right ^ keys[i]) * word(0x9E3779B1)
            mixed = (mixed ^ (mixed >> word(15))) * word(0x85EBCA77)
            left, right = right, left ^ ((mixed ^ (mixed >> word(13))) & low)
        return (left << half) | right

    return cipher


def spread(place: Any, stride: Any, count: Any, most: int) -> Int[Array, ...]:
    """place·stride mod count, in 32-bit arithmetic: all three are at most `most`."""
    digit = max(1, 31 - most.bit_length())
    place, stride, count = (jnp.asarray(a).astype(jnp.uint32) for a in (place, stride, count))
    found = jnp.zeros_like(place)
    for i in reversed(range(0, most.bit_length(), digit)):
        more = (place >> i) & jnp.uint32(2**digit - 1)
        found = ((found << digit) + more * stride) % count
    return found.astype(jnp.int32)


def stride_of(count: int) -> int:
    """A number without a common factor with the count, about 0.618 of it."""
    return next(a for a in range(int(0.618 * count) + 1, count + 2) if math.gcd(a, count) == 1)


def turned(number: Any, turn: Any, count: Any) -> Any:
    """(number + turn) mod count of two numbers below it, whose sum may be too large for 32 bits."""
    rest = number - (count - turn)
    return jnp.where(rest < 0, rest + count, rest)


def portion(fraction: UInt32[Array, ...], size: Any) -> Int[Array, ...]:
    """A share of a size, rounded down: fraction/2³² of it."""
    return _upper(fraction, jnp.asarray(size).astype(jnp.uint32)).astype(jnp.int32)
