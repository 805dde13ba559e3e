"""What parts of the benchmarks yield: a `Row` of the table of demands, a case, a ratio."""

from __future__ import annotations

import dataclasses

from benchmarks.timing import Spread


@dataclasses.dataclass(frozen=True)
class Row:
    """A measured number.

    Args:
        name: what was measured.
        value: the number.
        unit: of the number; "x" for a ratio.
        least, most: the demand; neither for a number that is only reported.
        note: how it was measured, or the numbers behind it.
    """

    name: str
    value: float
    unit: str
    least: float | None = None
    most: float | None = None
    note: str = ""

    @property
    def demand(self) -> str:
        """The demand in words."""
        if self.least is not None:
            return f"at least {self.least:g} {self.unit}".strip()
        return "" if self.most is None else f"at most {self.most:g} {self.unit}".strip()

    @property
    def verdict(self) -> str:
        """pass, FAIL, or nothing where nothing is demanded."""
        if self.least is None and self.most is None:
            return ""
        low = self.least is not None and not self.value >= self.least
        high = self.most is not None and not self.value <= self.most
        return "FAIL" if low or high else "pass"

    @property
    def number(self) -> str:
        """Value and unit."""
        size = abs(self.value)
        if 0 < size < 0.01:
            return f"{self.value:.1e} {self.unit}".strip()
        digits = 0 if size >= 100 else 1 if size >= 10 else 2
        return f"{self.value:,.{digits}f} {self.unit}".strip()


@dataclasses.dataclass(frozen=True)
class Measured:
    """A case of the grid with its numbers."""

    group: str  # the table that it belongs to
    case: dict  # fields of `Case`
    step: dict[str, dict[str, float]]  # µs a step by side: best and median
    samples: float  # of g a second
    compile: float | None = None  # seconds
    memory: float | None = None  # peak above the data, MB
    data: float | None = None  # MB

    def ratio(self, side: str) -> Spread | None:
        """How many times as long the side takes as mvrc."""
        if side not in self.step:
            return None
        return Spread(**self.step[side]).over(Spread(**self.step["mvrc"]))


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times as fast as the plain NumPy twin, for the guard against regressions."""

    name: str
    best: float  # ratio of the best times
    median: float  # ratio of the medians
