"""Inner and outer functions of the Bellman problems, and what draws their samples.

They are compared by content, so that problems with equal features share one compiled program: a
chain's probabilities and rewards are data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Table:
    """An array that is compared by its content."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.array(array)  # a copy: the user's may change
        self._hash = hash((self.array.shape, self.array.tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and np.array_equal(self.array, other.array)


@dataclasses.dataclass(frozen=True)
class ColumnResiduals:
    """g_j(w) = Φw − S·P_{·j} ∘ (R_{·j} + γφ_jᵀw)."""

    features: Table

    def __call__(self, w: Any, column: Any) -> Any:
        targets = column["probabilities"] * (column["rewards"] + column["next"] @ w)
        return self.features.array @ w - targets


@dataclasses.dataclass(frozen=True)
class SlotResiduals:
    """g_k(w) = Φw − scale · e_slot · (r + γφ(s')ᵀw)."""

    features: Table

    def __call__(self, w: Any, step: Any) -> Any:
        target = step["scale"] * (step["rewards"] + step["next"] @ w)
        slots = jnp.arange(len(self.features.array))
        return self.features.array @ w - jnp.where(slots == step["slot"], target, 0)


@dataclasses.dataclass(frozen=True)
class StepResiduals:
    """g_ξ(w) = Φw − r_ξ − γΦ_{s'_ξ}w, where the last term is 0 if the step ended."""

    features: Table
    gamma: float

    def __call__(self, w: Any, step: Any) -> Any:
        rewards, following, *ended = step
        values = jnp.asarray(self.features.array) @ w
        after = values[following]
        if ended:
            after = jnp.where(ended[0], 0, after)
        return values - rewards - self.gamma * after


def squared_residual(w: Any, step: Any) -> Any:
    """g_k(w) = ((φ_k − γφ'_k)ᵀw − r_k)², for states that are left once."""
    return jnp.square(step["change"] @ w - step["rewards"])[None]


def projected_residual(w: Any, step: Any) -> Any:
    """g_k(w) = ψ_k ((φ_k − γφ'_k)ᵀw − r_k)."""
    return step["white"] * (step["change"] @ w - step["rewards"])


def half_square(y: Any) -> Any:
    """f(y) = ½‖y‖²."""
    return jnp.sum(y**2) / 2


def mean_square(y: Any) -> Any:
    """f(y) = (1/S)‖y‖²."""
    return jnp.mean(y**2)


def square_at(y: Any, state: Any) -> Any:
    """f_i(y) = y_i²."""
    return y[state] ** 2


def only(y: Any) -> Any:
    """f(y) = y for one number."""
    return y[0]


@dataclasses.dataclass(frozen=True)
class WeightedSquare:
    """f(y) = Σ_s ω_s y_s²."""

    shares: Table  # ω, which sum to one

    def __call__(self, y: Any) -> Any:
        return jnp.sum(self.shares.array * y**2)


@dataclasses.dataclass(frozen=True)
class Steps:
    """Draws one step from every state, `size` times."""

    simulate: Callable[..., Any]
    states: int

    def __call__(self, key: Any, size: int) -> tuple[Any, ...]:
        states = jnp.arange(self.states, dtype=jnp.int32)
        step = jax.vmap(lambda k: tuple(self.simulate(k, states)))(jax.random.split(key, size))
        if len(step) not in (2, 3) or any(a.shape != (size, self.states) for a in step):
            shapes = [a.shape[1:] for a in step]
            raise ValueError(
                f"simulate(key, states) returned shapes {shapes}; it must return rewards, next "
                f"states and, if steps can end, booleans, each of shape ({self.states},)"
            )
        return step


@dataclasses.dataclass(frozen=True)
class States:
    """Draws states uniformly."""

    states: int

    def __call__(self, key: Any, size: int) -> Any:
        return jax.random.randint(key, (size,), 0, self.states, dtype=jnp.int32)


@dataclasses.dataclass(frozen=True)
class TableSimulator:
    """The first state at which the row's cumulated probability exceeds a uniform number.

    One random number a step, where `jax.random.categorical` takes one for each possible state.
    """

    below: Table  # S × S cumulated probabilities
    rewards: Table

    def __call__(self, key: Any, states: Any) -> tuple[Any, Any]:
        rows = jnp.asarray(self.below.array)[states]
        level = jax.random.uniform(key, states.shape, dtype=jnp.float32)
        following = jax.vmap(lambda row, u: jnp.searchsorted(row, u, side="right"))(rows, level)
        following = following.astype(jnp.int32)
        return jnp.asarray(self.rewards.array)[states, following], following
