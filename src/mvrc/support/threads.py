"""NumPy's matrix routines on one thread, for small matrices."""

from __future__ import annotations

import functools
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> Any:
    """Context in which NumPy's BLAS has one thread.

    On two busy cores the eigenvalues of 64 × 64 numbers took 42 ms by two threads that wait for
    each other, and 0.3 ms by one.
    """
    return _controller().limit(limits=1, user_api="blas")


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
