"""A child: rows in a file under a limit of memory; prints seconds, memory and what was found.

Arguments: a folder, gigabytes of rows of 40 float32, and gigabytes of RLIMIT_DATA (0: none). The
file is written once and stays in the folder.

Prints the seconds of full passes over the file and, without a limit, over the same bytes mapped in
place, and of epochs whose small batches are picked as the pass goes by; then runs MVRC and Auto.
`anonymous` is the most anonymous memory at any time, `batches` what the small batches of an epoch
take, held twice.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import mvrc
from mvrc.oracle.exact import Measuring

D, BATCH, STEPS, TURNS = 40, 256, 256, 5
WRITTEN = 2**18  # rows written at a time


def main() -> None:
    """See above."""
    folder, size, limit = Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    path = write(folder, int(size * 1e9) // (4 * D))
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit * 1e9),) * 2)
    peak = Peak()
    before = peak.now()
    file = mvrc.File(path)
    problem, x0 = composed(file), np.zeros(D, np.float32)
    found: dict[str, Any] = {"rows": file.count, "gigabytes": file.count * 4 * D * 1e-9}
    measured = [passes(problem)]
    if not limit:
        measured.append(passes(composed(np.load(path, mmap_mode="r"))))
    seconds = turns([one for one, _ in measured])
    found["pass"], found["in place"] = seconds[0], seconds[-1]
    method = mvrc.MVRC(step_size=1e-3, batch_size=BATCH, period=STEPS)
    large = mvrc.MVRC(step_size=1e-3)
    for name, chosen, epochs in (("MVRC", method, TURNS), ("blocks", large, 1), ("Auto", None, 30)):
        start = time.perf_counter()
        result = mvrc.minimize(problem, x0, chosen, epochs=epochs)
        found[name] = {
            "objective": float(result.objective), "status": result.status.name,
            "epoch": result.seconds / result.epochs, "epochs": result.epochs,
            "wall": time.perf_counter() - start,
        }  # fmt: skip
    found["batches"] = 2 * BATCH * STEPS * D * 4 * 1e-9
    found["anonymous"], found["before"] = peak.most * 1e-9, before * 1e-9
    print(json.dumps(found))


def composed(data: Any) -> mvrc.Composition:
    """Mean and variance, as in the portfolio."""

    def inner(x: Any, row: Any) -> Any:
        return jnp.stack([row @ x, (row @ x) ** 2])

    def outer(y: Any) -> Any:
        return -y[0] + 0.2 * (y[1] - y[0] ** 2)

    return mvrc.Composition(inner, outer, data, regularizer=mvrc.L1(0.01))


def write(folder: Path, rows: int) -> Path:
    """Rows that their numbers determine, in one file."""
    path = folder / f"rows-{rows}.npy"
    if not path.exists():
        out = np.lib.format.open_memmap(folder / "part.npy", "w+", np.float32, (rows, D))
        block = np.random.default_rng(0).standard_normal((WRITTEN, D), np.float32) + 0.1
        for first in range(0, rows, WRITTEN):
            out[first : first + WRITTEN] = block[: rows - first] * (1 + (first // WRITTEN) % 7 / 7)
        out.flush()
        del out
        (folder / "part.npy").rename(path)
    return path


def passes(problem: mvrc.Composition) -> tuple[Callable[[], Any], Any]:
    """A full pass, compiled: Φ and its gradient."""
    x = np.full(D, 0.01, np.float32)
    measuring = Measuring(problem, problem.geometry(x), 1.0)
    run = lambda: [np.asarray(a) for a in measuring(x)]  # noqa: E731
    run()
    return run, problem


def turns(runs: list[Callable[[], Any]]) -> list[float]:
    """The least seconds of each, in turns."""
    best = [np.inf] * len(runs)
    for _ in range(TURNS):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


class Peak:
    """The most anonymous memory of this process, asked every 20 ms."""

    def __init__(self) -> None:
        self.most = self.now()
        threading.Thread(target=self._watch, daemon=True).start()

    def now(self) -> int:
        """Bytes."""
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024
        return 0

    def _watch(self) -> None:
        while True:
            self.most = max(self.most, self.now())
            time.sleep(0.02)


if __name__ == "__main__":
    main()
