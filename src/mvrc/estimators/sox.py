"""SOX: a moving average of gₖ for every outer sample k (Wang & Yang, 2022)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mvrc.estimators.base import Estimator, three_batches
from mvrc.estimators.tables import put, read, shared
from mvrc.oracle import Oracle, Vector, coupled
from mvrc.sampling import Batch, Pair
from mvrc.schedules import Power
from mvrc.support import checks

STARTS = ("exact", "first", "auto")
EXACT = 2**24  # pairs up to which "auto" starts from exact means


class SoxState(NamedTuple):
    """The table, and the estimate at the last query point."""

    table: Float[Array, "N p"]  # uₖ ≈ gₖ; ∞: not drawn yet
    gradient: Vector  # v ≈ ∇F
    k: Int[Array, ""]  # steps made


class Sox(Estimator):
    """For the drawn k ∈ B₁ alone, with gₖ the mean over |B₂| inner samples,

        uₖ ← (1−γₜ)uₖ + γₜ gₖ(xₜ),   v̂ = mean over B₁ of gₖ'(xₜ)ᵀ∇fₖ(uₖ),   v ← (1−βₜ)v + βₜ v̂

    (Wang & Yang, Finite-Sum Coupled Compositional Stochastic Optimization, 2022). β = 1 is SOAP (Qi
    et al., 2021), γ = β = 1 the plug-in. The new uₖ goes into ∇fₖ, so that γ = 1 has no lag; a k
    that is drawn twice keeps the mean of both.

    Args:
        weight: γₜ for t = 1, 2, …, cut at 1.
        gradient_weight: βₜ likewise.
        start: "exact": uₖ = gₖ(x₀), one pass over all pairs; "first": the first value that is
            drawn; "auto": the pass where it has at most 2²⁴ pairs.
    """

    refreshes: ClassVar[bool] = False
    keeps_table: ClassVar[bool] = True
    is_coupled: ClassVar[bool] = True

    weight: Power
    gradient_weight: Power
    start: str = eqx.field(static=True, default="auto")

    def __check_init__(self) -> None:
        checks.choice("start", self.start, STARTS)

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> SoxState:
        a, _, _ = three_batches(oracle)
        return SoxState(first_table(oracle, point, a, self.start), point, jnp.int32(0))

    def update(self, oracle: Oracle, state: SoxState, point: Vector) -> SoxState:
        a, _, _ = three_batches(oracle)
        pair = a.samples()
        gamma = self.weight.weight(state.k + 1, point.dtype)
        beta = self.gradient_weight.weight(state.k + 1, point.dtype)
        value, pull = coupled.means_and_pullback(oracle, point, a, pair)
        u, _ = moved(state.table, pair.k, value, gamma)
        v = pull(coupled.outer_gradients(oracle, u, pair))
        kept = jnp.where(state.k == 0, 0, 1 - beta)  # nothing is there before the first
        gradient = kept * state.gradient + (1 - kept) * v
        return SoxState(put_new(state.table, pair, u), gradient, state.k + 1)

    def gradient(self, state: SoxState) -> Vector:
        return state.gradient


def first_table(oracle: Oracle, point: Vector, batch: Batch, start: str) -> Float[Array, "N p"]:
    """uₖ before the first step."""
    if start == "exact" or (start == "auto" and batch.amount() <= EXACT):
        return coupled.table(oracle, point, batch)
    p = coupled.functions_of(oracle).inside.size
    return jnp.full((batch.size, p), jnp.inf, point.dtype)


def moved(table: Any, k: Any, value: Any, weight: Any, correction: Any = 0) -> tuple[Any, Any]:
    """(1 − weight)uₖ + weight·value + correction for the drawn k, and their old uₖ; a k that is
    there for the first time takes the value."""
    old = read(table, k)
    known = ~jnp.isposinf(old)
    new = (1 - weight) * old + weight * value + correction
    return jnp.where(known, new, value), jnp.where(known, old, value)


def put_new(table: Any, pair: Pair, rows: Any) -> Any:
    """The table with new rows in the places of the drawn k."""
    return put(table, pair.k, rows if pair.distinct else shared(rows, pair.k))
