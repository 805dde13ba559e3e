"""How many samples: of the batches of a step, and what a pass evaluates."""

from __future__ import annotations

import dataclasses
from typing import Any

from mvrc.support import checks


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Batch sizes of the three independent draws A (values), A' (Jacobians) and B (outer).

    `None` stands for every sample, and where there is one outer function for that function.

    Examples:
        >>> mvrc.Sizes(values=64, jacobians=32)
        Sizes(values=64, jacobians=32, outer=None)
    """

    values: int | None = None
    jacobians: int | None = None
    outer: int | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            size = getattr(self, field.name)
            if size is not None:
                checks.integer(f"{field.name} of Sizes", size)


@dataclasses.dataclass(frozen=True)
class Amount:
    """How many samples are evaluated, where a program serves every n: c + m·n + M·N."""

    fixed: int = 0
    inner: int = 0
    outer: int = 0

    def __add__(self, other: Any) -> Amount:
        other = other if isinstance(other, Amount) else Amount(other)
        return Amount(self.fixed + other.fixed, self.inner + other.inner, self.outer + other.outer)

    __radd__ = __add__

    def __mul__(self, times: int) -> Amount:
        return Amount(times * self.fixed, times * self.inner, times * self.outer)

    __rmul__ = __mul__

    def at(self, n: int | None, N: int | None) -> int:
        """The number, once n and N are known."""
        return self.fixed + self.inner * (n or 0) + self.outer * (N or 0)
