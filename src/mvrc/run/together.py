"""The processes of one run, which must decide alike: process 0 decides, and tells the others.

Clocks, callbacks and Ctrl-C differ between processes; all else that a run decides on is the same on
each of them.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils


class Clock(NamedTuple):
    """What process 0 has told last."""

    seconds: float = 0.0  # of the algorithm
    wall: float = 0.0
    measuring: float = 0.0  # what the last measuring took
    pending: bool = False  # whether points have waited long enough to be measured
    saving: bool = False  # whether a save is due
    interrupted: bool = False


class Together:
    """Whether a run is one of several processes, and what process 0 tells.

    Args:
        problem: of the run. Processes whose problem has no rows on devices of others run alone.
    """

    def __init__(self, problem: Any) -> None:
        sources = problem.inner_source, problem.outer_source
        devices = [device for s in sources if s is not None for device in s.devices()]
        here = jax.process_index() if devices else 0
        self.many = any(device.process_index != here for device in devices)
        self.first = not self.many or here == 0
        self.interrupted = False

    def told(self, *numbers: float) -> tuple[float, ...]:
        """These numbers, as process 0 has them."""
        if not self.many:
            return numbers
        bits = np.array(numbers, np.float64).view(np.uint32)
        told = np.ascontiguousarray(multihost_utils.broadcast_one_to_all(bits))
        return tuple(told.view(np.float64).tolist())

    def told_bytes(self, read: Callable[[], bytes]) -> bytes:
        """What process 0 reads."""
        given = read() if self.first else b""
        if not self.many:
            return given
        (length,) = self.told(float(len(given)))
        padded = np.zeros(int(length), np.uint8)
        padded[: len(given)] = np.frombuffer(given, np.uint8)
        return np.asarray(multihost_utils.broadcast_one_to_all(padded), np.uint8).tobytes()

    @contextlib.contextmanager
    def patient(self) -> Iterator[None]:
        """Ctrl-C is taken down, for process 0 to tell: one that left at once would leave the others
        waiting. The second one is not."""
        if not self.many or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def note(*_: Any) -> None:
            self.interrupted = True
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
