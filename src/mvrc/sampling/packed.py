"""Arrays in a buffer that other numbers of rows share, so that a new n is no new program.

A program depends on the buffer's shape, and is given the number of rows as an argument. Nothing
beyond the rows is read, but for the fill of the last piece, which is real rows that do not count.
"""

from __future__ import annotations

import weakref
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Int

from mvrc.sampling.draws import Words, stride_of
from mvrc.sampling.rows import Gathered, Rows, Spread, small_batch
from mvrc.sampling.source import Batch, Source

# Data up to so many bytes lie in a buffer of this size, of which only what is written takes memory;
# larger data are not copied, and their number of rows is part of the program.
BUFFER = 2**22

# A piece has about so many numbers, and so many rows: a few of them take no longer than a few
# operations of XLA's.
_NUMBERS, _LEAST, _MOST = 2**15, 32, 1024

_ALIGNED = 64  # bytes: such memory JAX takes as it is


class PackedSource(Source):
    """The first `rows[0]` rows of arrays that are longer; asked by programs alone.

    Args:
        data: the arrays.
        rows: how many count, and the stride that spreads over them.
        sampling: see `ArraySource`.
        side: "inner" or "outer".
        length: rows of a piece.
    """

    data: Any
    rows: Int[Array, 2]
    sampling: str = eqx.field(static=True)
    side: str = eqx.field(static=True)
    length: int = eqx.field(static=True)

    @property
    def count(self) -> Any:
        return self.rows[0]

    @property
    def capacity(self) -> int:
        return jax.tree_util.tree_leaves(self.data)[0].shape[0]

    def given(self) -> Any:
        raise AssertionError("ask the source that was packed")

    def fingerprint(self) -> tuple[str, Any]:
        raise AssertionError("ask the source that was packed")

    def thinned(self, rows: int) -> Source:
        raise AssertionError("ask the source that was packed")

    def spec(self) -> Any:
        each = jax.tree_util.tree_map
        return each(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), self.data)

    def everything(self) -> Batch:
        return Rows(self.data, self.count, self.length, self.side)

    def part(self, most: int | None) -> Batch:
        if most is None:
            return self.everything()
        return self.spread(jax.numpy.minimum(most, self.count))

    def refresh_ticket(self, words: Words, size: int | None) -> Any:
        raise AssertionError("ask the source that was packed")

    def refresh(self, ticket: Any, size: int | None) -> Batch:
        return self.everything() if size is None else Gathered(self.data, ticket, size)

    def subsample(self, bits: Any, size: int, i: Any) -> Batch:
        pieces = (self.count + (size - 1)) // size
        first = (i % pieces) * size
        some = jax.numpy.minimum(size, self.count)
        length = 2 ** (size - 1).bit_length()
        return Spread(self.data, self.count, self.rows[1], 0, some, length, first, size)

    def spread(self, size: Any, shift: Any = 0) -> Batch:
        return Spread(self.data, self.count, self.rows[1], shift, size, self.length)

    def tickets(self, words: Words, steps: int, size: int) -> Any:
        raise AssertionError("ask the source that was packed")

    def small(self, ticket: Any, size: int) -> Batch:
        return small_batch(self.data, self.sampling, self.count, ticket, size)


def packed(data: Any, sampling: str, side: str, numbers: int) -> PackedSource | None:
    """The rows in a buffer; None where they are too many, or not in this machine's memory."""
    leaves, treedef = jax.tree_util.tree_flatten(data)
    count = leaves[0].shape[0]
    row = max(1, sum(a.nbytes // count for a in leaves))
    length = 2 ** max(_LEAST, min(_MOST, _NUMBERS // max(1, numbers))).bit_length() // 2
    room = BUFFER // row // length * length
    local = all(isinstance(a, np.ndarray) or a.devices() == {jax.devices("cpu")[0]} for a in leaves)
    if count > room or not local or jax.default_backend() != "cpu":
        return None
    buffers = [_buffer(a, room) for a in leaves]
    rows = np.array([count, stride_of(count)], np.int32)
    whole = jax.tree_util.tree_unflatten(treedef, buffers)
    return PackedSource(whole, rows, sampling, side, length)  # type: ignore[arg-type]


_buffers: dict[tuple[int, int], Any] = {}  # by the array and the rows; each goes with its array


def _buffer(array: Any, room: int) -> Any:
    """A longer array that begins with these rows."""
    key = id(array), room
    if key not in _buffers:
        _buffers[key] = _copied(np.asarray(array), room)
        weakref.finalize(array, _buffers.pop, key, None)
    return _buffers[key]


def _copied(array: np.ndarray, room: int) -> Any:
    """Filled for the longest of pieces, as problems with pieces of any length share the buffer."""
    count, bytes_ = len(array), room * (array.nbytes // len(array))
    memory = np.empty(bytes_ + _ALIGNED, np.uint8)  # of which the system gives what is written
    first = -memory.ctypes.data % _ALIGNED
    buffer = memory[first : first + bytes_].view(array.dtype).reshape(room, *array.shape[1:])
    buffer[:count] = array
    buffer[count : -(-count // _MOST) * _MOST] = array[0]
    return jax.device_put(buffer)
