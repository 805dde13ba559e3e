"""The programs of this process, compiled once.

Every program that depends on a user's functions is kept here and nowhere else:
`jax.jit` with static arguments would keep its programs, and the functions, for ever.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax

from mvrc.support.partition import Static, strongly

# The most that is kept at a time, compiled programs and what else was told by tracing. A call of
# `minimize` leaves about ten, three to five of them compiled, with 2 to 15 MB together.
LIMIT = 256

F = TypeVar("F", bound=Callable[..., Any])

_lock = threading.RLock()  # reentrant: the collector of garbage may call `_drop` at any time
_kept: dict[Any, tuple[Any, list[Any]]] = {}  # values and whom they watch, the oldest first


def remember(function: F) -> F:
    """Do not compute `function(*key)` twice: the last `LIMIT` values of all functions are kept.

    Keys are hashable and have a problem as the `Static` of `partition`, which holds functions
    weakly: with one of them a value goes at once. The value must not hold them either, so a closure
    in it has the `Static` and combines it when it is called.
    """

    @functools.wraps(function)
    def remembered(*key: Any) -> Any:
        whole = (function, *key)
        with _lock:
            found = _kept.pop(whole, None)
            if found is not None:
                _kept[whole] = found  # the newest again
                return found[0]
        value = function(*key)  # not under the lock: it takes seconds to compile
        gone = functools.partial(_drop, whole)
        watched = [weakref.ref(user, gone) for user in _functions(key)]
        with _lock:
            _kept[whole] = value, watched
            while len(_kept) > LIMIT:
                with contextlib.suppress(RuntimeError):  # the collector took one meanwhile
                    _kept.pop(next(iter(_kept)), None)
        return value

    return remembered  # type: ignore[return-value]


def program(function: Callable[..., Callable[..., Any]]) -> Callable[..., Callable[..., Any]]:
    """A compiled program for every key: `function(*key)` is what is compiled.

    In the place of `jax.jit` with static arguments:

        @program
        def _objective(static, geometry):
            def run(numbers, x):
                return join(numbers, static)...

            return run

        numbers, static = split(problem, dtype)
        _objective(static, geometry)(numbers, x)

    As with `jax.jit`, other shapes or dtypes of the arrays are other programs under one key.
    """

    @functools.wraps(function)
    def compiled(*key: Any) -> Any:
        return jax.jit(function(*key))

    return remember(compiled)


def clear() -> None:
    """Let go of all that is kept; the next run compiles anew."""
    with _lock:
        _kept.clear()


atexit.register(clear)  # before the interpreter is half gone


def _functions(key: tuple[Any, ...]) -> Iterator[Any]:
    """The functions that a key holds weakly."""
    for part in key:
        for leaf in part.rest if isinstance(part, Static) else (part,):
            if isinstance(leaf, weakref.ref):
                yield strongly(leaf)


def _drop(key: Any, _: Any) -> None:
    with _lock:
        _kept.pop(key, None)
