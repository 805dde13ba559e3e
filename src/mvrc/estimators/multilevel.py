"""The multilevel Monte Carlo gradient of a coupled problem (Hu, Chen & He, 2021)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.estimators.base import Estimator, three_batches
from mvrc.oracle import Oracle, Vector
from mvrc.oracle.coupled import functions_of
from mvrc.support import checks

_FALL = 1.5  # the chance of level j falls like 2^(−1.5 j): cost and variance are both bounded


class RandomLevelState(NamedTuple):
    """The estimate at the last query point."""

    gradient: Vector


class RandomLevel(Estimator):
    """With ψ(A) the mean over B₁ of gₖ'(x)ᵀ∇fₖ(gₖ(x)) for inner samples A, a level J = 1, …,
    `levels` with chance p_J ∝ 2^(−1.5 J), and of the |B₂| inner samples that are drawn the first
    |B₂|·2^(J − levels) as A with halves A₁, A₂, and the first |B₂|·2^(−levels) as A₀:

        v = ψ(A₀) + (ψ(A) − ½(ψ(A₁) + ψ(A₂))) / p_J,

    whose mean is that of ψ on all |B₂| (RT-MLMC: Hu, Chen & He, On the Bias-Variance-Cost Tradeoff
    of Stochastic Optimization, 2021). What is not in A is not evaluated; counts are those of the
    mean level.

    Args:
        levels: doublings from A₀ to |B₂|.
    """

    refreshes: ClassVar[bool] = False
    is_coupled: ClassVar[bool] = True

    levels: int = eqx.field(static=True, default=4)

    def __check_init__(self) -> None:
        checks.integer("levels", self.levels)

    def chances(self) -> np.ndarray:
        """p_1, …, p_levels."""
        weights = 2.0 ** (-_FALL * np.arange(1, self.levels + 1))
        return weights / weights.sum()

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> RandomLevelState:
        return RandomLevelState(point)  # no gradient is asked for before the first update

    def update(self, oracle: Oracle, state: RandomLevelState, point: Vector) -> RandomLevelState:
        batch: Any = three_batches(oracle)[0]
        functions, pair = functions_of(oracle), batch.samples()
        drawn = batch.source.inner_batch
        base = drawn // 2**self.levels
        if batch.key is None or base < 2:
            raise ValueError(
                f"inner_batch is {drawn}; for {self.levels} levels it must be at least "
                f"{2 ** (self.levels + 1)} and less than all inner samples."
            )

        def at(start: int, size: int) -> Vector:
            chosen = pair.half(start, size)
            _, pull = jax.vjp(lambda x: jnp.mean(functions.values(x, chosen)), point)
            return pull(jnp.ones((), functions.geometry.y.dtype))[0]

        def difference(size: int) -> Vector:
            return at(0, size) - (at(0, size // 2) + at(size // 2, size // 2)) / 2

        chances = self.chances()
        key = jax.random.fold_in(batch.key, np.uint32(2**32 - 1))
        level = jax.random.choice(key, self.levels, p=jnp.asarray(chances, jnp.float32))
        branches = [
            lambda size=base * 2 ** (j + 1), p=chances[j]: difference(size) / p
            for j in range(self.levels)
        ]
        gradient = at(0, base) + jax.lax.switch(level, branches)
        mean = round(base * (1 + 2 * float(chances @ 2.0 ** np.arange(1, self.levels + 1))))
        size = batch.size
        oracle.count(
            inner_values=size * mean, inner_jacobians=size * mean, outer_gradients=4 * size
        )
        return RandomLevelState(gradient)

    def gradient(self, state: RandomLevelState) -> Vector:
        return state.gradient
