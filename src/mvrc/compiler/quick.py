"""Programs compiled in half the time, by options of XLA's that leave steps as fast as they are.

The emitters of fusions take half of the time of a small program, and parallel code generation
makes it for more threads than it gains.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jaxlib

from mvrc.compiler import disk
from mvrc.compiler.meshes import everywhere, placed
from mvrc.support import feeding, tricks

# Releases and the options that they know: another one is an error.
_THREADS = {"xla_cpu_parallel_codegen_split_count": 1}
_BOTH = {"xla_cpu_use_fusion_emitters": False, **_THREADS}
TESTED = {
    **dict.fromkeys(("0.8.2", "0.8.3", "0.9.0", "0.9.0.1"), _BOTH),
    **dict.fromkeys(("0.12.0", "0.12.0.1"), _THREADS),
}
_RARE = {"xla_backend_optimization_level": 0}

# Numbers that a program evaluates which runs a few times in a run, up to which it is not optimised:
# that takes 0.15 s, and makes it up to six times as fast, so at most 0.1 s faster.
SMALL = 2**26


def options(rare: bool = False) -> dict[str, Any]:
    """For `jax.jit(…, compiler_options=…)`; `rare`: of a program that hardly runs."""
    known = TESTED.get(jaxlib.__version__)
    if known is None or jax.default_backend() != "cpu" or not tricks.on("quick"):
        return {}
    return known | _RARE if rare else dict(known)


class Program:
    """`function` for arguments of such shapes, compiled beside what goes on.

    It is traced at once; who calls it first waits for XLA.

    Args:
        function, specs: what is compiled.
        donate: arguments that it may overwrite.
        rare: whether it hardly runs.
    """

    def __init__(
        self, function: Callable[..., Any], specs: Any, donate: tuple[int, ...] = (),
        rare: bool = False,
    ) -> None:  # fmt: skip
        chosen, before = options(rare), feeding.traced()
        self._mesh, function, specs = everywhere(function, specs)
        lowered = jax.jit(function, donate_argnums=donate, compiler_options=chosen).lower(*specs)
        self._later: Future[Any] | None = _threads().submit(disk.compile, lowered, chosen)
        self._run: Any = None
        self._fed = feeding.traced() != before  # by the host, while it runs

    def wait(self) -> None:
        """Until it is compiled; raises what the compiler raises."""
        if self._later is not None:
            self._run, self._later = self._later.result(), None

    def __call__(self, *arguments: Any) -> Any:
        if self._later is not None:
            self.wait()
        if self._mesh is not None:
            arguments = placed(arguments, self._mesh)
        result = self._run(*arguments)
        return feeding.finished(result) if self._fed else result


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, "mvrc-compiler")
