"""For all tests: annotated shapes and dtypes are checked at run time; programs compile fast.

The tests compile some hundred small programs and run each for milliseconds, so LLVM's
optimisation is off (what XLA computes does not depend on it beyond rounding), compiled programs
are kept on disk, and tests that share programs run in one worker.
"""

import ast
import collections
import gc
import os
import shutil
from pathlib import Path

os.environ["XLA_FLAGS"] = f"--xla_backend_optimization_level=0 {os.environ.get('XLA_FLAGS', '')}"
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "programs"
os.environ.setdefault("MVRC_CACHE", str(CACHE))

import pytest  # noqa: E402
from jaxtyping import _import_hook, install_import_hook  # noqa: E402


class Outermost(_import_hook.JaxtypingTransformer):
    """Functions and methods of modules are checked, not the functions inside of them: those are
    new objects at every call, and to make a check of each takes longer than the call."""

    def visit_FunctionDef(self, node):
        inside = any(isinstance(parent, ast.FunctionDef) for parent in self._parents)
        return node if inside else super().visit_FunctionDef(node)


_import_hook.JaxtypingTransformer = Outermost

# Not what runs in NumPy step by step.
STEPS = ("solvers", "regularizers", "metrics")
SOURCE = Path(__file__).parents[1] / "src" / "mvrc"
CHECKED = [f"mvrc.{file.stem}" for file in SOURCE.iterdir() if file.stem not in STEPS]
CHECKED.remove("mvrc.__init__")
with install_import_hook(CHECKED, "beartype.beartype"):
    import mvrc  # noqa: F401

# What is imported stays: looking for garbage in it at every turn takes a twentieth of the time.
gc.freeze()
gc.set_threshold(100_000, 20, 50)


def places(item, number):
    """The place on each side of the product of which this is the call with that number."""
    sides = list(item.iter_markers("parametrize"))
    for mark in reversed(sides[1:]):  # the last one moves first
        number, place = divmod(number, len(mark.args[1]))
        yield place
    yield number


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """One group a file, or a method where the tests go through the methods.

    Of a product marked `one_in(k)` each value of one side meets every k-th of the other; the rest
    is slow.
    """
    calls = collections.Counter()
    for item in items:
        calls[item.parent, item.originalname] += 1
        number = calls[item.parent, item.originalname] - 1
        values = item.callspec.params if hasattr(item, "callspec") else {}
        share = item.get_closest_marker("one_in")
        if share is not None and sum(places(item, number)) % share.args[0]:
            item.add_marker(pytest.mark.slow)
        name = getattr(values.get("case"), "name", None) or values.get("name", "")
        item.add_marker(pytest.mark.xdist_group(f"{item.module.__name__} {name}"))


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window; tests that need it are skipped where it cannot be had."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="pages are tested with playwright"
    )
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
