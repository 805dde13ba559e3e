"""SIGTERM as Ctrl-C: what runs ends, saves, and has an exit code of its own."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

INTERRUPTED, TERMINATED = 130, 143  # 128 + the signal, as shells have it
_received: list[int] = []


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Within it SIGTERM interrupts as Ctrl-C does; a second one ends the process at once."""
    _received.clear()

    def handle(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        _received.append(number)
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, handle)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def code() -> int:
    """The exit code of an interrupt."""
    return TERMINATED if _received else INTERRUPTED


def word() -> str:
    """What happened."""
    return "Terminated" if _received else "Interrupted"
