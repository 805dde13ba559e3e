"""The other sides: which twins there are for a problem, each as an epoch of so many steps."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.twins import numba_twin, torch_twin, twin, wide_twin
from benchmarks.twins.twin import Twin

PLAIN, TUNED, NUMBA, TORCH = "plain NumPy", "tuned NumPy", "Numba", "PyTorch"
ALL = (PLAIN, TUNED, NUMBA, TORCH)

_MODULE = {NUMBA: "numba", TORCH: "torch"}
_EPOCHS = {
    PLAIN: twin.read_epoch,
    TUNED: twin.epoch,
    NUMBA: numba_twin.epoch,
    TORCH: torch_twin.epoch,
}

Epoch = Callable[[int], Any]


def installed(side: str) -> bool:
    """Whether what the side needs is there."""
    return side not in _MODULE or importlib.util.find_spec(_MODULE[side]) is not None


def epoch(side: str) -> Callable[..., Twin]:
    """An epoch of the portfolio problem."""
    return _EPOCHS[side]


def portfolio(data: np.ndarray, batch: int, wanted: tuple[str, ...]) -> dict[str, Epoch]:
    """The wanted twins of the portfolio problem on these data."""
    start = _start(data)
    rng = np.random.default_rng(0)

    def side(run: Callable[..., Twin]) -> Epoch:
        return lambda steps: run(data, start, rng, batch, steps)

    return {name: side(_EPOCHS[name]) for name in wanted if installed(name)}


def wide(
    data: np.ndarray, mix: np.ndarray, matrix: bool, batch: int, wanted: tuple[str, ...]
) -> dict[str, Epoch]:
    """The twin of the wide problem, if it is wanted; there is one in plain NumPy only."""
    start = _start(data)
    rng = np.random.default_rng(0)

    def run(steps: int) -> Twin:
        return wide_twin.epoch(data, mix, matrix, start, rng, batch, steps)

    return {PLAIN: run} if PLAIN in wanted else {}


def _start(data: np.ndarray) -> Twin:
    zeros = np.zeros(data.shape[1], data.dtype)
    return Twin(zeros, zeros)
