"""Argument checks: one clear sentence that names the argument, what it was and what it may be."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    if not _is_number(value) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be a positive number, not {value!r}.")
    return float(value)


def fraction(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"{name} must lie in [0, 1], not {value!r}.")
    return float(value)


def whole(name: str, value: Any, least: int = 1) -> int:
    """An integer not below `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    return int(value)


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of the allowed words; a near miss is named."""
    allowed = tuple(allowed)
    if value not in allowed:
        options = " or ".join(repr(word) for word in allowed)
        raise ValueError(f"{name} must be {options}, not {value!r}{nearest(value, allowed)}.")
    return value


def nearest(word: Any, known: Iterable[str]) -> str:
    """'; did you mean …?' when a known word is close, else nothing."""
    match = difflib.get_close_matches(str(word).lower(), list(known), n=1)
    return f" (did you mean {match[0]!r}?)" if match else ""


def explain_keywords(function: F) -> F:
    """Turn a wrong call into a sentence that names the nearest argument and lists them all."""
    signature = inspect.signature(function)
    known = [name for name in signature.parameters if name != "self"]
    name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for word in kwargs:
            if word not in known:
                raise TypeError(
                    f"{name}() has no argument {word!r}{nearest(word, known)}; "
                    f"its arguments are {', '.join(known)}."
                )
        return function(*args, **kwargs)

    return cast(F, checked)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
