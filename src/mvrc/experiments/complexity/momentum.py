"""Momentum or step: MVRC's α from 0 to 1, at equal λ and at the best λ of each α."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any

import mvrc
from mvrc.experiments import schema
from mvrc.experiments.complexity import search
from mvrc.experiments.complexity.drive import OWN_SEEDS, trace
from mvrc.experiments.complexity.family import known
from mvrc.experiments.complexity.sweeps import METRICS, Problem
from mvrc.experiments.schema import CLOSED, Count, Positive, Some, Truth, Word
from mvrc.support import checks


@dataclasses.dataclass(frozen=True)
class Momenta:
    """One problem: samples to a goal for every α, with β = λ/(1 + α).

    Args:
        alphas: α; 1 is no momentum, as z = x there.
        equal: the λ that all have once.
        per_octave: candidates of the best λ in a factor of two.
    """

    __pydantic_config__ = CLOSED

    id: Word
    title: Word
    problem: Problem = dataclasses.field(metadata={"table": Problem})
    alphas: Annotated[tuple[Annotated[float, schema.checked(checks.fraction)], ...], Some]
    equal: Positive
    metric: Annotated[str, schema.checked(lambda n, v: checks.choice(n, v, METRICS))]
    level: Positive
    per_octave: Count = 4
    most: Positive = 1e8
    seeds: Count = 8
    short: Truth = True

    def quick(self) -> Momenta:
        """Three α, and coarser."""
        return dataclasses.replace(
            self, alphas=(self.alphas[0], self.alphas[len(self.alphas) // 2], self.alphas[-1]),
            seeds=3, per_octave=2,
        )  # fmt: skip


def measure(spec: Momenta) -> dict[str, Any]:
    """The record: for each α samples at the equal λ and at its best."""
    at = known(spec.problem.knobs("", 0.0))
    goal = spec.metric, spec.level
    own = list(range(OWN_SEEDS, OWN_SEEDS + spec.seeds))
    seeds = list(range(spec.seeds))

    def run(alpha: float, lam: float, with_seeds: list[int], most: float) -> Any:
        method = mvrc.MVRC(lam / (1 + alpha), mvrc.Constant(alpha))
        return trace(at, method, with_seeds, goal, most).to(*goal)

    points = []
    for alpha in spec.alphas:

        def cost(choice: tuple[int, ...], most: float, alpha: float = alpha) -> float:
            lam = spec.equal * 2.0 ** (choice[0] / spec.per_octave)
            return float(run(alpha, lam, own, most)[0])

        chosen, tried = search.climb(cost, (0,), spec.most, [(1,)])
        best = spec.equal * 2.0 ** (chosen[0] / spec.per_octave)
        points.append(
            {
                "at": alpha,
                "equal": _plain(run(alpha, spec.equal, seeds, spec.most)),
                "best": best,
                "samples": _plain(run(alpha, best, seeds, spec.most)),
                "tried": [[c[0], v if math.isfinite(v) else None] for c, v in tried],
            }
        )
    return {"points": points, "equal": spec.equal}


def _plain(values: Any) -> list[float | None]:
    return [float(v) if math.isfinite(v) else None for v in values]
