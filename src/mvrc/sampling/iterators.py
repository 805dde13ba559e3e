"""Iterators and data loaders as endless sources: fresh samples, fetched on a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mvrc.sampling.readers import spec_of
from mvrc.sampling.reading import bad_row, fitted, program_dtype
from mvrc.sampling.rows import Rows
from mvrc.sampling.source import Batch
from mvrc.sampling.streams import Stream
from mvrc.support import checks, feeding

AHEAD = 4  # batches that are fetched before they are needed
MEMORY = 2**28  # bytes of the samples that are kept, as a batch may be passed through twice


class Batches(Stream):
    """Fresh samples from a Python iterable of batches, such as a data loader of PyTorch or Grain.

    Each batch is an array or a pytree of arrays (or tensors) with a leading axis of samples, of any
    length; batches are fetched ahead on a thread, and their samples are used one after another.
    When the iterable has ended it is asked for another iterator.

    A run takes what comes: the same seed gives the same run only if the iterable then gives the
    same batches, and a run that goes on from a checkpoint has the samples that the iterable gives
    it then. `taken` says how many samples have been taken so far.

    Args:
        batches: the iterable. A plain iterator serves until it ends.
        evaluation: the samples that are measured on: a pytree of arrays, or how many are taken from
            the iterable for it, before any other.
        memory: bytes of the last samples that are kept. A batch, or a stage of `Auto`, may not have
            more, as it is passed through several times.

    Examples:
        >>> batches = mvrc.Batches([returns[:100], returns[100:]], evaluation=200)
        >>> loaded = mvrc.Composition(problem.inner, problem.outer, batches)
        >>> mvrc.minimize(loaded, x0, mvrc.SCGD(step_size=0.1, period=10), epochs=2).status.name
        'EPOCHS'
    """

    feed: Any = eqx.field(static=True)
    evaluation: Any

    @checks.explain_keywords
    def __init__(
        self, batches: Iterable[Any], evaluation: Any = 10_000, memory: int = MEMORY
    ) -> None:
        if not isinstance(batches, Iterable) or isinstance(batches, str | np.ndarray):
            raise TypeError(
                f"batches must be an iterable of batches, as a data loader is, not "
                f"{checks.shown(batches)}."
            )
        feed = Fetching(batches, checks.integer("memory", memory))
        if isinstance(evaluation, int | np.integer):
            size = checks.integer("evaluation", evaluation, least=2)
            evaluation = feed.next_samples(size)
        else:
            evaluation = feed.arrays(evaluation)
            if str(feed.like(evaluation)) != str(feed.spec):
                raise ValueError(
                    f"evaluation has samples of {feed.like(evaluation)}, and batches of "
                    f"{feed.spec}; they must be alike."
                )
        self.feed, self.evaluation = feed, evaluation
        self.draw, self.seed = feed.draw, 0
        self.evaluation_size = len(jax.tree_util.tree_leaves(evaluation)[0])

    @property
    def taken(self) -> int:
        """How many samples have been taken so far, those of the evaluation included."""
        return self.feed.taken

    def given(self) -> Batches:
        return self

    def spec(self) -> Any:
        return self.feed.spec

    def fingerprint(self) -> tuple[str, Any]:
        return f"Batches(evaluation_size={self.evaluation_size})", self.evaluation

    def everything(self) -> Batch:
        return Rows(self.evaluation, self.evaluation_size)

    def part(self, most: int | None) -> Batch:
        size = self.evaluation_size if most is None else min(most, self.evaluation_size)
        each = jax.tree_util.tree_map
        return Rows(each(lambda a: a[:size], self.evaluation), size)


class Fetching:
    """Samples by key: who first asks with a key gets the next one, and the same one again later.

    Args:
        batches: the iterable.
        memory: bytes of samples that are kept.
    """

    def __init__(self, batches: Iterable[Any], memory: int) -> None:
        self._batches, self.taken = batches, 0
        self._iterator: Iterator[Any] = iter(batches)
        self._queue: queue.Queue[Any] = queue.Queue(AHEAD)
        self._rest: list[np.ndarray] = []  # of the batch at hand
        self._fetcher: threading.Thread | None = None
        first = self.arrays(next(self._iterator, None))
        leaves, self._tree = jax.tree_util.tree_flatten(first)
        if not leaves or any(a.ndim == 0 for a in leaves):
            raise ValueError("batches gave no samples; each batch must be arrays of samples.")
        self._rest, self.spec = leaves, self.like(first)
        row = sum(s.dtype.itemsize * s.size for s in jax.tree_util.tree_leaves(self.spec))
        self._kept = max(1, memory // max(1, row + 100))  # with a place in the dictionary
        self._ring: list[np.ndarray] = []  # the samples that are kept
        self._at: dict[int, int] = {}  # number of a sample by its key
        self._keys: dict[int, int] = {}  # the inverse
        self._number = 0
        self._lock = threading.Lock()

    def like(self, batch: Any) -> Any:
        """Shapes and dtypes of one sample."""
        spec = spec_of(batch)
        leaves = jax.tree_util.tree_leaves(spec)
        wide = any(s.dtype in (np.float64, np.complex128) for s in leaves)
        own = lambda s: jax.ShapeDtypeStruct(s.shape, program_dtype(s, wide))  # noqa: E731
        return jax.tree_util.tree_map(own, spec)

    def draw(self, key: Any, size: int) -> Any:
        """Traced: samples by the keys that are made of a key."""
        keys = jax.random.key_data(jax.random.split(key, size))
        each = jax.tree_util.tree_map
        shapes = each(lambda s: jax.ShapeDtypeStruct((size, *s.shape), s.dtype), self.spec)
        return feeding.call(self.answer, shapes, keys, how=feeding.TOGETHER)

    def answer(self, keys: np.ndarray) -> Any:
        """The samples of some keys, of any leading axes and two numbers each."""
        numbers = np.ascontiguousarray(keys).view(np.uint64)[..., 0]
        with self._lock:
            wanted = numbers.ravel().tolist()
            fresh = list(dict.fromkeys(key for key in wanted if key not in self._at))
            if len(set(wanted)) > self._kept:
                raise ValueError(
                    f"{len(wanted):,} samples are needed at once, and memory holds "
                    f"{self._kept:,}; give Batches(…, memory=) more, or the method smaller batches."
                )
            if fresh:
                self._keep(fresh)
            places = np.array([self._at[key] % self._kept for key in wanted], np.int64)
            found = [a[places].reshape(*numbers.shape, *a.shape[1:]) for a in self._ring]
        return jax.tree_util.tree_unflatten(self._tree, found)

    def next_samples(self, count: int) -> Any:
        """So many samples from the iterable."""
        parts: list[list[np.ndarray]] = []
        missing = count
        while missing:
            if not self._rest or not len(self._rest[0]):
                self._rest = self._next_batch()
            own = [a[:missing] for a in self._rest]
            self._rest = [a[missing:] for a in self._rest]
            parts.append(own)
            missing -= len(own[0])
        joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
        specs = jax.tree_util.tree_leaves(self.spec)
        for array, spec in zip(joined, specs, strict=True):
            row, why = bad_row(array, spec.dtype)
            if row is not None:
                raise ValueError(f"batches, sample {self.taken + row} of the iterable: {why}.")
        self.taken += count
        fit = [fitted(a, s) for a, s in zip(joined, specs, strict=True)]
        return jax.tree_util.tree_unflatten(self._tree, fit)

    def _keep(self, keys: list[int]) -> None:
        rows = jax.tree_util.tree_leaves(self.next_samples(len(keys)))
        if not self._ring:
            self._ring = [np.empty((self._kept, *a.shape[1:]), a.dtype) for a in rows]
        for key in keys:
            old = self._keys.pop(self._number - self._kept, None)
            if old is not None:
                del self._at[old]
            self._at[key], self._keys[self._number] = self._number, key
            self._number += 1
        places = np.arange(self._number - len(keys), self._number) % self._kept
        for ring, a in zip(self._ring, rows, strict=True):
            ring[places] = a

    def _next_batch(self) -> list[np.ndarray]:
        if self._fetcher is None:
            self._fetcher = threading.Thread(target=self._fetch, daemon=True, name="mvrc-batches")
            self._fetcher.start()
        found = self._queue.get()
        if isinstance(found, BaseException):
            self._queue.put(found)  # for who asks again
            raise found
        leaves, tree = jax.tree_util.tree_flatten(found)
        mine = [(s.shape, s.dtype) for s in jax.tree_util.tree_leaves(self.spec)]
        own = [a.shape[1:] for a in leaves]
        if str(tree) != str(self._tree) or own != [shape for shape, _ in mine]:
            raise ValueError(
                f"batches gave samples of shapes {own} after {self.taken:,} samples, and of "
                f"{[shape for shape, _ in mine]} first; all must be alike."
            )
        return leaves

    def _fetch(self) -> None:
        try:
            while True:
                given = False
                for batch in self._iterator:
                    self._queue.put(self.arrays(batch))
                    given = True
                again = iter(self._batches)
                if again is self._iterator or not (given or self.taken):
                    raise ValueError(
                        f"batches ended after {self.taken:,} samples, and the run needs more; "
                        f"give an iterable that can be iterated over again, or one without end."
                    )
                self._iterator = again
        except BaseException as error:
            self._queue.put(error)

    @staticmethod
    def arrays(batch: Any) -> Any:
        """A batch of NumPy arrays; a list, as loaders give it, is a tuple of variables."""
        batch = tuple(batch) if isinstance(batch, list) else batch
        return jax.tree_util.tree_map(np.asarray, batch)
