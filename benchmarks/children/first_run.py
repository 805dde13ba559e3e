"""A child: one short run in a new process, timed from before the first import.

Argument: the number of epochs.
"""

import time

START = time.perf_counter()  # before every import that costs something

import json  # noqa: E402
import sys  # noqa: E402

import numpy as np  # noqa: E402

import mvrc  # noqa: E402
from benchmarks.cases import problems  # noqa: E402


def main() -> None:
    """Print the seconds of the import, of the run, and of all."""
    imported = time.perf_counter() - START
    problem = problems.portfolio(problems.returns())
    x0 = np.zeros(problems.ASSETS)
    ready = time.perf_counter() - START
    mvrc.minimize(problem, x0, problems.method(), epochs=int(sys.argv[1]))
    total = time.perf_counter() - START
    print(json.dumps({"import": imported, "minimize": total - ready, "total": total}))


if __name__ == "__main__":
    main()
