"""MSVR: averages of gₖ that are moved along with x (Jiang et al., 2022)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mvrc.estimators.base import Estimator, three_batches
from mvrc.estimators.sox import STARTS, first_table, moved, put_new
from mvrc.oracle import Oracle, Vector, coupled
from mvrc.support import checks


class MsvrState(NamedTuple):
    """The table, and the estimate at the last query point."""

    point: Vector  # x
    table: Float[Array, "N p"]  # uₖ ≈ gₖ; ∞: not drawn yet
    gradient: Vector  # v ≈ ∇F
    k: Int[Array, ""]  # steps made


class Msvr(Estimator):
    """For the drawn k ∈ B₁ alone, with gₖ the mean over the same |B₂| inner samples at both points,

        uₖ ← (1−γ)uₖ + γ gₖ(xₜ) + γ'(gₖ(xₜ) − gₖ(xₜ₋₁)),   γ' = (N−|B₁|)/(|B₁|(1−γ)) + (1−γ),
        v ← (1−β)(v − mean gₖ'(xₜ₋₁)ᵀ∇fₖ(old uₖ)) + mean gₖ'(xₜ)ᵀ∇fₖ(uₖ)

    (Jiang et al., Multi-block-Single-probe Variance Reduced Estimator for Coupled Compositional
    Optimization, 2022, version 2). γ' makes up for the steps at which k was not drawn. Without
    `recursive` v is averaged as in SOX (its version 1).

    Args:
        weight: γ.
        gradient_weight: β.
        recursive: whether v follows the second rule.
        start: as in `Sox`.
    """

    refreshes: ClassVar[bool] = False
    keeps_table: ClassVar[bool] = True
    is_coupled: ClassVar[bool] = True

    weight: float
    gradient_weight: float
    recursive: bool = eqx.field(static=True, default=True)
    start: str = eqx.field(static=True, default="auto")

    def __check_init__(self) -> None:
        checks.choice("start", self.start, STARTS)

    def share(self, N: int, size: int) -> Any:
        """γ' for N outer samples of which so many are drawn."""
        rest = 1 - self.weight
        return (N - size) / (size * rest) + rest if size < N else rest

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> MsvrState:
        a, _, _ = three_batches(oracle)
        table = first_table(oracle, point, a, self.start)
        return MsvrState(point, table, jnp.zeros_like(point), jnp.int32(0))

    def update(self, oracle: Oracle, state: MsvrState, point: Vector) -> MsvrState:
        a, _, _ = three_batches(oracle)
        pair, N = a.samples(), len(state.table)
        size = len(pair.k)
        value, pull = coupled.means_and_pullback(oracle, point, a, pair)
        before, pull_before = coupled.means_and_pullback(oracle, state.point, a, pair)
        share = self.share(N, size)
        u, old = moved(state.table, pair.k, value, self.weight, share * (value - before))
        v = pull(coupled.outer_gradients(oracle, u, pair))
        kept = jnp.where(state.k == 0, 0, 1 - self.gradient_weight).astype(v.dtype)
        gradient = kept * state.gradient + (1 - kept) * v
        if self.recursive:
            earlier = pull_before(coupled.outer_gradients(oracle, old, pair))
            gradient = v + kept * (state.gradient - earlier)
        return MsvrState(point, put_new(state.table, pair, u), gradient, state.k + 1)

    def gradient(self, state: MsvrState) -> Vector:
        return state.gradient
