"""Argument checks: one clear sentence that names the argument, what it was and what it may be."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
import re
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import jax
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

# How JAX names what it traced, which here is a line of this library, not the user's.
_TRACED = re.compile(r"^function \S+ at \S+ traced for \w+ ")
# What JAX says of r["a"] and of r.a for an array r.
_NAMED = re.compile(r"(?:string indexing; got idx=|Tracer has no attribute )(.*?)\.?$")
# A user's function looked at a number that is not known before the compiled program runs.
_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    number = _plain(value)
    if not _is_number(number) or not math.isfinite(number) or number <= 0:
        raise ValueError(f"{name} must be a positive number, not {shown(value)}.")
    return float(number)


def fraction(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    number = _plain(value)
    if not _is_number(number) or not 0 <= number <= 1:
        raise ValueError(f"{name} must lie in [0, 1], not {shown(value)}.")
    return float(number)


def finite(name: str, value: Any) -> float:
    """A finite number."""
    number = _plain(value)
    if not _is_number(number) or not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, not {shown(value)}.")
    return float(number)


def nonnegative(name: str, value: Any) -> float:
    """A finite number not below zero."""
    number = _plain(value)
    if not _is_number(number) or not 0 <= number < math.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, not {shown(value)}.")
    return float(number)


def integer(name: str, value: Any, least: int = 1) -> int:
    """An integer not below `least`."""
    number = _plain(value)
    if isinstance(number, bool) or not isinstance(number, numbers.Integral) or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {shown(value)}.")
    return int(number)


def boolean(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, not {shown(value)}.")
    return bool(value)


def seed(name: str, value: Any) -> int:
    """What a random key is made from."""
    number = integer(name, value, least=0)
    if number >= 2**64:
        raise ValueError(f"{name} must be below 2**64, not {shown(value)}.")
    return number


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of the allowed words; a near miss is named."""
    allowed = tuple(allowed)
    if not isinstance(value, str) or value not in allowed:
        options = " or ".join(repr(word) for word in allowed)
        near = nearest(value, allowed)
        raise ValueError(f"{name} must be {options}, not {shown(value)}{near}.")
    return value


def shown(value: Any) -> str:
    """A value as it is shown in a sentence: on one line, and short."""
    return cut(value.__name__ if inspect.isclass(value) else repr(value))


def cut(text: str, length: int = 80) -> str:
    """A text on one line, with dots for what is too long."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 3]}..."


def reason(error: Exception) -> str:
    """Why a user's function failed: the first sentence, on one line without the full stop."""
    if isinstance(error, _VALUES):
        return (
            "it asks for the value of a traced array, by if, float(), int(), a mask or NumPy; it "
            "must be made of jax.numpy operations whose shapes do not depend on values"
        )
    first = (str(error).strip().splitlines() or [""])[0].split(". ")[0]
    if isinstance(error, TypeError | AttributeError) and (name := _NAMED.search(first)):
        asked = f".{name[1]}" if isinstance(error, AttributeError) else name[1]
        return (
            f"it asks an array for {asked}, and a sample of an array or a DataFrame is a row of "
            f"numbers without names; ask by position, or give a dict of arrays, as dict(frame)"
        )
    first = _TRACED.sub("it ", first)
    return f"{type(error).__name__}: {cut(first, 160).rstrip('. ')}"


def nearest(word: Any, known: Iterable[str]) -> str:
    """'; did you mean …?' when a known word is close, else nothing."""
    given = str(word).lower()
    # Of those that are close, one with the same letters first: two were swapped.
    close = difflib.get_close_matches(given, list(known), n=3)
    close.sort(key=lambda match: sorted(match) != sorted(given))
    return f" (did you mean {close[0]!r}?)" if close else ""


# Names of other libraries, and ours.
_ELSEWHERE = {
    **dict.fromkeys(("lr", "learning_rate", "eta", "eta0"), "step_size"),
    **dict.fromkeys(
        ("max_iter", "maxiter", "n_iter", "iterations", "max_epochs", "n_epochs", "steps"), "epochs"
    ),
    **dict.fromkeys(("verbose", "disp", "progress_bar"), "progress"),
    **dict.fromkeys(("random_state", "key", "rng"), "seed"),
    **dict.fromkeys(("ftol", "gtol", "atol", "tolerance"), "tol"),
    **dict.fromkeys(("batch", "minibatch", "minibatch_size"), "batch_size"),
    **dict.fromkeys(("data", "samples"), "inner_data"),
    **dict.fromkeys(
        ("reg", "penalty", "regulariser", "constraint", "constraints", "bounds"), "regularizer"
    ),
    **dict.fromkeys(("jac", "jacobian"), "inner_jacobian"),
    **dict.fromkeys(("optimizer", "solver", "algorithm"), "method"),
}
# Arguments of another call than that in which they are given.
_THERE = {
    **dict.fromkeys(
        ("step_size", "momentum", "batch_size", "period"),
        "it is a method's, as in method=mvrc.MVRC({}=…)",
    ),
    **dict.fromkeys(
        ("epochs", "progress", "seed", "tol"), "it is minimize's, as in minimize(problem, x0, {}=…)"
    ),
    **dict.fromkeys(
        ("regularizer", "inner_data", "inner_jacobian"),
        "it is the problem's, as in Composition(…, {}=…)",
    ),
}


def explain_keywords(function: F) -> F:
    """Turn a wrong call into a sentence that names the nearest argument and lists them all.

    Such a function checks its arguments itself, so runtime type checkers are asked to let it be:
    its annotations are for readers and editors, and a wrong type gets the library's own sentence.
    """
    typing.no_type_check(function)
    signature = inspect.signature(function)
    known = [name for name in signature.parameters if name not in ("self", "cls")]
    listed = f"its arguments are {', '.join(known)}" if known else "it takes none"
    name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for word in kwargs:
            if word not in known:
                meant = _ELSEWHERE.get(word.lower(), word)
                meant = f"max_{meant}" if f"max_{meant}" in known else meant
                if meant in known:
                    near = f" (here {meant})"
                elif meant in _THERE and f"{meant}s" not in known:
                    near = f" ({_THERE[meant].format(meant)})"
                else:
                    near = nearest(word, known)
                raise TypeError(f"{name}() has no argument {word!r}{near}; {listed}.")
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}; {listed}.") from None
        return function(*args, **kwargs)

    return cast(F, checked)


def explain_init(cls: C) -> C:
    """The same for a class whose __init__ is generated from its fields."""
    cls.__init__ = explain_keywords(cls.__init__)  # type: ignore[misc]
    return cls


def _plain(value: Any) -> Any:
    """The number in an array without axes, such as jnp.float32(0.1); anything else as it is."""
    is_array = isinstance(value, np.ndarray | jax.Array) and not isinstance(value, jax.core.Tracer)
    is_number = is_array and value.ndim == 0 and getattr(value.dtype, "kind", "O") in "iuf"
    return value.item() if is_number else value


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def instance(name: str, value: Any, kind: type) -> Any:
    """A sentence unless the value is of that class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be of class {kind.__name__}, not {shown(value)}.")
    return value
