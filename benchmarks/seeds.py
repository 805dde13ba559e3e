"""Ten seeds in one vmapped program against one run, in turns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import mvrc
from benchmarks import problems
from benchmarks.row import Row

SEEDS, EPOCHS, ROUNDS = 10, 5, 6


def rows() -> Iterator[Row]:
    """The rows of this part."""
    for sampling in ("replacement", "reshuffled"):
        problem = problems.portfolio(problems.returns(), sampling)
        x0, method = np.zeros(problems.ASSETS), problems.method()
        one: list[float] = []
        many: list[float] = []
        for turn in range(ROUNDS + 1):
            single = mvrc.minimize(problem, x0, method, epochs=EPOCHS)
            several = mvrc.minimize_many(problem, x0, method, seeds=SEEDS, epochs=EPOCHS)
            if turn:  # the first turn warms up
                one.extend(np.diff(single.history["seconds"]))
                many.extend(np.diff(several[0].history["seconds"]))
        yield Row(
            f"{SEEDS} vmapped seeds / one, {sampling}", np.median(many) / np.median(one), "x",
            most=10 if sampling == "replacement" else None,
            note=f"an epoch: {1e3 * np.median(many):.1f} ms and {1e3 * np.median(one):.1f} ms "
            f"(median); ratio of the best {np.min(many) / np.min(one):.2f} x",
        )  # fmt: skip
