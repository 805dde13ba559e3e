"""What a Python file or a module of the user's defines: a problem and x0, or a method."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import mvrc
from mvrc.support import checks

_MODULE = "mvrc_solve_target"  # the name under which a file is imported


def load(target: str, *data: Any) -> tuple[mvrc.Composition, Any]:
    """Problem and x0 of `FILE_OR_MODULE[:NAME]`; NAME is `problem` by default.

    A function is called, with `data` where there are any.
    """
    where, name = split(target)
    module, found = find(target)
    shown = name
    if callable(found) and not isinstance(found, mvrc.Composition):
        found, shown = _guarded(f"{name}() of {where}", found, *data), f"{name}()"
    elif data:
        raise TypeError(
            f"{name} of {where} must be a function of the data that gives the problem and x0, not "
            f"{checks.shown(found)}."
        )
    problem, x0 = found if _is_pair(found) else (found, getattr(module, "x0", None))
    if not isinstance(problem, mvrc.Composition):
        raise TypeError(
            f"{shown} of {where} must be a mvrc.Composition or a pair of one and x0, "
            f"not {checks.shown(problem)}."
        )
    if x0 is None:
        raise ValueError(
            f"{where} defines no x0; write x0 = …, the point to start from, or let a function "
            f"{name}() return the pair (problem, x0)."
        )
    return problem, x0


def find(target: str) -> tuple[ModuleType, Any]:
    """The module of `FILE_OR_MODULE[:NAME]`, and what it calls so."""
    where, name = split(target)
    module = _file(Path(where)) if _is_file(where) else _module(where)
    if not hasattr(module, name):
        raise ValueError(f"{where} defines no {name}{_others(module, where, name)}")
    return module, getattr(module, name)


def split(target: str) -> tuple[str, str]:
    """File or module, and the name in it; the colon of a Windows drive is none."""
    where, _, name = target.rpartition(":")
    return (where, name) if where and name.isidentifier() else (target, "problem")


def _is_file(where: str) -> bool:
    return where.endswith(".py") or "/" in where or Path(where).is_file()


def _is_pair(found: Any) -> bool:
    return isinstance(found, tuple) and len(found) == 2


def _file(path: Path) -> ModuleType:
    """A file run as `python FILE` would, with its folder on the path, but not as __main__."""
    if not path.is_file():
        near = checks.nearest(path.name, [p.name for p in path.parent.glob("*.py")])
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(
            f"{path} {kind}{near}; give a Python file or a module that defines problem and x0."
        )
    spec = importlib.util.spec_from_file_location(_MODULE, path.resolve())
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    _on_path(path.resolve().parent)
    _guarded(str(path), spec.loader.exec_module, module)
    return module


def _module(name: str) -> ModuleType:
    _on_path(Path.cwd())
    missing = FileNotFoundError(
        f"there is no file or module {name!r}; give a Python file or an importable module that "
        f"defines problem and x0."
    )
    if not all(part.isidentifier() for part in name.split(".")):
        raise missing
    try:
        return importlib.import_module(name)
    except Exception as error:
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        itself = absent is not None and f"{name}.".startswith(f"{absent}.")  # or a parent
        raise (missing if itself else _failed(name, error)) from error


def _on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _guarded(what: str, function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        raise _failed(what, error) from error


def _failed(what: str, error: Exception) -> ValueError:
    """What the user's own code raised, in a sentence with the line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
    line = f" (line {own[0].lineno} of {Path(own[0].filename).name})" if own else ""
    return ValueError(
        f"{what} failed{line} with {checks.reason(error)}; mvrc --debug solve … shows where."
    )


def _others(module: ModuleType, where: str, name: str) -> str:
    """What else could be meant."""
    known = [k for k, v in vars(module).items() if isinstance(v, mvrc.Composition)]
    known += [
        k
        for k, v in vars(module).items()
        if getattr(v, "__module__", None) == module.__name__ and callable(v) and k[0] != "_"
    ]
    if not known:
        return ", a mvrc.Composition or a function that returns one."
    near = checks.nearest(name, known)
    return f"{near}; it has {', '.join(known)}, as in {where}:{known[0]}."
