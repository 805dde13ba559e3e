"""Peak memory: matrix-free with a wide g, and ten million rows."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.children import child
from benchmarks.row import Row


def run(full: bool) -> Iterator[Row]:
    """The rows of this part."""
    free = child.run("free")
    yield Row(
        "matrix-free, p = d = 3,000: peak above the data", free["above"], "MB", most=500,
        note=f"500 rows, 2 epochs in {free['seconds']:.1f} s; compilation counted in; one p × d "
        f"matrix alone has 72 MB, a batch of them 1,600 MB",
    )  # fmt: skip
    for kind, demand in (("aligned", 1.25), ("plain", None))[: 2 if full else 1]:
        found = child.run("rows", kind)
        work = (
            f"one epoch with default sizes {found['seconds']:.1f} s" if demand else "objective only"
        )
        yield Row(
            f"10 million × 30 float32, {kind} data: peak / data",
            found["above"] / found["data"], "x", most=demand,
            note=f"peak {found['above']:,.0f} MB above the import, data {found['data']:,.0f} MB; "
            f"{work}, problem to result {found['wall']:.1f} s",
        )  # fmt: skip
