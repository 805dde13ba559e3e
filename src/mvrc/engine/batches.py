"""The batches of an epoch: those of its refresh, and those of its small steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from mvrc.methods import Method
from mvrc.problem import Composition
from mvrc.sampling import Batch, Sizes

ROLES = ("values", "jacobians", "outer")  # the batches A, A', B


def keys_of(key: Any, number: Any) -> dict[str, Any]:
    """The keys of epoch `number` (0: the start): small batches, refreshes, picks."""
    key = jax.random.fold_in(jax.random.wrap_key_data(key), number)
    names = (*ROLES, *(f"refresh {role}" for role in ROLES), "pick")
    return dict(zip(names, jax.random.split(key, len(names)), strict=True))


def refresh_batches(
    problem: Composition, method: Method, keys: dict[str, Any]
) -> dict[str, Batch | None]:
    """The batches of a refresh; A and A' are one when both are everything, or no A' is drawn."""
    inner, outer, sizes = problem.inner_source, problem.outer_source, method.refresh
    values = inner.refresh(keys["refresh values"], sizes.values)
    both = values.complete and sizes.jacobians is None
    jacobians: Batch | None = values
    if "jacobians" not in method.estimator.roles(problem.two_level):
        jacobians = None
    elif not both:
        jacobians = inner.refresh(keys["refresh jacobians"], sizes.jacobians)
    last = None if outer is None else outer.refresh(keys["refresh outer"], sizes.outer)
    return {"values": values, "jacobians": jacobians, "outer": last, **_all(problem)}


def plan(
    problem: Composition, method: Method, keys: dict[str, Any], steps: int
) -> tuple[Any, Callable[[Any], Any]]:
    """Tickets of all small steps of an epoch, and the way from a ticket to its batches."""
    tickets, openers = {}, {}
    for role in method.estimator.roles(problem.two_level):
        source = problem.outer_source if role == "outer" else problem.inner_source
        assert source is not None
        tickets[role], openers[role] = source.draws(keys[role], steps, size_of(method.batch, role))

    def opened(ticket: Any) -> dict[str, Batch | None]:
        return {role: openers[role](t) for role, t in ticket.items()} | _all(problem)

    return tickets, opened


def _all(problem: Composition) -> dict[str, Batch | None]:
    inner, outer = problem.everything()
    return {"everything": inner, "everything outside": outer}


def size_of(sizes: Sizes, role: str) -> int:
    return getattr(sizes, role)
