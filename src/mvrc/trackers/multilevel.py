"""The multilevel Monte Carlo gradient: nothing is carried, batches have random sizes."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np

from mvrc.oracle import Oracle, Vector
from mvrc.support import checks
from mvrc.trackers.given import Given

_FALL = 1.5  # the chance of level j falls like 2^(−1.5 j): cost and variance are both bounded


class MultilevelState(NamedTuple):
    """Of the last batch; the next one does not depend on it."""

    inner: Vector  # g_A
    gradient: Vector  # v


class Multilevel(eqx.Module):
    """With ψ(A) = g'_A(x)ᵀ∇f(g_A(x)), a level J = 1, …, levels with chance p_J ∝ 2^(−1.5 J), and a
    batch A of base·2^J samples with halves A₁, A₂ and first samples A₀,

        v = ψ(A₀) + (ψ(A) − ½(ψ(A₁) + ψ(A₂))) / p_J,

    whose mean is that of ψ on base·2^levels samples, for about 4.4·base samples a step (Blanchet &
    Glynn, 2015; Levy et al., Large-Scale Methods for Distributionally Robust Optimization, 2020).
    `size` draws the size of the next batch, by which the level is known.

    Args:
        base: samples of A₀.
        levels: doublings of it.
    """

    keeps_table: ClassVar[bool] = False
    refreshes: ClassVar[bool] = False

    base: int = eqx.field(static=True)
    levels: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.integer("base", self.base)
        checks.integer("levels", self.levels)

    def chances(self) -> np.ndarray:
        """p_1, …, p_levels."""
        weights = 2.0 ** (-_FALL * np.arange(1, self.levels + 1))
        return weights / weights.sum()

    def size(self, rng: np.random.Generator) -> int:
        """The size of the next batch."""
        return self.base * 2 ** int(1 + rng.choice(self.levels, p=self.chances()))

    def refresh(self, oracle: Oracle, point: Vector) -> MultilevelState:
        """The plain estimate of a batch of any size."""
        return self._plain(oracle, point, oracle.batch("values"))

    def update(self, oracle: Oracle, state: Any, point: Vector) -> MultilevelState:
        batch = oracle.batch("values")
        assert isinstance(batch, Given)
        level = int(np.log2(batch.size / self.base))
        if batch.size != self.base * 2**level or not 1 <= level <= self.levels:
            sizes = [self.base * 2**j for j in range(1, self.levels + 1)]
            raise ValueError(
                f"batch has {batch.size} samples; for 'multilevel' it must have one of {sizes}, "
                f"drawn by tracker.estimator.size(rng)."
            )
        first = self._plain(oracle, point, batch.first(self.base)).gradient
        whole = self._plain(oracle, point, batch)
        halves = [self._plain(oracle, point, batch.half(i)).gradient for i in (False, True)]
        difference = whole.gradient - (halves[0] + halves[1]) / 2
        chance = float(self.chances()[level - 1])
        return MultilevelState(whole.inner, first + difference / chance)

    def gradient(self, state: MultilevelState) -> Vector:
        return state.gradient

    def _plain(self, oracle: Oracle, point: Vector, batch: Any) -> MultilevelState:
        inner, pull = oracle.values_and_pullback(point, batch)
        return MultilevelState(inner, pull(oracle.outer_gradient(inner, oracle.batch("outer"))))
