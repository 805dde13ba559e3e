"""The twin in eager PyTorch on the CPU: the same arithmetic as `twin.read_epoch`, on one thread.

PyTorch is no dependency of the benchmarks; this side is measured where it is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases.problems import ALPHA, RISK, SPARSITY, STEP
from benchmarks.twins.twin import LAM, Twin


def epoch(
    data: np.ndarray, state: Twin, rng: np.random.Generator, batch_size: int, period: int
) -> Twin:
    """One refresh and period − 1 small steps; the indices come from PyTorch's own generator."""
    import torch

    torch.set_num_threads(1)  # as NumPy's BLAS: the products are too small for more
    rows, x, y = (torch.from_numpy(a) for a in (data, *state))
    draw = torch.Generator().manual_seed(int(rng.integers(2**31)))
    with torch.inference_mode():
        x, y = _steps(torch, rows, x, y, draw, batch_size, period)
    return Twin(x.numpy(), y.numpy())


def _steps(
    torch: Any, data: Any, x: Any, y: Any, draw: Any, batch_size: int, period: int
) -> tuple[Any, Any]:
    count = len(data)
    previous = inner = jacobian = None
    for t in range(period):
        point = (1 - ALPHA) * y + ALPHA * x
        if t == 0:
            inner, jacobian = _moments(torch, data, point)
        else:
            rows = data
            if batch_size != count:
                rows = data[torch.randint(0, count, (batch_size,), generator=draw)]
            new, new_jacobian = _moments(torch, rows, point)
            old, old_jacobian = _moments(torch, rows, previous)
            inner = inner + new - old
            jacobian = jacobian + new_jacobian - old_jacobian
        gradient = (-1 - 2 * RISK * inner[0]) * jacobian[0] + RISK * jacobian[1]
        after = torch.nn.functional.softshrink(x - LAM * gradient, LAM * SPARSITY)
        y = point + (STEP / LAM) * (after - x)
        x, previous = after, point
    return x, y


def _moments(torch: Any, rows: Any, point: Any) -> tuple[Any, Any]:
    """g_A and g'_A."""
    gains = rows @ point
    value = torch.stack([gains.mean(), (gains**2).mean()])
    return value, torch.stack([rows.mean(dim=0), 2 * (gains @ rows) / len(rows)])
