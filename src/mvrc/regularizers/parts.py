"""A regulariser for each part of x."""

from __future__ import annotations

import typing
from typing import Any

import jax
import jax.numpy as jnp

from mvrc import checks
from mvrc.regularizers.base import Regularizer, shapes


class Parts(Regularizer):
    """r(x) = Σ r_name(x[name]) for a dictionary x; parts without a regulariser are free.

    The prox is that of each part, as the sum has no terms in common:
    `Parts(weights=Simplex())` holds x["weights"] on the simplex and leaves x["threshold"] alone.
    """

    each: dict[str, Regularizer]

    @typing.no_type_check  # its own sentence says what a part may be
    def __init__(self, **each: Regularizer) -> None:
        for name, r in each.items():
            if not isinstance(r, Regularizer):
                raise TypeError(
                    f"{name} of Parts must be a Regularizer such as mvrc.L1(0.01), not "
                    f"{checks.shown(r)}."
                )
        self.each = each

    def check(self, x: Any) -> None:
        if not isinstance(x, dict) or not set(self.each) <= set(x):
            raise ValueError(
                f"x of Parts must be a dictionary that has {', '.join(map(repr, self.each))}, not "
                f"{shapes(x)}."
            )
        for name, r in self.each.items():
            r.check(x[name])

    def value(self, x: Any) -> jax.Array:
        return sum((r.value(x[name]) for name, r in self.each.items()), jnp.zeros(()))

    def prox(self, x: Any, step: Any) -> Any:
        return {**x, **{name: r.prox(x[name], step) for name, r in self.each.items()}}
