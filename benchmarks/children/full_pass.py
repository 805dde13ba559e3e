"""A child: full passes over ten million rows of 30 float32, and sums of the same array in turns.

Argument: how many turns.
"""

import json
import sys
import time

import numpy as np

import mvrc
from benchmarks.cases import problems

ROWS = 10_000_000


def main() -> None:
    """Print the seconds of each; an epoch of one step is a refresh and a step on it."""
    data = problems.returns(ROWS, np.float32)
    problem = problems.portfolio(data)
    recipe = problems.method(period=1)
    x0 = np.zeros(problems.ASSETS, np.float32)
    times: dict[str, list[float]] = {"mvrc": [], "NumPy": []}
    for turn in range(int(sys.argv[1]) + 1):
        result = mvrc.minimize(problem, x0, recipe, epochs=2, record_every=2)
        start = time.perf_counter()
        data.sum()
        stop = time.perf_counter()
        if turn:  # the first turn compiles and touches the memory
            times["mvrc"].append(result.seconds / 2)
            times["NumPy"].append(stop - start)
    print(json.dumps({"gigabytes": data.nbytes * 1e-9, **times}))


if __name__ == "__main__":
    main()
