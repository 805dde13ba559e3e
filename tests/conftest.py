"""For all tests: annotated shapes and dtypes are checked at run time; programs compile fast.

The tests compile some hundred small programs and run each for milliseconds, so LLVM's
optimisation is off. What XLA computes does not depend on it beyond rounding.
"""

import os

os.environ["XLA_FLAGS"] = f"--xla_backend_optimization_level=0 {os.environ.get('XLA_FLAGS', '')}"

from jaxtyping import install_import_hook

with install_import_hook("mvrc", "beartype.beartype"):
    import mvrc  # noqa: F401
