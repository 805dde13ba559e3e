"""A child: seconds of `import jax` and of `import mvrc` after it, and what else came with them."""

import json
import sys
import time

START = time.perf_counter()

import jax  # noqa: E402

JAX = time.perf_counter()
WITH_JAX = set(sys.modules)

import mvrc  # noqa: E402

MVRC = time.perf_counter()

OPTIONAL = (
    "cvxpy", "gymnasium", "matplotlib", "numba", "pandas", "plotly", "pooch", "rich", "skfolio",
    "sklearn", "torch", "typer",
)  # fmt: skip


def main() -> None:
    """With the argument "run", also after the problems, the data sets and a run."""
    if sys.argv[1:] == ["run"]:
        _use()
    came = [name for name in OPTIONAL if name in sys.modules and name not in WITH_JAX]
    print(json.dumps({"jax": JAX - START, "mvrc": MVRC - JAX, "optional": came}))


def _use() -> None:
    from mvrc.applications import mean_variance
    from mvrc.datasets import simulate_industry

    problem = mean_variance(simulate_industry(n=200, d=5).values)
    mvrc.minimize(problem, jax.numpy.zeros(5), mvrc.MVRC(step_size=1e-3), epochs=1)


if __name__ == "__main__":
    main()
