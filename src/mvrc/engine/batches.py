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


def batches_of(
    problem: Composition, method: Method, keys: dict[str, Any], steps: int, refreshed: bool = True
) -> tuple[dict[str, Batch | None], Callable[[Any], tuple[Any, Callable[[Any], Any]]]]:
    """The batches of a refresh, and what gives the plan of the small steps after it.

    A and A' of a refresh are one when both are everything, or no A' is drawn. A plan is made with
    the estimate that the refresh has left: tickets of all small steps, and the way from a ticket to
    its batches.
    """
    roles = method.estimator.roles(problem.two_level)
    batches: dict[str, Batch | None] = {"jacobians": None, "outer": None}
    openers = []
    for source, own in ((problem.inner_source, ROLES[:2]), (problem.outer_source, ROLES[2:])):
        if source is None:
            continue
        large, small = {}, {}
        for role in own:
            if refreshed and (role in roles or role != "jacobians"):
                large[role] = keys[f"refresh {role}"], getattr(method.refresh, role)
            if role in roles:
                small[role] = keys[role], size_of(method.batch, role)
        found, draws = source.epoch(large, small, steps)
        batches.update(found)
        openers.append(draws)
    values = batches.get("values")
    both = values is not None and values.complete and method.refresh.jacobians is None
    if both and "jacobians" in roles:
        batches["jacobians"] = values

    def plan(after: Any) -> tuple[Any, Callable[[Any], Any]]:
        drawn = {role: draw for draws in openers for role, draw in draws(after).items()}

        def opened(ticket: Any) -> dict[str, Batch | None]:
            return {role: drawn[role][1](t) for role, t in ticket.items()} | _all(problem)

        return {role: tickets for role, (tickets, _) in drawn.items()}, opened

    return batches | _all(problem), plan


def refresh_batches(
    problem: Composition, method: Method, keys: dict[str, Any]
) -> dict[str, Batch | None]:
    """The batches of a refresh alone."""
    return batches_of(problem, method, keys, 0)[0]


def plan(
    problem: Composition, method: Method, keys: dict[str, Any], steps: int
) -> tuple[Any, Callable[[Any], Any]]:
    """The plan of small steps alone."""
    return batches_of(problem, method, keys, steps, refreshed=False)[1](None)


def _all(problem: Composition) -> dict[str, Batch | None]:
    inner, outer = problem.everything()
    return {"everything": inner, "everything outside": outer}


def size_of(sizes: Sizes, role: str) -> int:
    return getattr(sizes, role)
