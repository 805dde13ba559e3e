"""Several blocks of r(Ax), as one: Σₖ rₖ(Aₖx) = R(Ax) with the rows of all Aₖ under each other."""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.regularizers.base import Regularizer, one_step
from mvrc.support import precision


class Stacked(eqx.Module):
    """x ↦ (A₁x, …, A_kx), with ‖A‖² ≤ Σ‖Aₖ‖².

    Args:
        operators: each with `apply`, `adjoint`, `size` and `norm_squared`.
    """

    operators: tuple[Any, ...]
    norm_squared: Any
    size: int = eqx.field(static=True)
    heights: tuple[int, ...] = eqx.field(static=True)  # rows of each

    def __init__(self, operators: tuple[Any, ...]) -> None:
        self.operators, self.size = operators, operators[0].size
        for other in operators:
            if other.size != self.size:
                raise ValueError(
                    f"The blocks of a sum of Composed must act on the same x, and have "
                    f"{self.size} and {other.size} columns."
                )
        self.norm_squared = sum(part.norm_squared for part in operators)
        x = jax.ShapeDtypeStruct((self.size,), np.float32)
        with precision.follow(operators):
            self.heights = tuple(jax.eval_shape(part.apply, x).shape[0] for part in operators)

    def apply(self, x: Any) -> Any:
        """Ax."""
        return jnp.concatenate([part.apply(x) for part in self.operators])

    def adjoint(self, u: Any) -> Any:
        """Aᵀu."""
        parts = split(u, self.heights)
        return sum(a.adjoint(v) for a, v in zip(self.operators, parts, strict=True))


class Blocks(Regularizer):
    """r(y) = Σₖ rₖ(yₖ) for a vector y = (y₁, …, y_k); the prox is that of each block."""

    each: tuple[Regularizer, ...]
    heights: tuple[int, ...] = eqx.field(static=True)

    def check(self, x: Any) -> None:
        for r, part in zip(self.each, split(x, self.heights), strict=True):
            r.check(part)

    def value(self, x: Any) -> Any:
        parts = split(x, self.heights)
        return sum(r.value(part) for r, part in zip(self.each, parts, strict=True))

    def prox(self, x: Any, step: Any) -> Any:
        parts, step = split(x, self.heights), one_step(step)
        proxes = [r.prox(part, step) for r, part in zip(self.each, parts, strict=True)]
        return jnp.concatenate(proxes)


def split(vector: Any, heights: tuple[int, ...]) -> list[Any]:
    ends = np.cumsum((0, *heights))
    return [vector[a:b] for a, b in itertools.pairwise(ends)]
