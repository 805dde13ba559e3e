"""The guarantees of Theorems 1 to 7 with their own parameters: measured beside the bound."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

import mvrc
from mvrc.engine.batches import drawn, first_steps
from mvrc.engine.epoch import run_epoch
from mvrc.experiments import schema
from mvrc.experiments.complexity.drive import count
from mvrc.experiments.complexity.family import Knobs, Known, known
from mvrc.experiments.complexity.fit import jackknife
from mvrc.experiments.schema import CLOSED, Count, Positive, Truth, Word
from mvrc.run.setup import Setup
from mvrc.sampling import key_bits
from mvrc.support import checks

AT_ONCE = 500  # epochs of one call


@dataclasses.dataclass(frozen=True)
class Guarantee:
    """One row: a theorem on one class, its T steps made, the mean over ζ taken.

    Args:
        alpha: constant momentum; None: diminishing.
        dominance: v of the dominant shape; None: the flat one.
        restart: Theorem 7, or Theorem 1 with its periodic restart.
    """

    __pydantic_config__ = CLOSED

    id: Word
    title: Word
    epsilon: Positive
    n: Count | None = None
    N: Count | None = None
    two_level: Truth = False
    alpha: Annotated[float | None, schema.checked(checks.positive)] = None
    dominance: Annotated[float | None, schema.checked(checks.positive)] = None
    restart: Truth = False
    noise: Positive = 0.1
    outer_noise: Annotated[float, schema.checked(checks.nonnegative)] = 0.0
    l1: Annotated[float, schema.checked(checks.nonnegative)] = 0.0
    seeds: Count = 8
    short: Truth = True

    def quick(self) -> Guarantee:
        """Fewer seeds."""
        return dataclasses.replace(self, seeds=3)


def measure(row: Guarantee) -> dict[str, Any]:
    """The record of one row."""
    at = _problem(row)
    gap = float(at.value(at.x0)) - at.best
    given: dict[str, Any] = {"epsilon": row.epsilon, "alpha": row.alpha, "gap": gap}
    given |= {"dominance": row.dominance, "restart": row.restart}
    chosen = mvrc.theory.parameters(
        at.constants, n=row.n, N=row.N, two_level=row.two_level, **given
    )
    assert chosen.steps is not None and chosen.restarts is not None
    method = mvrc.MVRC.from_theory(at.constants, at.problem, **given)
    epochs = chosen.restarts * -(-chosen.steps // chosen.period)
    norms, squares, gaps, samples = _over_the_path(
        at, method, list(range(row.seeds)), epochs, epochs // chosen.restarts, chosen.beta,
        row.dominance is not None,
    )  # fmt: skip
    start = float(at.mapping(at.x0, chosen.beta))
    if row.dominance is not None:
        values, first = gaps, gap
    elif row.two_level:
        values, first = norms, start
    else:
        values, first = squares, start**2
    total = values.sum()
    rest = (total - values) / (len(values) - 1)
    found = jackknife(np.array([values.mean(), *rest]))
    bound = _bound(chosen)
    return {
        "theorem": chosen.theorem, "class": chosen.problem_class, "alpha": row.alpha,
        "restart": row.restart, "epsilon": row.epsilon, "steps": chosen.restarts * chosen.steps,
        "runs": chosen.restarts, "samples": samples, "measured": found.value, "half": found.half,
        "bound": bound, "start": first, "loose": bound / found.value,
        "vacuous": bound > first, "quantity": _quantity(row), "seeds": row.seeds,
    }  # fmt: skip


def _quantity(row: Guarantee) -> str:
    if row.dominance is not None:
        return "E F(z_ζ) − F*"
    return "E‖𝒢(z_ζ)‖" if row.two_level else "E‖𝒢(z_ζ)‖²"


def _bound(chosen: mvrc.theory.Parameters) -> float:
    """On the quantity itself: `accuracy` is of ‖𝒢‖, whose square Theorems 1 and 2 bound."""
    assert chosen.accuracy is not None
    return chosen.accuracy**2 if chosen.theorem in (1, 2) else chosen.accuracy


def _problem(row: Guarantee) -> Known:
    shape = "flat" if row.dominance is None else "dominant"
    return known(
        Knobs(shape, row.n, row.N, row.two_level, row.noise, row.outer_noise,
              v=row.dominance or 0.0, l1=row.l1)
    )  # fmt: skip


def _over_the_path(
    at: Known, method: Any, seeds: list[int], epochs: int, run: int, step: float, last: bool
) -> tuple[Any, Any, Any, int]:
    """Means over ζ of ‖𝒢(z_ζ)‖, its square and the gap for every seed, and the samples of one.

    z is taken at the end of every epoch; with `last` those of the last run alone count. ‖𝒢_λ‖ falls
    with λ, so λ = β, the least of its range, gives the largest.
    """
    setup = Setup(at.problem, at.x0, method, seeds, len(seeds), False, False)
    two_level, after = at.knobs.two_level, epochs - run if last else 0
    with setup.precision():
        state = setup.first()
        core, solver = state.core, setup.solver
        solver.compile(core)
        info = solver.step(core)[1]
        spent = count(state.counts, two_level) + epochs * count(info.counts, two_level)
        resolved = solver.method  # type: ignore[attr-defined]

        steps = resolved.steps - first_steps(resolved)
        picking = core.output is not None or core.restart is not None

        def one(core: Any, sums: Any, given: Any) -> Any:
            core = run_epoch(setup.problem, setup.geometry, resolved, core, given, steps).core
            z = resolved.scheme.query(core.scheme)
            norm = at.mapping(z, step)
            found = jnp.stack([norm, norm**2, at.value(z) - at.best])
            return core, sums + jnp.where(core.epoch > after, found, 0)

        @jax.jit
        def chunk(carry: Any, given: Any) -> Any:
            advance = lambda carry, own: (jax.vmap(one)(carry[0], carry[1], own), None)  # noqa: E731
            return jax.lax.scan(advance, carry, given)[0]

        def random(numbers: range) -> Any:
            """What is random in these epochs, with axes of epochs and of seeds."""
            every = [[drawn(setup.problem, resolved, key_bits(seed), number, picking)
                      for seed in seeds] for number in numbers]  # fmt: skip
            stack = lambda *leaves: np.stack(leaves)  # noqa: E731
            each = jax.tree_util.tree_map
            return each(stack, *(each(stack, *own) for own in every))

        # Epochs are a few short steps: many in one program.
        carry = core, jnp.zeros((len(seeds), 3))
        for first in range(0, epochs, AT_ONCE):
            carry = chunk(carry, random(range(first + 1, min(first + AT_ONCE, epochs) + 1)))
        means = np.asarray(jax.device_get(carry[1])) / (epochs - after)
    if not np.all(np.isfinite(means)):
        raise FloatingPointError("a run of a theorem diverged")
    return means[:, 0], means[:, 1], means[:, 2], spent
