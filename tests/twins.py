"""Plain NumPy twins: Algorithms 1 and 2 written as loops, line by line, for the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cases import Case, soft

Draws = Callable[[int], dict[str, Any]]  # step number -> index arrays of A, A', B


def everything(case: Case) -> Draws:
    """Every sample at every step."""
    outside = np.arange(case.problem.N) if case.problem.two_level else None
    full = {"values": np.arange(case.problem.n), "jacobians": np.arange(case.problem.n)}
    return lambda step: {**full, "outer": outside}


def mvrc_twin(
    case: Case,
    *,
    period: int,
    steps: int,
    alpha: Callable[[int], float],
    beta: Callable[[int], float],
    lam: Callable[[int], float],
    epsilon: float | None = None,
    restart_every: int | None = None,  # steps
    draws: Draws | None = None,
    free: bool = False,
) -> Iterator[np.ndarray]:
    """MVRC-1 (one outer function) or MVRC-2 (several), yielding xₜ₊₁ after each step."""
    draws = draws or everything(case)
    full = everything(case)
    x = case.x0.copy()
    y = x.copy()
    z_old, t = x, 0
    for step in range(steps):
        if restart_every and step and step % restart_every == 0:
            y, t = x.copy(), 0
        z = (1 - alpha(t + 1)) * y + alpha(t + 1) * x
        if step % period == 0:
            batch = full(step)
            g = case.values(z, batch["values"])
            jacobian = case.jacobian(z, batch["jacobians"])
            df = case.outer_gradient(g, batch["outer"])
            v = jacobian.T @ df
        else:
            batch = draws(step)
            a, a_prime, b = batch["values"], batch["jacobians"], batch["outer"]
            g_old = g
            g = g + case.values(z, a) - case.values(z_old, a)
            new, old = case.outer_gradient(g, b), case.outer_gradient(g_old, b)
            if free:
                v = v + case.jacobian(z, a_prime).T @ new - case.jacobian(z_old, a_prime).T @ old
            else:
                jacobian = jacobian + case.jacobian(z, a_prime) - case.jacobian(z_old, a_prime)
                df = new if b is None else df + new - old
                v = jacobian.T @ df
        moved = soft(x - lam(t) * v, lam(t))
        theta = 1.0
        if epsilon is not None:
            length = np.linalg.norm(moved - x)
            theta = min(epsilon * lam(t) / length, 0.5) if length > 0 else 0.5
        x_new = (1 - theta) * x + theta * moved
        y = z + beta(t) / lam(t) * (x_new - x)
        x, z_old, t = x_new, z, t + 1
        yield x.copy()
