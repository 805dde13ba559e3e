"""Networks: `Auto` says CONVERGED of none that is not; small ones of benchmarks/networks.py."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import networks

import mvrc

SMALL = networks.networks(rows=1500, wide=8, auc=8)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("steps", ["auto", "secant", "averaged"])
@pytest.mark.parametrize("name", list(SMALL))
def test_a_small_network_is_not_called_converged_before_it_is(name, steps, dtype):
    row = networks.run(SMALL[name], dtype, steps, seconds=6.0)
    assert not row.get("false", False), row


@pytest.mark.parametrize("name", list(networks.far_starts()))
def test_far_starts_in_float32(name):
    row = networks.run(networks.far_starts()[name], np.float32, "auto")
    assert row["status"] == mvrc.Status.CONVERGED.name
    assert not row["false"], row
