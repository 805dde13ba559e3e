"""A child: the matrix-free estimator with p = d = 3,000; prints peak memory above the data."""

import json

import jax.numpy as jnp
import numpy as np

import mvrc
from benchmarks.cases import problems
from benchmarks.children import child

WIDTH, ROWS = 3_000, 500


def main() -> None:
    """Two epochs; the baseline is taken after import, data and a first operation of JAX."""
    rng = np.random.default_rng(0)
    data = {name: rng.standard_normal((ROWS, WIDTH)) / WIDTH**0.5 for name in ("scale", "mix")}
    jnp.zeros(3).block_until_ready()
    before, _ = child.resident()
    problem = mvrc.Composition(problems.coupled, problems.spread, data)
    x0 = np.full(WIDTH, 0.01)
    result = mvrc.minimize(problem, x0, mvrc.MVRC(step_size=0.1, jacobian="free"), epochs=2)
    _, peak = child.resident()
    assert np.isfinite(result.objective)
    print(json.dumps({"above": peak - before, "seconds": float(result.history["seconds"][-1])}))


if __name__ == "__main__":
    main()
