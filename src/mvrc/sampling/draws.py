"""Random indices and orders."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

_ROUNDS = 6  # of the cipher that makes a random order


def indices(key: Any, size: int, count: Any) -> Int[Array, " size"]:
    """Uniform on 0, …, count − 1: ⌊w·count/2⁶⁴⌋ for a random 64-bit word w.

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


def block_starts(key: Any, steps: int, size: int, count: Any) -> Int[Array, " steps"]:
    """Starts of contiguous blocks: each pass visits all blocks once, in random order.

    The blocks' common offset is uniform on the circle of rows, hence every row is equally likely
    even when the size does not divide the number of rows.
    """
    known = isinstance(count, int)
    blocks = max(1, count // size) if known else jnp.maximum(1, count // size)
    times = jnp.arange(steps, dtype=jnp.int32)
    number, place = times // blocks, times % blocks  # of the pass, and within it

    def one(number: Any, place: Any) -> Any:
        own = jax.random.fold_in(key, number)
        start = in_order(own, place, blocks) * size
        if known and count % size == 0:
            return start
        offset = turned(start, indices(jax.random.fold_in(own, 1), 1, count)[0], count)
        return offset if known else jnp.where(count % size == 0, start, offset)

    return jax.vmap(one)(number, place)


def in_order(key: Any, place: Any, count: Any) -> Any:
    """What stands at some places of a random order of 0, …, count − 1, without the others.

    The order is that of a Feistel cipher with random keys on the next even power of two, followed
    until it is back below the count, and turned by a uniform number: each place is uniform.
    """
    if isinstance(count, int):
        half: Any = jnp.uint32((max(2, (count - 1).bit_length()) + 1) // 2)
    else:
        bits = 32 - jax.lax.clz(count - 1)
        half = ((jnp.maximum(2, bits) + 1) // 2).astype(jnp.uint32)
    low = (jnp.uint32(1) << half) - jnp.uint32(1)
    least = jnp.asarray(count, jnp.uint32)
    keys = jax.random.bits(key, (_ROUNDS,), jnp.uint32)

    def cipher(number: UInt32[Array, ...]) -> UInt32[Array, ...]:
        left, right = number >> half, number & low
        for i in range(_ROUNDS):
            mixed = (right ^ keys[i]) * jnp.uint32(0x9E3779B1)
            mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(0x85EBCA77)
            left, right = right, left ^ ((mixed ^ (mixed >> 13)) & low)
        return (left << half) | right

    number = jax.lax.while_loop(
        lambda number: jnp.any(number >= least),
        lambda number: jnp.where(number >= least, cipher(number), number),
        cipher(jnp.asarray(place).astype(jnp.uint32)),
    )
    turn = indices(jax.random.fold_in(key, 2), 1, count)[0]
    return turned(number.astype(jnp.int32), turn, count)


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
