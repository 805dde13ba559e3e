"""An Optax optimiser as a method: the short form of `Method` with `OptaxScheme`."""

from __future__ import annotations

from typing import Any

import equinox as eqx

from mvrc.estimators import Ema, Sox
from mvrc.methods.method import Method
from mvrc.methods.recipe import Recipe, Start
from mvrc.oracle import Geometry
from mvrc.problem import Composition, Coupled
from mvrc.sampling import Sizes
from mvrc.schedules import Power
from mvrc.schemes import OptaxScheme

BATCH = 256
PERIOD = 100  # steps of an epoch on a stream
WEIGHT = 0.1  # of the average of g
OUTER_BATCH, OUTER_WEIGHT = 64, 0.5  # of a coupled problem


class Optimizer(Recipe):
    """`Ema` (SCGD) × `OptaxScheme`: the optimiser on g'_A(x)ᵀ∇f(y), y ← 0.9y + 0.1g_A(x).

    Batches of 256 samples, or n where that is less; an epoch is about one pass. On a coupled
    problem `Sox` with γ = 0.5 and β = 1 in its place, and batches of 64 outer samples.

    Args:
        optimizer: of Optax.
    """

    optimizer: Any = eqx.field(static=True)

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        size = lambda count: BATCH if count is None else min(BATCH, count)  # noqa: E731
        batch = Sizes(size(problem.n), None, size(problem.N) if problem.two_level else None)
        period = PERIOD if problem.n is None else None
        scheme = OptaxScheme(self.optimizer)
        if isinstance(problem, Coupled):
            few = Sizes(min(OUTER_BATCH, problem.n or OUTER_BATCH))
            own = Sox(Power(OUTER_WEIGHT), Power(1.0))
            return Method(own, scheme, few, name="optax").resolve(problem, geometry, start)
        method = Method(Ema(Power(WEIGHT)), scheme, batch, batch, period, "optax")
        return method.resolve(problem, geometry, start)
