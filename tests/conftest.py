"""For all tests: annotated shapes and dtypes are checked at run time; programs compile fast.

The tests compile some hundred small programs and run each for milliseconds, so LLVM's
optimisation is off (what XLA computes does not depend on it beyond rounding), compiled programs
are kept on disk, and tests that share programs run in one worker.
"""

import os
from pathlib import Path

os.environ["XLA_FLAGS"] = f"--xla_backend_optimization_level=0 {os.environ.get('XLA_FLAGS', '')}"
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "programs"
os.environ.setdefault("MVRC_CACHE", str(CACHE))

import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

# Not what runs in NumPy step by step: a function inside a function is checked anew at every call.
STEPS = ("solvers", "regularizers", "metrics")
SOURCE = Path(__file__).parents[1] / "src" / "mvrc"
CHECKED = [f"mvrc.{file.stem}" for file in SOURCE.iterdir() if file.stem not in STEPS]
CHECKED.remove("mvrc.__init__")
with install_import_hook(CHECKED, "beartype.beartype"):
    import mvrc  # noqa: F401


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """One group a file, or a method where the tests go through the methods.

    Of a product marked `one_in(k)` each value of one side meets every k-th of the other; the rest
    is slow.
    """
    for item in items:
        values = item.callspec.params if hasattr(item, "callspec") else {}
        share = item.get_closest_marker("one_in")
        if share is not None and sum(item.callspec.indices.values()) % share.args[0]:
            item.add_marker(pytest.mark.slow)
        name = getattr(values.get("case"), "name", None) or values.get("name", "")
        item.add_marker(pytest.mark.xdist_group(f"{item.module.__name__} {name}"))
