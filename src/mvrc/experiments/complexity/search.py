"""One factor, or sizes, chosen by seeds of their own: hill climbing on powers of two."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

FURTHER = 3.0  # times the best cost so far: what another attempt may cost at most

Cost = Callable[
    [tuple[int, ...], float], float
]  # a choice and the most it may cost ↦ its cost, ∞ for failure


def climb(
    cost: Cost, start: tuple[int, ...], most: float, moves: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[tuple[int, ...], float]]]:
    """The choice that no move makes cheaper, and all that was tried, in its order.

    Args:
        cost: of a choice.
        start: the first choice, of integers.
        most: what an attempt may cost before anything has succeeded.
        moves: what may be added to a choice; −m is tried wherever m is listed.
    """
    tried: dict[tuple[int, ...], float] = {}

    def attempt(choice: tuple[int, ...]) -> float:
        if choice not in tried:
            best = min(tried.values(), default=math.inf)
            tried[choice] = cost(choice, min(most, FURTHER * best))
        return tried[choice]

    here = start
    attempt(here)
    for _ in range(12):  # a start that fails is left downwards, along the first move
        if math.isfinite(tried[here]):
            break
        here = _moved(here, moves[0], -1)
        attempt(here)
    better = True
    while better:
        better = False
        for move in moves:
            for sign in (1, -1):
                there = _moved(here, move, sign)
                while attempt(there) < tried[here]:
                    here, there, better = there, _moved(there, move, sign), True
    return here, list(tried.items())


def _moved(choice: tuple[int, ...], move: tuple[int, ...], sign: int) -> tuple[int, ...]:
    return tuple(a + sign * b for a, b in zip(choice, move, strict=True))
