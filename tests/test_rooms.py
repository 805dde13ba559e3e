"""The tree is the architecture: a room imports only rooms above it, also inside functions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "mvrc"

# From top to bottom, the order in which a row of the user's data passes them.
ROOMS = (
    "support", "compiler", "sampling", "regularizers", "oracle", "problem", "losses", "schedules",
    "estimators", "trackers", "torch", "schemes", "theory", "methods", "engine", "solvers", "run",
    "datasets", "applications", "experiments", "report", "cli",
)  # fmt: skip
OF_TUPLES = ("_fields", "_replace", "_asdict", "_make")  # public, in spite of their names
LONG = 300  # lines of a file, unless its docstring says why


def modules() -> dict[str, Path]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(("mvrc", *path.relative_to(SOURCE).with_suffix("").parts))
        found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imported(path: Path) -> set[tuple[str, str]]:
    """Modules and names that a file imports of ours, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {(a.name, "") for a in node.names if a.name.split(".")[0] == "mvrc"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mvrc":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add((whole, "") if whole in MODULES else (node.module, alias.name))
    return found


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


INSIDE = sorted(name for name in MODULES if name != "mvrc")


def test_every_module_has_a_room():
    assert {room(name) for name in INSIDE} == set(ROOMS)


@pytest.mark.parametrize("name", INSIDE)
def test_rooms_import_only_what_is_above_them(name):
    place = ROOMS.index(room(name))
    low = [
        other for other, _ in imported(MODULES[name])
        if other != "mvrc" and ROOMS.index(room(other)) > place
    ]  # fmt: skip
    assert not low, f"{name} ({room(name)}) imports {low}, which is below it"


@pytest.mark.parametrize("name", INSIDE)
def test_no_private_name_leaves_its_room(name):
    taken = [
        f"{other}.{what}" for other, what in imported(MODULES[name])
        if room(other) != room(name) and (what.startswith("_") or ".{_" in other)
    ]  # fmt: skip
    assert not taken


@pytest.mark.parametrize("name", INSIDE)
def test_no_import_is_hidden(name):
    """Every import of ours is absolute and of a module's public names, so that the rules see it."""
    tree = ast.parse(MODULES[name].read_text())
    relative = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    assert not relative
    taken = [
        f"{node.value.id}.{node.attr}" for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        and node.attr.startswith("_") and not node.attr.startswith("__")
        and node.value.id not in ("self", "cls") and node.attr not in OF_TUPLES
    ]  # fmt: skip
    assert not taken


@pytest.mark.parametrize("name", INSIDE)
def test_a_file_is_short_or_says_why(name):
    text = MODULES[name].read_text()
    if len(text.splitlines()) > LONG:
        assert "Longer than" in (ast.get_docstring(ast.parse(text)) or "")


def test_init_files_hold_names_only():
    for name, path in MODULES.items():
        if path.name == "__init__.py":
            body = ast.parse(path.read_text()).body
            kinds = {type(node).__name__ for node in body}
            if name not in ("mvrc", "mvrc.applications"):  # some names are imported when asked for
                assert kinds <= {"Expr", "ImportFrom", "Import", "Assign"}, name
