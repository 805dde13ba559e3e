"""A TOML file against its schema: what is wrong, in a sentence with the file and the line or key.

The schema is the dataclasses of `spec.py`: pydantic finds missing keys, keys too many and values
of another kind, and the checks of the library say what a value may be.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError

from mvrc.support import checks

T = TypeVar("T")

CLOSED = ConfigDict(extra="forbid")  # for a table that has no other keys than its fields
MOST = 10**6  # of anything that is counted; ten times what any experiment here has

_LOCATED = re.compile(r"^(.*) \(at line (\d+), column \d+\)$", re.DOTALL)
_END = " (at end of document)"


def checked(check: Callable[[str, Any], Any]) -> Any:
    """A validator from one of `mvrc.checks`, whose sentence is given its subject in `refuse`."""
    return PlainValidator(lambda value: check("", value))


def count(name: str, value: Any) -> int:
    number = checks.integer(name, value)
    if number > MOST:
        raise ValueError(f"{name} must be at most {MOST:,}, not {checks.shown(value)}.")
    return number


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be text in quotes, not {checks.shown(value)}.")
    return value


Count = Annotated[int, checked(count)]
Positive = Annotated[float, checked(checks.positive)]
Truth = Annotated[bool, checked(checks.boolean)]
Word = Annotated[str, checked(_word)]
Some = Field(min_length=1)  # of a list or a table


def read(path: Path) -> dict[str, Any]:
    """The tables of a file."""
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:  # a ValueError for a name with a null character
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{str(path)!r} cannot be read ({reason}).") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: this is not UTF-8 text.") from None
    wrong = _error(text)
    if wrong is None:
        return tomllib.loads(text)
    said, lines = str(wrong), text.splitlines(keepends=True)
    found = _LOCATED.match(said)
    if found is not None:
        reason, line = found[1], int(found[2])
    elif said.endswith(_END):
        reason, line = f"{said.removesuffix(_END)}, and the file ends", max(1, len(lines))
    else:  # of Python, not of its reader of TOML: where does it begin?
        reason = "nested too deeply" if isinstance(wrong, RecursionError) else "too many digits"
        same = lambda k: type(_error("".join(lines[:k]))) is type(wrong)  # noqa: E731
        line = bisect.bisect_left(range(1, len(lines) + 1), True, key=same) + 1
    raise ValueError(
        f"{path}, line {line}: this is not valid TOML: "
        f"{checks.cut(reason[:1].lower() + reason[1:])}."
    )


def fit(kind: type[T], table: Any, path: Path, *keys: str, names: Any = None, **ours: str) -> T:
    """A table of the file at `keys` as an object of the dataclass; or what is wrong with it.

    `names` is what words of the table may refer to, the context of its validators; `ours` are
    fields that are not the file's to give.
    """
    taken = [key for key in ours if isinstance(table, dict) and key in table]
    if taken:
        raise _unknown(kind, path, (*keys, taken[0]), ours)
    try:
        whole = {**table, **ours} if isinstance(table, dict) else table
        return _adapter(kind).validate_python(whole, context=names)  # type: ignore[arg-type]
    except ValidationError as error:
        found = error.errors()
    # A key that is misspelled is missing, too.
    first = min(found, key=lambda e: e["type"] != "unexpected_keyword_argument")
    at = (*keys, *first["loc"])
    what, outer = dotted(at), dotted(at[:-1]) or "the file"
    if first["type"] == "unexpected_keyword_argument":
        raise _unknown(_kind(kind, first["loc"][:-1]), path, at, ours)
    if first["type"] == "missing":
        raise ValueError(f"{path}: {outer} needs the key {at[-1]}.")
    if first["type"] == "value_error":
        raise ValueError(f"{path}: {what}{first['ctx']['error']}")
    if first["type"] == "too_short":
        raise ValueError(f"{path}: {what} is empty and needs at least one entry.")
    wanted = "a list" if first["type"] == "tuple_type" else "a table"
    raise ValueError(f"{path}: {what} must be {wanted}, not {checks.shown(first['input'])}.")


@functools.cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _unknown(kind: Any, path: Path, at: tuple[Any, ...], ours: Any) -> ValueError:
    known = sorted(f.name for f in dataclasses.fields(kind) if f.name not in ours)
    near = checks.nearest(at[-1], known)
    return ValueError(
        f"{path}: {dotted(at[:-1]) or 'the file'} has no key {checks.shown(at[-1])}{near}; its "
        f"keys are {', '.join(known)}."
    )


def dotted(keys: tuple[Any, ...]) -> str:
    """As TOML writes it, `experiments.mine.methods[2]`."""
    words = ""
    for key in keys:
        if isinstance(key, int):
            words += f"[{key}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", key)
            words += f".{key}" if bare else f".{checks.cut(json.dumps(key, ensure_ascii=False))}"
    return words.removeprefix(".")


def _kind(kind: Any, keys: tuple[Any, ...]) -> Any:
    """The dataclass of a table within a table."""
    for key in keys:
        (field,) = (f for f in dataclasses.fields(kind) if f.name == key)
        kind = field.metadata["table"]
    return kind


def _error(text: str) -> Exception | None:
    try:
        tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        return error
    return None
