"""What `mvrc launch` starts: a script in a process that has met the others."""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from os import _exit as leave
from pathlib import Path
from typing import Any

import jax
from jaxlib import _jax as runtime

SETTINGS = "MVRC_WORKER"  # the environment variable with what follows, as JSON
MEETING = 60  # seconds that processes wait for each other


def main() -> None:
    """Join the others, then run the script as if it had been called."""
    given = json.loads(os.environ.pop(SETTINGS))
    if given["cores"]:
        os.sched_setaffinity(0, given["cores"])
    jax.config.update("jax_enable_recoverability", True)  # a process that dies ends no other
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    where = given["address"], given["processes"], given["rank"]
    # The place where processes meet is in the process that launched them, not in process 0, as JAX
    # ends all others at once when that place is gone.
    runtime.get_distributed_runtime_service = lambda *_, **__: None
    jax.distributed.initialize(*where, initialization_timeout=MEETING)
    jax.distributed.initialize = _met
    script = given["script"]
    sys.argv = [script, *given["arguments"]]
    sys.path[0] = str(Path(script).absolute().parent)
    code: Any = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    if code:  # without waiting for others, which may not come any more
        leave(code if isinstance(code, int) else 1)


def _met(*arguments: Any, **settings: Any) -> None:
    """In the place of `jax.distributed.initialize`, which may be called once."""


if __name__ == "__main__":
    main()
