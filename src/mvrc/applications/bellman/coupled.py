"""The paper's Bellman residual in its literal (E²) form: next states are drawn given the state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from mvrc.applications.bellman import functions, inputs
from mvrc.problem import Coupled
from mvrc.regularizers import Regularizer
from mvrc.sampling import Simulator
from mvrc.support import checks
from mvrc.support.calls import check_function


@checks.explain_keywords
def bellman_coupled(
    transition: Any,
    rewards: Any,
    features: Any,
    gamma: float,
    regularizer: Regularizer | None = None,
    inner_batch: int | None = None,
) -> Coupled:
    """(1/S) Σ_i (E[φ_iᵀw − R_ij − γφ_jᵀw | i])² for a known chain, as a coupled problem.

    For state i the inner samples are all states j, g_i(w; j) = φ_iᵀw − S·P_ij (R_ij + γφ_jᵀw). The
    value is that of `bellman`; a step on |B₁| states and |B₂| successors costs |B₁|·|B₂|, not S.

    Args:
        transition: P, S × S with rows that sum to one.
        rewards: R, S × S, or the expected rewards of the states, S.
        features: Φ, S × d.
        gamma: γ, from 0 to below 1.
        regularizer: r(w); none by default.
        inner_batch: |B₂|.

    Examples:
        >>> from mvrc.applications import bellman_coupled
        >>> chain = mvrc.datasets.random_mdp(states=20, features=3, seed=0)
        >>> values = bellman_coupled(chain.transition, chain.rewards, chain.features, chain.gamma)
        >>> mvrc.minimize(values, x0).status.name
        'CONVERGED'
    """
    matrix = inputs.chain(transition)
    states = len(matrix)
    table = inputs.feature_table(features, states)
    gains = inputs.reward_matrix("rewards", rewards, states)
    outside = {"features": table, "weight": states * matrix, "rewards": gains}
    inside = {"j": np.arange(states, dtype=np.int32), "next": inputs.discount(gamma) * table}
    return Coupled(_weighted_step, _square, inside, outside, regularizer, inner_batch=inner_batch)


@checks.explain_keywords
def bellman_simulator(
    simulate: Callable[..., Any],
    features: Any,
    gamma: float,
    regularizer: Regularizer | None = None,
    inner_batch: int = 16,
    evaluation_size: int = 1000,
    seed: int = 0,
) -> Coupled:
    """The same from a simulator, whose steps are drawn given the state.

    With one step for each state, the square of it would be minimised in the place of the square of
    its mean: the variance of the target counts as an error (the double-sampling bias).

    Args:
        simulate: `simulate(key, states)` gives the rewards and next states of one step from each
            of the states, or these and booleans, True where the value after the step is 0; a JAX
            function, as for `bellman_stream`.
        features: Φ, S × d.
        gamma: γ, from 0 to below 1.
        regularizer: r(w); none by default.
        inner_batch: |B₂|, steps drawn for each state of a small batch.
        evaluation_size, seed: of the fixed steps on which the problem is measured.

    Examples:
        >>> from mvrc.applications import bellman_simulator
        >>> def simulate(key, states):  # a reward and the next state for each state
        ...     after = (states + jax.random.bernoulli(key, 0.5, states.shape)) % 5
        ...     return 1.0 * after, after
        >>> values = bellman_simulator(simulate, np.eye(5)[:, :3], 0.5, evaluation_size=100)
        >>> mvrc.minimize(values, x0, "sox", epochs=2).x.shape
        (3,)
    """
    check_function("simulate(key, states)", simulate)
    table = inputs.feature_table(features)
    steps = Simulator(_StepsFrom(simulate), evaluation_size, seed)
    residual = _Residual(functions.Table(table), inputs.discount(gamma))
    states = np.arange(len(table), dtype=np.int32)
    return Coupled(residual, _square, steps, states, regularizer, inner_batch=inner_batch)


def _weighted_step(w: Any, i: Any, j: Any) -> Any:
    weight, gain = i["weight"][j["j"]], i["rewards"][j["j"]]
    return (i["features"] @ w - weight * (gain + j["next"] @ w))[None]


def _square(y: Any, i: Any) -> Any:
    return y[0] ** 2


@dataclasses.dataclass(frozen=True)
class _StepsFrom:
    """Steps from one state."""

    simulate: Callable[..., Any]

    def __call__(self, key: Any, state: Any, size: int) -> Any:
        found = self.simulate(key, jnp.full(size, state))
        rewards, following, *ended = found
        over = jnp.zeros(size, bool) if not ended else ended[0]
        return {"reward": rewards, "next": following, "over": over}


@dataclasses.dataclass(frozen=True)
class _Residual:
    """φ_iᵀw − r − γφ_{s'}ᵀw."""

    table: functions.Table
    gamma: float

    def __call__(self, w: Any, i: Any, step: Any) -> Any:
        rows = jnp.asarray(self.table.array)
        after = jnp.where(step["over"], 0, rows[step["next"]] @ w)
        return (rows[i] @ w - step["reward"] - self.gamma * after)[None].astype(w.dtype)
