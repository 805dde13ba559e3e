"""What a method takes where nothing is given, and what it refuses."""

from __future__ import annotations

import os
from typing import Any

from mvrc.estimators import Estimator
from mvrc.methods.method import Method
from mvrc.methods.recipe import Start
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.regularizers import Zero
from mvrc.sampling import Sizes
from mvrc.schedules import Power
from mvrc.schemes import ProximalScheme
from mvrc.support import checks


def dominant(name: str, value: Any, problem: Any) -> float:
    """v of gradient dominance, of a problem for which it says something."""
    checks.instance("problem", problem, Composition)
    if problem.two_level or not isinstance(problem.regularizer, Zero):
        raise ValueError(
            f"{name} is for one outer function and no regularizer, and this problem is "
            f"{problem.kind} with {type(problem.regularizer).__name__}; leave it out."
        )
    return checks.positive(name, value)


def single_sizes(batch: int | None, outer: int | None, problem: Composition) -> tuple[Sizes, Sizes]:
    """Batches of a single-loop method, one sample by default, and its first batch, as large."""
    outside = (outer or 1) if problem.two_level else outer
    sizes = Sizes(batch or 1, None, outside)
    return sizes, sizes


def single_loop(
    chosen: Any,
    name: str,
    estimator: Estimator,
    problem: Composition,
    geometry: Geometry,
    start: Start,
    decay: Power | None = None,
    epsilon: float | None = None,
) -> Method:
    """A single-loop estimator with proximal steps."""
    batch, first = single_sizes(chosen.batch_size, chosen.outer_batch_size, problem)
    scheme = ProximalScheme(chosen.step_size or start.step_size(), epsilon, decay)
    return Method(estimator, scheme, batch, first, chosen.period, name).resolve(
        problem, geometry, start
    )


def available_memory() -> int:
    """Bytes of memory that are free for new arrays, as far as the system says."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
