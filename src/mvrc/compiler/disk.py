"""Compiled programs on disk, so that the next process need not compile them.

A file is named by a hash of the program's text and of all that its machine code depends on: XLA's
options, the versions of jaxlib and mvrc, the processor. Files are written as a whole or not at all,
so processes may share a folder; one that is damaged is compiled anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import jax
import jaxlib
from jax.experimental import serialize_executable
from jaxlib import utils

from mvrc.support import checks

SWITCH = "MVRC_CACHE"  # a folder, or 0 for none
LIMIT = 2**28  # bytes; the files that were not used for longest go first

_LARGE = 2**16  # numbers of a constant inside a program, above which it is not kept
_ABANDONED = 3600  # seconds, after which a temporary file is that of a process that was killed
_HASH = hashlib.sha256().digest_size

_chosen: list[Path | None] = []  # by `compilation_cache`
_loading = threading.Lock()


@checks.explain_keywords
def compilation_cache(folder: str | Path | None) -> Path | None:
    """Keep compiled programs in `folder`; None: keep none.

    Without this call they are kept in `mvrc` of the user's cache folder, or where the environment
    variable MVRC_CACHE says (0: nowhere). Programs that are compiled already stay in use.

    Examples:
        >>> before = mvrc.compilation_cache(None)  # nothing is kept from here on
        >>> mvrc.compilation_cache(before) is None  # as before
        True
    """
    path = None if folder is None else _writable(folder)
    _chosen[:] = [path]
    return path


def folder() -> Path | None:
    """Where programs are kept; None: nowhere."""
    if _chosen:
        return _chosen[0]
    given = os.environ.get(SWITCH)
    if given is not None:
        return None if given in ("", "0") else Path(given).expanduser()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "mvrc"


def compile(lowered: Any, options: dict[str, Any]) -> Any:
    """`lowered.compile()`, or what an earlier process made of the same program."""
    where = folder()
    if where is None or jax.default_backend() != "cpu" or jax.device_count() > 1:
        return lowered.compile()
    name = _name(lowered, options)
    if name is None:
        return lowered.compile()
    found = _load(where / name, lowered)
    if found is None:
        found = lowered.compile()
        with contextlib.suppress(Exception):  # a full disk, a program that cannot be written
            _save(where, name, serialize_executable.serialize(found)[0])
    return found


def _name(lowered: Any, options: dict[str, Any]) -> str | None:
    """A hash of all that the machine code depends on; None: it may not be kept."""
    text = lowered.compiler_ir("stablehlo").operation.get_asm(large_elements_limit=_LARGE)
    if "__elided__" in text or "callback" in text:  # not whole, or with addresses of this process
        return None
    version = sys.modules["mvrc"].__version__
    versions = jax.__version__, jaxlib.__version__, version
    flags = sorted(options.items()), os.environ.get("XLA_FLAGS")
    # Arguments that are not used are not in the text.
    arguments = [(a.shape, str(a.dtype)) for a in jax.tree_util.tree_leaves(lowered.args_info)]
    parts = text, arguments, flags, versions, _machine()
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@functools.cache
def _machine() -> str:
    """The processor, as far as the system tells of it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return f"{platform.machine()} {line}"
    return f"{platform.machine()} {platform.processor()} {platform.node()}"


def _load(file: Path, lowered: Any) -> Any:
    """The program in a file; None if there is none that is whole and ours."""
    try:
        data = file.read_bytes()
        own = not hasattr(os, "getuid") or file.stat().st_uid == os.getuid()
        if not own or hashlib.sha256(data[_HASH:]).digest() != data[:_HASH]:
            return None
        with _loading, _quiet():
            load = serialize_executable.deserialize_and_load
            found = load(data[_HASH:], lowered.in_tree, lowered.out_tree)
        with contextlib.suppress(OSError):
            os.utime(file)  # it was used
        return found
    except Exception:  # whatever is wrong with it, it can be compiled
        return None


@contextlib.contextmanager
def _quiet() -> Any:
    """Without XLA's pages on features of processors that only tune."""
    utils.absl_set_min_log_level(3)
    try:
        yield
    finally:
        utils.absl_set_min_log_level(int(os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1")))


def _save(where: Path, name: str, data: bytes) -> None:
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=where, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(temporary, where / name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _clean(where)


def _clean(where: Path) -> None:
    """Down to the limit, and without what killed processes left."""
    files = []
    for entry in os.scandir(where):
        with contextlib.suppress(OSError):  # another process may be cleaning, too
            known = entry.stat()
            if entry.name.endswith(".part") and time.time() - known.st_mtime > _ABANDONED:
                os.unlink(entry.path)
            elif entry.is_file():
                files.append((known.st_mtime, known.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= LIMIT:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
            total -= size


def _writable(folder: Any) -> Path:
    """The folder, made if need be; refused when nothing can be written to it."""
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise TypeError(
            f"folder must be the path of a folder, or None, not {checks.shown(folder)}."
        )
    path = Path(folder).expanduser().resolve()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(
            f"folder {str(path)!r} cannot be written ({reason}); give a folder that can."
        ) from error
    return path
