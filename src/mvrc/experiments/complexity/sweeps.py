"""Sweeps as data: what complexity.toml says, checked."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from mvrc.experiments import schema
from mvrc.experiments.complexity.family import Knobs
from mvrc.experiments.complexity.schedules import RULES
from mvrc.experiments.schema import CLOSED, Count, Positive, Some, Truth, Word
from mvrc.support import checks

KINDS = ("reach", "best", "dominance")
ALONG = ("n", "N", "epsilon", "v")
METRICS = ("mapping", "gap")
CONTROLS = ("minibatch",)  # besides the methods of Table 1


def _choice(options: Any) -> Any:
    return schema.checked(lambda name, value: checks.choice(name, value, options))


@dataclasses.dataclass(frozen=True)
class Problem:
    """Knobs of the family that are the same for all points of a sweep."""

    __pydantic_config__ = CLOSED

    shape: Annotated[str, _choice(("flat", "dominant"))] = "flat"
    n: Count | None = None  # None: online, unless the sweep goes along n
    N: Count | None = None
    two_level: Truth = False
    noise: Positive = 1.0
    outer_noise: Annotated[float, schema.checked(checks.nonnegative)] = 0.0
    a: Positive = 1.0
    v: Annotated[float, schema.checked(checks.nonnegative)] = 0.0

    def knobs(self, along: str, value: float) -> Knobs:
        """Of one point."""
        given = dataclasses.asdict(self)
        if along in ("n", "N"):
            given[along] = int(value)
        elif along == "v":
            given["v"] = float(value)
        return Knobs(**given)


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Samples to a goal, point after point, for some methods.

    `kind` "reach": theory's schedules times one factor, tuned at `tune_at`; "best": batch, period
    and factor chosen for every point; "dominance": samples for a fall of the gap by e.
    """

    __pydantic_config__ = CLOSED

    id: Word
    title: Word
    kind: Annotated[str, _choice(KINDS)]
    problem_class: Annotated[str, _choice(("Σ¹", "E¹", "Σ²", "E²"))]
    problem: Problem = dataclasses.field(metadata={"table": Problem})
    along: Annotated[str, _choice(ALONG)]
    values: Annotated[tuple[Positive, ...], Some]
    tune_at: Positive
    metric: Annotated[str, _choice(METRICS)]
    methods: Annotated[tuple[Annotated[str, _choice((*RULES, *CONTROLS))], ...], Some]
    predicted: Word  # the exponent of the theory, as text, where methods have one in common
    level: Positive | None = None  # of the goal; None: ε itself
    most: Positive = 1e9  # samples of a seed
    seeds: Count = 8
    quick_values: tuple[Positive, ...] = ()
    short: Truth = True  # whether it is part of --quick

    def quick(self) -> Sweep:
        """Fewer values and seeds, and the first two methods."""
        values = self.quick_values or self.values[:3]
        at = min(values, key=lambda value: abs(value - self.tune_at))
        few: dict[str, Any] = {"values": values, "tune_at": at, "seeds": min(3, self.seeds)}
        return dataclasses.replace(self, methods=self.methods[:2], **few)
