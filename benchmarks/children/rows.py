"""A child: ten million rows of 30 float32; prints peak memory above that of the bare import.

Argument: "aligned" for data on a 64-byte boundary, as `np.load(..., mmap_mode="r")` and JAX give
them, which can be used without a copy; "plain" for a NumPy array as it comes, of which only the
objective is computed (what that costs is the copy).
"""

import json
import sys
import time

import jax.numpy as jnp
import numpy as np

import mvrc
from benchmarks.cases import problems
from benchmarks.children import child

ROWS = 10_000_000


def main() -> None:
    """One epoch of MVRC with default sizes, or the objective alone."""
    jnp.zeros(3).block_until_ready()
    before, _ = child.resident()
    aligned = sys.argv[1] == "aligned"
    data = _data(aligned)
    start = time.perf_counter()
    problem = problems.portfolio(data)
    x0 = np.zeros(problems.ASSETS, np.float32)
    seconds = 0.0
    if aligned:
        result = mvrc.minimize(problem, x0, mvrc.MVRC(step_size=problems.STEP), epochs=1)
        objective, seconds = result.objective, float(result.history["seconds"][-1])
    else:
        objective = problem.objective(x0)
    wall = time.perf_counter() - start
    _, peak = child.resident()
    assert np.isfinite(objective)
    megabytes = data.nbytes * 1e-6
    print(
        json.dumps(
            {"above": peak - before, "data": megabytes, "seconds": seconds, "wall": wall}
        )
    )  # fmt: skip


def _data(aligned: bool) -> np.ndarray:
    block = problems.returns(100_000, np.float32)
    return problems.tiled(block, ROWS, aligned)


if __name__ == "__main__":
    main()
