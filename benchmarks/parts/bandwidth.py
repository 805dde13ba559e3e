"""A full pass over ten million rows against a plain NumPy sum of the same array, in turns."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.children import child
from benchmarks.row import Row
from benchmarks.timing import Spread


def run(full: bool) -> Iterator[Row]:
    """The rows of this part."""
    measured = child.run("full_pass", "12" if full else "4")
    size = measured["gigabytes"]
    ours, theirs = Spread.of(measured["mvrc"]), Spread.of(measured["NumPy"])
    ratio = theirs.over(ours)
    yield Row(
        "full pass at n = 10⁷, d = 30, float32: share of the bandwidth of a NumPy sum",
        ratio.best, "x", least=0.5,
        note=f"{size / ours.best:.1f} GB/s against {size / theirs.best:.1f} GB/s (best); medians "
        f"{ratio.median:.2f} x; the pass gives g, g' and a step, the sum one number",
    )  # fmt: skip
