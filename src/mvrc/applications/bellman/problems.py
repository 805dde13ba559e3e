"""The mean squared Bellman residual as a composition: from tables, from transitions, simulated.

In these forms y = g(w) is the Bellman residual of every state. The paper stacks Φw and the Bellman
targets and lets f take their difference; as that is linear, it is taken inside here, which halves y
and changes no value, gradient or estimate. In the projected form y is the residual's part that the
features see.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from mvrc.applications.bellman import functions, inputs
from mvrc.applications.bellman.kinds import SUCCESSORS, Transitions
from mvrc.applications.bellman.projection import whitening
from mvrc.problem import Composition
from mvrc.regularizers import Regularizer
from mvrc.sampling import Stream
from mvrc.support import checks
from mvrc.support.calls import check_function

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

    Examples:
        >>> from mvrc.applications import bellman
        >>> chain = mvrc.datasets.random_mdp(states=20, features=3, seed=0)
        >>> values = bellman(chain.transition, chain.rewards, chain.features, chain.gamma)
        >>> mvrc.minimize(values, x0).status.name
        'CONVERGED'
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

    g_k(w) = Φw − (n/n_s) e_s (r + γφ(s')ᵀw) for transition k from state s, which was visited n_s
    times: the mean over k is the residual y of the visited states. f(y) = Σ_s ω_s y_s². Where no
    state is visited twice, targets need no mean, and g_k is the squared residual itself. With few
    successors per state and random steps its minimum is biased, as the variance of the targets
    counts too, and a warning says so: see `bellman_projected`.

    A pass costs n times the number of visited states.

    Args:
        states, rewards, next_states: n each; states are rows of features.
        features: Φ, S × d. States that were never left have no part in the problem.
        gamma: γ, from 0 to below 1.
        terminal: n booleans, True where the value after the transition is 0.
        weighting: ω_s is n_s/n ("visits"), or equal for all visited states ("uniform").
        regularizer: r(w); none by default.

    Examples:
        >>> from mvrc.applications import bellman_transitions
        >>> states, features = np.arange(200) % 5, np.eye(5)[:, :3]
        >>> values = bellman_transitions(states, returns[:, 0], (states + 1) % 5, features, 0.5)
        >>> mvrc.minimize(values, x0).status.name
        'CONVERGED'
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
    data = Transitions(table[visited], slots, gains, following)
    checks.choice("weighting", weighting, WEIGHTINGS)
    return observed(data, inputs.discount(gamma), weighting, regularizer)


def observed(
    data: Transitions, gamma: float, weighting: str, regularizer: Regularizer | None
) -> Composition:
    """The problem of checked transitions; warns, past its caller and that one's, of a bias."""
    if data.biased(gamma):
        warnings.warn(
            f"The plain Bellman residual is biased where steps are random: {data.seen()}, and with "
            f"fewer than {SUCCESSORS} per state the variance of the next value counts as an error; "
            f"the projected residual has no such bias (residual='projected' of "
            f"LinearValueFunction, or bellman_projected).",
            stacklevel=4,
        )
    features = data.features
    slots, rewards, next_features = _two_at_least(data.slots, data.rewards, data.next_features)
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
def bellman_projected(
    features: Any,
    rewards: Any,
    next_features: Any,
    gamma: float,
    terminal: Any = None,
    regularizer: Regularizer | None = None,
) -> Composition:
    """½ bᵀC⁺b with b = E[φ((φ − γφ')ᵀw − r)] and C = E[φφᵀ], of n observed transitions (Σ¹).

    This is half the mean square of the Bellman residual projected on the features. Nothing random
    is squared, so one successor per state is enough, and without a regularizer its minimum
    is LSTD's w (`lstd_transitions`), at the value 0. With features that are whitened once,
    ψ = Wᵀφ for which E[ψψᵀ] = I,

        g_k(w) = ψ_k ((φ_k − γφ'_k)ᵀw − r_k),   f(y) = ½‖y‖².

    y has the length of the features' rank: linearly dependent features are no obstacle, but leave
    w open to the regularizer. With no more transitions than features the projection removes
    nothing, and the bias of one successor is back.

    Sutton et al., Fast Gradient-Descent Methods for Temporal-Difference Learning with Linear
    Function Approximation, 2009.

    Args:
        features, next_features: φ and φ', n × d.
        rewards: r, n.
        gamma: γ, from 0 to below 1.
        terminal: n booleans, True where the value after the transition is 0.
        regularizer: r(w); none by default.

    Examples:
        >>> from mvrc.applications import bellman_projected
        >>> features = returns[:-1], returns[1:]
        >>> values = bellman_projected(features[0], returns[:-1, 0], features[1], 0.5)
        >>> mvrc.minimize(values, x0).status.name
        'CONVERGED'
    """
    left, change, gains = inputs.transitions(features, rewards, next_features, gamma, terminal)
    shares = np.full(len(left), 1 / len(left))
    white = left @ whitening(left, shares)
    white, change, gains = (a.astype(left.dtype) for a in (white, change, gains))
    return projected(white, change, gains, shares, regularizer)


def projected(
    white: np.ndarray,
    change: np.ndarray,
    rewards: np.ndarray,
    shares: np.ndarray,
    regularizer: Regularizer | None,
) -> Composition:
    """½‖Σ_s ω_s ψ_s (δ_sᵀw − r_s)‖² for whitened features ψ, changes δ and shares ω."""
    white = (len(shares) * shares)[:, None].astype(white.dtype) * white
    white, change, rewards = _two_at_least(white, change, rewards)
    sample = {"white": white, "change": change, "rewards": rewards}
    return Composition(
        functions.projected_residual, functions.half_square, sample, regularizer=regularizer
    )


def _two_at_least(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arrays; of one row twice that row, which has the same mean."""
    return tuple(np.repeat(a, 2, axis=0) if len(a) == 1 else a for a in arrays)


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

    Examples:
        >>> from mvrc.applications import bellman_stream
        >>> def simulate(key, states):  # a reward and the next state for each state
        ...     after = (states + jax.random.bernoulli(key, 0.5, states.shape)) % 5
        ...     return 1.0 * after, after
        >>> values = bellman_stream(simulate, np.eye(5)[:, :3], 0.5, evaluation_size=100)
        >>> values.inner_source.count is None
        True
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
