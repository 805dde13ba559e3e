"""The mean squared Bellman residual as a composition: from tables, from transitions, simulated.

In all forms y = g(w) is the Bellman residual of every state. The paper stacks Φw and the Bellman
targets and lets f take their difference; as that is linear, it is taken inside here, which halves y
and changes no value, gradient or estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mvrc import checks
from mvrc.applications.bellman import functions, inputs
from mvrc.inputs import check_function
from mvrc.problem import Composition
from mvrc.regularizers import Regularizer
from mvrc.sampling import Stream

FORMS = ("one-level", "two-level")
WEIGHTINGS = ("visits", "uniform")


@checks.explain_keywords
def bellman(
    transition: Any,
    rewards: Any,
    features: Any,
    gamma: float,
    form: str = "one-level",
    regularizer: Regularizer | None = None,
) -> Composition:
    """(1/S) Σ_i [φ_iᵀw − Σ_j P_ij (R_ij + γφ_jᵀw)]² for a known chain; x is w, of length d.

    g_j(w) = Φw − S·P_{·j} ∘ (R_{·j} + γφ_jᵀw), whose mean over the S states j is the residual y.
    Then f(y) = (1/S)‖y‖² (one-level, Σ¹), or the mean over the states i of f_i(y) = y_i²
    (two-level, Σ²).

    Args:
        transition: P, S × S with rows that sum to one.
        rewards: R, S × S, or the expected rewards of the states, S.
        features: Φ, S × d.
        gamma: γ, from 0 to below 1.
        form: "one-level" or "two-level".
        regularizer: r(w); none by default.
    """
    checks.choice("form", form, FORMS)
    matrix = inputs.chain(transition)
    states = len(matrix)
    table = inputs.feature_table(features, states)
    sample = {
        "probabilities": states * matrix.T,
        "rewards": inputs.reward_matrix("rewards", rewards, states).T,
        "next": inputs.discount(gamma) * table,
    }
    inner = functions.ColumnResiduals(functions.Table(table))
    if form == "two-level":
        every = np.arange(states, dtype=np.int32)
        return Composition(inner, functions.square_at, sample, every, regularizer)
    return Composition(inner, functions.mean_square, sample, regularizer=regularizer)


@checks.explain_keywords
def bellman_transitions(
    states: Any,
    rewards: Any,
    next_states: Any,
    features: Any,
    gamma: float,
    terminal: Any = None,
    weighting: str = "visits",
    regularizer: Regularizer | None = None,
) -> Composition:
    """The same from n observed transitions s → s' with reward r (Σ¹).

    g_k(w) = Φw − (n/n_s) e_s (r + γφ(s')ᵀw) for transition k from state s, which was left n_s
    times: the mean over k is the residual y of the visited states. f(y) = Σ_s ω_s y_s².
    Where no state is left twice, targets need no mean, and g_k is the squared residual itself.

    A pass costs n times the number of visited states.

    Args:
        states, rewards, next_states: n each; states are rows of features.
        features: Φ, S × d. States that were never left have no part in the problem.
        gamma: γ, from 0 to below 1.
        terminal: n booleans, True where the value after the transition is 0.
        weighting: ω_s is n_s/n ("visits"), or equal for all visited states ("uniform").
        regularizer: r(w); none by default.
    """
    table = inputs.feature_table(features)
    left = inputs.state_numbers("states", states, len(table))
    entered = inputs.state_numbers("next_states", next_states, len(table))
    n = len(left)
    gains = inputs.column("rewards", rewards, n, "states")
    if len(entered) != n:
        raise ValueError(f"next_states has {len(entered)} entries; states has {n}.")
    ended = inputs.flags("terminal", terminal, n, "states")
    following = np.where(ended[:, None], 0, table[entered])
    visited, slots = np.unique(left, return_inverse=True)
    return observed(
        slots, gains, following, table[visited], inputs.discount(gamma),
        checks.choice("weighting", weighting, WEIGHTINGS), regularizer,
    )  # fmt: skip


def observed(
    slots: np.ndarray,
    rewards: np.ndarray,
    next_features: np.ndarray,
    features: np.ndarray,
    gamma: float,
    weighting: str,
    regularizer: Regularizer | None,
) -> Composition:
    """The problem of checked transitions from rows `slots` of `features`, each left at least once.

    A terminal transition has next features 0.
    """
    if len(slots) == 1:  # the mean of one sample is that of the sample twice
        slots, rewards, next_features = (
            np.repeat(a, 2, axis=0) for a in (slots, rewards, next_features)
        )
    counts = np.bincount(slots, minlength=len(features))
    n = len(slots)
    if counts.max() == 1:
        change = features[slots] - gamma * next_features
        sample = {"change": change, "rewards": rewards}
        return Composition(
            functions.squared_residual, functions.only, sample, regularizer=regularizer
        )
    share = counts / n if weighting == "visits" else np.full(len(counts), 1 / len(counts))
    sample = {
        "slot": slots.astype(np.int32),
        "scale": (n / counts[slots]).astype(features.dtype),
        "rewards": rewards,
        "next": gamma * next_features,
    }
    inner = functions.SlotResiduals(functions.Table(features))
    outer = functions.WeightedSquare(functions.Table(share.astype(features.dtype)))
    return Composition(inner, outer, sample, regularizer=regularizer)


@checks.explain_keywords
def bellman_stream(
    simulate: Callable[..., Any],
    features: Any,
    gamma: float,
    two_level: bool = False,
    regularizer: Regularizer | None = None,
    evaluation_size: int = 1000,
    seed: int = 0,
) -> Composition:
    """The same from a simulator (E¹, or E² with `two_level`).

    A sample ξ is one step from every state: g_ξ(w) = Φw − r_ξ − γΦ_{s'_ξ}w. With two levels the
    outer sample is a state i, uniform, and f_i(y) = y_i². (In the paper's E² the step depends on i;
    here inner and outer samples are independent, as the methods need.)

    Args:
        simulate: `simulate(key, states)` gives the rewards and next states of one step from each
            of the states, or these and booleans, True where the value after the step is 0; a JAX
            function.
        features: Φ, S × d.
        gamma: γ, from 0 to below 1.
        two_level: draw outer states as well.
        regularizer: r(w); none by default.
        evaluation_size, seed: of the fixed batch on which a `mvrc.Stream` is measured.
    """
    check_function("simulate(key, states)", simulate)
    two_level = inputs.pick("two_level", two_level)
    table = inputs.feature_table(features)
    inner = functions.StepResiduals(functions.Table(table), inputs.discount(gamma))
    steps = Stream(functions.Steps(simulate, len(table)), evaluation_size, seed)
    if not two_level:
        return Composition(inner, functions.mean_square, steps, regularizer=regularizer)
    states = Stream(functions.States(len(table)), evaluation_size, seed)
    return Composition(inner, functions.square_at, steps, states, regularizer)


@checks.explain_keywords
def table_simulator(transition: Any, rewards: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    """`simulate(key, states)` for `bellman_stream`, drawing from the rows of a table.

    Args:
        transition: P, S × S with rows that sum to one.
        rewards: R, S × S, or the expected rewards of the states, S.
    """
    matrix = inputs.chain(transition)
    below = np.cumsum(matrix, axis=1, dtype=np.float64)
    gains = inputs.reward_matrix("rewards", rewards, len(matrix))
    return functions.TableSimulator(
        functions.Table((below / below[:, -1:]).astype(np.float32)), functions.Table(gains)
    )
