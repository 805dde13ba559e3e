"""The batches of an epoch: those of its refresh, and those of its small steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from mvrc.methods import Method
from mvrc.problem import Composition
from mvrc.sampling import Batch, Sizes, Words

ROLES = ("values", "jacobians", "outer")  # the batches A, A', B
_NAMES = (*ROLES, *(f"refresh {role}" for role in ROLES), "pick")


class Given(NamedTuple):
    """What is random in an epoch, drawn by the host."""

    refresh: dict[str, Any]  # a ticket for each role that a refresh draws
    small: dict[str, Any]  # tickets with a leading axis of steps
    picks: Any = None  # two numbers for each query point, where points are picked


def words_of(bits: Any, number: int, name: str) -> Words:
    """The random words of a run with such a key, for epoch `number` (0: the start)."""
    seed = int(bits[0]) << 32 | int(bits[1])
    return Words(seed, number, _NAMES.index(name))


def drawn_refresh(problem: Composition, method: Method, bits: Any, number: int) -> dict[str, Any]:
    """Tickets for `refresh_batches`."""
    found = {}
    for role in ROLES:
        source = _source(problem, role)
        if source is not None:
            words = words_of(bits, number, f"refresh {role}")
            found[role] = source.refresh_ticket(words, size_of(method.refresh, role))
    return found


def drawn_steps(
    problem: Composition, method: Method, bits: Any, number: int, steps: int
) -> dict[str, Any]:
    """Tickets of all small steps of an epoch, for each role that the estimator draws."""
    roles, found = method.estimator.roles(problem.two_level), {}
    for own in (ROLES[:2], ROLES[2:]):
        small = {
            role: (words_of(bits, number, role), size_of(method.batch, role))
            for role in own
            if role in roles
        }
        if small:
            found.update(_source(problem, own[0]).all_tickets(small, steps))
    return found


def first_steps(method: Method) -> int:
    """Steps of an epoch that are made with its refresh."""
    return int(method.estimator.refreshes and method.scheme.refreshes_at_query)


def drawn(
    problem: Composition, method: Method, bits: Any, number: int, picking: bool,
    room: int | None = None,
) -> Given:  # fmt: skip
    """What is random in epoch `number` of the run with a key of these bits.

    Small batches are filled up to `room` steps; a program asks for those of the method alone.
    """
    first = first_steps(method)
    steps = method.steps - first
    room = max(1, steps if room is None else room)
    picks = None
    if picking:  # for each query point two numbers, uniform on [0, 1)
        words = words_of(bits, number, "pick")
        picks = _filled(words.uniform(method.steps, 2), room + first)
    return Given(
        drawn_refresh(problem, method, bits, number) if method.estimator.refreshes else {},
        _filled(drawn_steps(problem, method, bits, number, steps), room),
        picks,
    )


def _filled(tickets: Any, room: int) -> Any:
    def filled(a: Any) -> Any:
        more = room - len(a)
        return np.concatenate([a, np.zeros((more, *a.shape[1:]), a.dtype)]) if more else a

    return jax.tree_util.tree_map(filled, tickets)


def batches_of(
    problem: Composition, method: Method, given: Given
) -> tuple[dict[str, Batch | None], Callable[[Any], tuple[Any, Callable[[Any], Any]]]]:
    """The batches of a refresh, and what gives the plan of the small steps after it.

    A and A' of a refresh are one when both are everything, or no A' is drawn. A plan is made with
    the estimate that the refresh has left: tickets of all small steps, and the way from a ticket to
    its batches.
    """
    roles = method.estimator.roles(problem.two_level)
    batches: dict[str, Batch | None] = {"jacobians": None, "outer": None}
    openers = []
    for own in (ROLES[:2], ROLES[2:]):
        source = _source(problem, own[0])
        if source is None:
            continue
        large = {
            role: (given.refresh[role], size_of(method.refresh, role))
            for role in own
            if role in given.refresh and (role in roles or role != "jacobians")
        }
        small = {r: (given.small[r], size_of(method.batch, r)) for r in own if r in given.small}
        found, draws = source.epoch(large, small)
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


def _source(problem: Composition, role: str) -> Any:
    return problem.outer_source if role == "outer" else problem.inner_source


def _all(problem: Composition) -> dict[str, Batch | None]:
    inner, outer = problem.everything()
    return {"everything": inner, "everything outside": outer}


def size_of(sizes: Sizes, role: str) -> Any:
    return getattr(sizes, role)
