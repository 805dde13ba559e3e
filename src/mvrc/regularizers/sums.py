"""Sums of regularisers, for the pairs whose prox is known."""

from __future__ import annotations

import functools
import operator
from typing import Any

import jax
import numpy as np

from mvrc.regularizers.base import Regularizer
from mvrc.regularizers.composed import Composed, stack
from mvrc.regularizers.constraints import Box, NonNegative, Simplex
from mvrc.regularizers.linear import LinearConstraint, Within
from mvrc.regularizers.penalties import L1, L2, ElasticNet, GroupL2, Nuclear, Zero
from mvrc.regularizers.total_variation import TotalVariation1D


class Sum(Regularizer):
    """r = Σₖ rₖ, made by `+`, for terms whose prox is that of one after that of the other.

    Each term is applied to the result of the one before. A quadratic r₁ = (w/2)‖·‖² comes first
    and leaves the step s/(1 + s w) to the rest: completing the square,
    prox_{r₁+r}(x, s) = prox_r(x/(1 + s w), s/(1 + s w)) for every r.
    """

    terms: tuple[Regularizer, ...]  # in the order of application

    def check(self, x: Any) -> None:
        for term in self.terms:
            term.check(x)

    def value(self, x: Any) -> jax.Array:
        return functools.reduce(operator.add, (term.value(x) for term in self.terms))

    def prox(self, x: Any, step: Any) -> Any:
        for term in self.terms:
            x = term.prox(x, step)
            if isinstance(term, L2):
                weight = term.weight
                step = jax.tree.map(lambda s, w=weight: s / (1 + s * w), step)
        return x

    def groups(self, x: Any) -> np.ndarray:
        """Of terms in turn the coarsest; no two of them cut each other's."""
        return min((term.groups(x) for term in self.terms), key=lambda labels: labels.max())

    @property
    def numpy(self) -> bool:
        return all(term.numpy for term in self.terms)


# Pairs for which prox_{r₁+r₂} = prox_{r₂} ∘ prox_{r₁}: the fused lasso (Friedman et al. 2007), the
# sparse group lasso (Friedman et al. 2010), and intervals, coordinate by coordinate.
_IN_TURN = ((TotalVariation1D, L1), (L1, GroupL2), (L1, NonNegative), (L1, Box))
_WITHIN = (L1, Box, NonNegative, Simplex, LinearConstraint)  # any number of them


def add(a: Regularizer, b: Regularizer) -> Regularizer:
    """a + b, simplified; refused when its prox is not known."""
    if isinstance(a, Composed) or isinstance(b, Composed):
        return stack([term for term in (a, b) if not isinstance(term, Zero)])
    terms: dict[Any, Any] = {}
    parts: tuple[Any, ...] = _terms(a) + _terms(b)
    for i, term in enumerate(parts):
        key = type(term) if _adds_up(term) else i
        terms[key] = type(term)(terms[key].weight + term.weight) if key in terms else term
    square = [terms.pop(L2)] if L2 in terms else []
    rest = list(terms.values())
    if len(rest) > 1:
        rest = _ordered(rest, f"{_name(a)} + {_name(b)}")
    if square and len(rest) == 1 and isinstance(rest[0], L1) and _adds_up(rest[0]):
        return ElasticNet(rest[0].weight, square[0].weight)
    both = (*square, *rest)
    return Sum(both) if len(both) > 1 else (both or (Zero(),))[0]


def _adds_up(term: Any) -> bool:
    """Whether the sum of two is one with the sum of the weights."""
    plain = isinstance(term, L1) and term.center is None and isinstance(term.weight, float)
    return plain or isinstance(term, L2 | Nuclear | TotalVariation1D)


def _ordered(terms: list[Regularizer], asked: str) -> list[Regularizer]:
    """The terms in the order of application, or all of them as one."""
    kinds = {type(term): term for term in terms}
    for pair in _IN_TURN:
        if len(terms) == 2 and set(pair) == set(kinds) and _commutes(kinds):
            return [kinds[kind] for kind in pair]
    if all(isinstance(term, _WITHIN) for term in terms):
        return [Within(tuple(terms))]
    raise TypeError(
        f"The prox of {asked} is not known in closed form; give the prox of the sum yourself with "
        f"Custom(value, prox)."
    )


def _commutes(kinds: dict[Any, Any]) -> bool:
    """An L1 of its own around 0 goes with groups and variation; with intervals any does."""
    return L1 not in kinds or _adds_up(kinds[L1]) or bool({Box, NonNegative} & set(kinds))


def _terms(r: Regularizer) -> tuple[Regularizer, ...]:
    if isinstance(r, ElasticNet):
        return (L1(r.l1), L2(r.l2))
    return r.terms if isinstance(r, Sum | Within) else () if isinstance(r, Zero) else (r,)


def _name(r: Regularizer) -> str:
    return " + ".join(map(_name, r.terms)) if isinstance(r, Sum | Within) else type(r).__name__
