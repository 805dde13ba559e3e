"""One prox or two: MVRC against Katyusha to the same gap where the prox is expensive.

min over X of f(E g(X)) + r(X), g = (e, e²) of the residual e = aᵀXb − c or aᵀx − c, and
f(y) = y₂ − y₁²/2: the mean square, half of the bias forgiven. Rank-one a bᵀ make the samples cheap
beside the prox of a matrix.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np

import mvrc
from mvrc.experiments import schema
from mvrc.experiments.complexity import search
from mvrc.experiments.complexity.drive import OWN_SEEDS
from mvrc.experiments.schema import CLOSED, Count, Positive, Some, Truth, Word
from mvrc.support import checks

KINDS = ("nuclear", "group", "total-variation")
METHODS = ("mvrc-constant", "civr", "katyusha")
GROUP = 20  # coordinates of a group
FIRST = -3  # the search for a step 2^k times that of full passes starts here


@dataclasses.dataclass(frozen=True)
class Proxes:
    """One regulariser.

    Args:
        kind: "nuclear", "group" or "total-variation".
        d: side of the matrix, or length of the vector.
        n: samples.
        weight: of r.
        gap: relative to that of x₀ = 0, to be reached.
        epochs: of a run, at most.
        batch, period: S and τ of all methods: large batches, as a sample's own curvature is many
            times that of the mean here.
        seeds: from 0, each measured one after the other.
    """

    __pydantic_config__ = CLOSED

    id: Word
    title: Word
    kind: Annotated[str, schema.checked(lambda n, v: checks.choice(n, v, KINDS))]
    d: Count
    n: Count
    weight: Positive
    gap: Positive
    epochs: Count
    batch: Count
    period: Count
    methods: Annotated[
        tuple[Annotated[str, schema.checked(lambda n, v: checks.choice(n, v, METHODS))], ...], Some
    ] = METHODS
    seeds: Count = 3
    short: Truth = True

    def quick(self) -> Proxes:
        """One seed."""
        return dataclasses.replace(self, seeds=1)


def measure(spec: Proxes) -> dict[str, Any]:
    """The record: number of prox, seconds and samples to the gap, each method at its best step."""
    problem, x0 = _problem(spec)
    best = mvrc.minimize(problem, x0, mvrc.FISTA(), epochs=100, rtol=1e-6, record_every=20)
    lowest, first = best.objective, float(problem.objective(x0))
    level = lowest + spec.gap * (first - lowest)
    size = best.step_size
    points = []
    for name in spec.methods:

        def cost(choice: tuple[int, ...], most: float, name: str = name) -> float:
            step = size * 2.0 ** choice[0]
            made = _run(spec, problem, x0, name, step, level, OWN_SEEDS, most)
            return made["prox"] if made["prox"] is not None else np.inf

        chosen, tried = search.climb(cost, (FIRST,), np.inf, [(1,)])
        step = size * 2.0 ** chosen[0]
        runs = [_run(spec, problem, x0, name, step, level, s) for s in range(spec.seeds)]
        points.append(
            {"method": name, "step": step, "runs": runs,
             "tried": [[c[0], None if np.isinf(v) else v] for c, v in tried]}
        )  # fmt: skip
    return {"points": points, "lowest": lowest, "first": first}


def _run(
    spec: Proxes,
    problem: Any,
    x0: Any,
    name: str,
    step: float,
    level: float,
    seed: int,
    most: float = np.inf,
) -> dict[str, Any]:
    sizes: dict[str, Any] = {"batch_size": spec.batch, "period": spec.period}
    method = {
        "mvrc-constant": lambda: mvrc.MVRC(step / 1.8, mvrc.Constant(0.8), **sizes),
        "civr": lambda: mvrc.CIVR(step, **sizes),
        "katyusha": lambda: mvrc.Katyusha(step, **sizes),
    }[name]()
    ceiling = 2 * float(problem.objective(x0))  # above it a step is too long
    result = mvrc.minimize(
        problem, x0, method, epochs=spec.epochs, seed=seed,
        callback=lambda info: not level < info.objective < ceiling or info.counts.prox > most,
    )  # fmt: skip
    rows = result.history
    reached = np.flatnonzero(rows["objective"] <= level)
    if not len(reached):
        return {"prox": None, "seconds": None, "samples": None}
    i = int(reached[0])
    return {
        "prox": int(rows["prox"][i]), "seconds": float(rows["seconds"][i]),
        "samples": int(rows["inner_values"][i]),
    }  # fmt: skip


def _problem(spec: Proxes) -> tuple[mvrc.Composition, np.ndarray]:
    rng = np.random.default_rng(0)
    n, d = spec.n, spec.d
    regularizer: Any
    data: Any
    x0: Any
    if spec.kind == "nuclear":
        a, b = rng.standard_normal((2, n, d)) / np.sqrt(d)
        truth = rng.standard_normal((d, 3)) @ rng.standard_normal((3, d))
        c = np.einsum("ni,ij,nj->n", a, truth, b) + 0.1 * rng.standard_normal(n)
        inner, data, x0 = _bilinear, (a, b, c), np.zeros((d, d))
        regularizer = mvrc.Nuclear(spec.weight)
    else:
        a = rng.standard_normal((n, d))
        steps = np.repeat(rng.standard_normal(d // GROUP) * (rng.random(d // GROUP) < 0.2), GROUP)
        inner, x0 = _linear, np.zeros(d)
        data = (a, a @ steps + 0.1 * rng.standard_normal(n))
        groups = np.repeat(np.arange(d // GROUP), GROUP)
        regularizer = (
            mvrc.GroupL2(spec.weight, groups)
            if spec.kind == "group"
            else mvrc.TotalVariation1D(spec.weight)
        )
    return mvrc.Composition(inner, _forgiving, data, regularizer=regularizer), x0


def _bilinear(x: Any, row: Any) -> Any:
    a, b, c = row
    e = a @ (x @ b) - c
    return jnp.stack([e, e**2])


def _linear(x: Any, row: Any) -> Any:
    a, c = row
    e = a @ x - c
    return jnp.stack([e, e**2])


def _forgiving(y: Any) -> Any:
    return y[1] - y[0] ** 2 / 2
