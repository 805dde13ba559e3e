"""Errors of the library in the words of the command: `--epochs` for epochs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

# How the library's sentences name what the command has options for.
_PHRASES = (
    (re.compile(r"^checkpoint folder "), "--output folder "),
    (re.compile(r"^checkpoint '([^']*)'"), r"--output: the checkpoint '\1'"),
    (re.compile(r"give another folder or delete it\.$"), "give another --output or delete it."),
    (re.compile(r"delete it or give another folder\.$"), "delete it or give another --output."),
    (re.compile(r"^\w+\(\) has no argument '(\w+)'"), r"--set \1: the method has no argument '\1'"),
)


def in_options(message: str, options: Iterable[str], settings: Iterable[str]) -> str:
    """A sentence whose first word is an argument, with the option that gives it."""
    first = re.match(r"[A-Za-z_]+", message)
    name = first[0] if first else ""
    if name in settings:
        return f"--set {message}"
    if name in options:
        return f"--{name}{message[len(name) :]}"
    for pattern, replacement in _PHRASES:
        message = pattern.sub(replacement, message)
    return message


class Options:
    """A context in which errors of the library are in the words of the command.

    Args:
        options: arguments that have an option of their name.
        settings: those that were given by --set.
    """

    def __init__(self, options: Iterable[str], settings: Iterable[str]) -> None:
        self.names = tuple(options), tuple(settings)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if isinstance(error, ValueError | TypeError):
            raise ValueError(in_options(str(error), *self.names)) from error
