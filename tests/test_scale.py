"""Long and large: peak memory of problems that do not fit a careless implementation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]


def child(*arguments: str) -> dict[str, float]:
    """A measurement of the benchmarks, in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout.splitlines()[-1])


def test_matrix_free_with_nine_million_jacobian_entries():
    """p = d = 3,000: below 500 MB above the data, compilation included."""
    assert child("benchmarks.children.free")["above"] < 500


def test_ten_million_rows_within_a_quarter_above_the_data():
    """1.2 GB of float32 in memory that XLA can use in place."""
    measured = child("benchmarks.children.rows", "aligned")
    assert measured["data"] == pytest.approx(1200)
    assert measured["above"] < 1.25 * measured["data"]
