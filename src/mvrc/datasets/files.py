"""Where data files are looked for, and the check of their hashes: one place for all loaders."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from mvrc.support import checks

VARIABLE = "MVRC_DATA"  # the environment variable that names a folder
_NEARBY = ("../shared/data", "shared/data")  # relative to the current directory


class Wanted(NamedTuple):
    """A file that a loader needs."""

    loader: str  # the function that asks
    names: tuple[str, ...]  # what the file may be called, the first found is taken
    instead: str  # the generator that needs no file


def find(wanted: Wanted, path: Any = None) -> Path | None:
    """The file, or None where it is in none of the places.

    With `path` only there: a file, or a folder that has it. Without, in this order: the folder
    MVRC_DATA; `../shared/data` and `shared/data`; the user's cache. A file with its hash beside it
    (`<name>.sha256`) must match it.
    """
    if path is not None:
        file: Path | None = _given(wanted, path)
    else:
        file = next(filter(None, (_inside(folder, wanted) for folder in places())), None)
    if file is not None:
        _check_beside(file)
    return file


def places() -> list[Path]:
    """The folders, in order."""
    named = os.environ.get(VARIABLE)
    folders = [Path(named).expanduser()] if named else []
    if folders and not folders[0].is_dir():
        raise FileNotFoundError(
            f"{VARIABLE} must name a folder that exists, not {checks.shown(named)}."
        )
    folders += [Path(folder) for folder in _NEARBY]
    cache = cache_folder()
    return folders if cache is None else [*folders, cache]


def cache_folder() -> Path | None:
    """The user's cache as pooch has it; None without pooch."""
    try:
        import pooch
    except ImportError:
        return None
    return Path(pooch.os_cache("mvrc"))


def checked_path(path: Any) -> Path:
    """A path, with ~ for the user's folder."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the name of a file or a folder, not {checks.shown(path)}.")
    return Path(path).expanduser()


def missing(wanted: Wanted, tried: str) -> FileNotFoundError:
    """The sentence for a file that cannot be had: what was tried, what to do."""
    return FileNotFoundError(
        f"{wanted.loader}() found no {' or '.join(wanted.names)} in "
        f"{', '.join(str(folder) for folder in places())}{tried}; give path=..., set {VARIABLE} "
        f"to the folder that has it, or use {wanted.instead}()."
    )


def sha256(file: Path) -> str:
    """The hash in hexadecimal digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def checked_hash(known_hash: Any) -> str | None:
    """The digits of `known_hash`, with or without "sha256:" before them."""
    if known_hash is None:
        return None
    match = re.fullmatch(r"(?:sha256:)?([0-9a-f]{64})", str(known_hash).lower())
    if not match:
        raise ValueError(
            f"known_hash must be the 64 hexadecimal digits of a sha256, "
            f"not {checks.shown(known_hash)}."
        )
    return match[1]


def check_hash(file: Path, digits: str | None, shown: str | None = None) -> None:
    """Refuse a file that is not the one meant; `shown` is where it came from."""
    if digits is not None and (found := sha256(file)) != digits:
        raise ValueError(
            f"known_hash is {digits}, but {shown or str(file)!r} has the sha256 {found}; it is "
            f"another version, or damaged."
        )


def write_beside(file: Path, digits: str) -> None:
    """Keep the hash as the command sha256sum writes it."""
    _beside(file).write_text(f"{digits}  {file.name}\n", encoding="ascii")


def _check_beside(file: Path) -> None:
    kept = _beside(file)
    if kept.is_file() and kept.read_text(encoding="latin-1").split()[:1] != [sha256(file)]:
        raise ValueError(
            f"{str(file)!r} was changed or damaged, as its hash is not that in {kept.name!r}; "
            f"delete both files and get the data again."
        )


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.sha256")


def _given(wanted: Wanted, path: Any) -> Path:
    place = checked_path(path)
    file = place if place.is_file() else _inside(place, wanted)
    if file is None:
        what = "has no" if place.is_dir() else "does not exist; give a file, or a folder with"
        raise FileNotFoundError(f"path {str(path)!r} {what} {' or '.join(wanted.names)}.")
    return file


def _inside(folder: Path, wanted: Wanted) -> Path | None:
    files = (folder / name for name in wanted.names)
    return next((file for file in files if file.is_file()), None)
