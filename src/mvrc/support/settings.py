"""JAX's settings: the library runs with those it needs, whatever the user's are.

Programs are traced, compiled and kept, and a seed is a promise, so neither may depend on a switch
that somebody has set elsewhere. Four of the switches are checks of the code that is traced, and
those hold for the user's functions: they are in force, in `users_checks`, where a function is
traced for the first time and its failure becomes a sentence.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax

from mvrc.support import tricks


class Needed(NamedTuple):
    """A setting that the library's own code needs."""

    name: str
    context: Any  # by which JAX sets it for a while
    value: Any
    others: tuple[Any, ...] = ()  # values that do as well
    checks: bool = False  # whether it is a check of the code that is traced


_GUARDS = [
    Needed(f"jax_transfer_guard_{way}", getattr(jax, f"transfer_guard_{way}"), "allow", (None,))
    for way in ("host_to_device", "device_to_device", "device_to_host")
]
_NEEDED = (
    Needed("jax_disable_jit", jax.disable_jit, False),  # compiled programs cannot be run without
    Needed("jax_numpy_dtype_promotion", jax.numpy_dtype_promotion, "standard", checks=True),
    Needed("jax_numpy_rank_promotion", jax.numpy_rank_promotion, "allow", ("warn",), checks=True),
    Needed("jax_check_tracer_leaks", jax.check_tracer_leaks, False, checks=True),
    Needed("jax_debug_key_reuse", jax.debug_key_reuse, False, checks=True),
    Needed("jax_default_prng_impl", jax.default_prng_impl, "threefry2x32"),  # for a seed's sake
    # A run that leaves the numbers is found and reported by the library; some of its numbers are
    # infinite or NaN until they are known.
    Needed("jax_debug_nans", jax.debug_nans, False),
    Needed("jax_debug_infs", jax.debug_infs, False),
    *_GUARDS,
)

_TRACED_WITH = (
    "jax_enable_x64", "jax_default_matmul_precision", "jax_threefry_partitionable",
    "jax_default_device",
)  # fmt: skip

# The settings that are not the user's at the moment, with the user's values.
_replaced: contextvars.ContextVar[tuple[tuple[Needed, Any], ...]] = contextvars.ContextVar(
    "replaced", default=()
)


@contextlib.contextmanager
def needed(leaves: Iterable[Any] = ()) -> Iterator[None]:
    """Context with the settings that the library needs, on the device on which `leaves` are."""
    given = [(setting, getattr(jax.config, setting.name)) for setting in _NEEDED]
    changed = [(s, value) for s, value in given if value not in (s.value, *s.others)]
    with contextlib.ExitStack() as stack:
        for setting, _ in changed:
            stack.enter_context(setting.context(setting.value))
        if changed:
            token = _replaced.set((*_replaced.get(), *changed))
            stack.callback(_replaced.reset, token)
        device = _device(leaves)
        if device is not None and device != default_device():
            stack.enter_context(jax.default_device(device))
        yield


@contextlib.contextmanager
def users_checks(function: Any) -> Iterator[None]:
    """Context with the user's own checks of code again, unless the function is an application's."""
    module = getattr(function, "__module__", None) or ""
    with contextlib.ExitStack() as stack:
        for setting, value in _replaced.get():
            if setting.checks and not module.startswith("mvrc.applications"):
                stack.enter_context(setting.context(value))
        yield


def traced_with() -> tuple[Any, ...]:
    """What a program that is kept depends on, besides its arguments; hashable."""
    return (*(getattr(jax.config, name) for name in _TRACED_WITH), tricks.state())


def default_device() -> Any:
    """Where JAX computes if nothing else says so."""
    chosen = getattr(jax.config, "jax_default_device")  # noqa: B009  (has a type late only)
    if chosen is None:
        return jax.local_devices()[0]
    return jax.local_devices(backend=chosen)[0] if isinstance(chosen, str) else chosen


def _device(leaves: Iterable[Any]) -> Any:
    """The device of some arrays; None where none of them is on one."""
    arrays = [
        leaf
        for leaf in leaves
        if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    ]
    if not arrays:
        return None
    if any(isinstance(array.sharding, jax.sharding.NamedSharding) for array in arrays):
        return None  # programs are where their mesh is
    chosen = {device for array in arrays if array.committed for device in array.devices()}
    if len(chosen) > 1:
        names = ", ".join(sorted(str(device) for device in chosen))
        raise ValueError(
            f"the problem's arrays are on {len(chosen)} devices ({names}), and a run computes on "
            f"one; put all of them on it, as by jax.device_put(data, jax.devices()[0])."
        )
    return next(iter(chosen or arrays[0].devices()))
