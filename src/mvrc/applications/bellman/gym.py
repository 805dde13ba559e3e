"""Tabular gymnasium environments: their tables, chains under a policy, and policy iteration."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from mvrc.applications.bellman import inputs
from mvrc.support import checks, extras

# An action replaces another when it is better by this share of the largest value: ties, broken by
# rounding, must not keep the iteration going.
_BETTER = 1e-6

# Tolerance of the evaluations before the last, where actions differ by more than their error.
_COARSE = 1e-4

# Epochs of the default evaluator, a limit: the Taxi's last evaluation takes 1,771 at γ = 0.95.
_EPOCHS = 10_000

# Values whose error may be above this share of the largest cannot tell that no action is better.
_KNOWN = 1e-3


class DecisionTable(NamedTuple):
    """A Markov decision process with S states and A actions."""

    transition: np.ndarray  # P[s, a, s']
    rewards: np.ndarray  # R[s, a, s'], 0 where P is
    terminal: np.ndarray  # booleans: the state leads to itself with reward 0


class Solution(NamedTuple):
    """What policy iteration found."""

    policy: np.ndarray  # an action for each state
    values: np.ndarray  # of the states under this policy
    rounds: int  # evaluations made
    stable: bool  # whether no action is better, as far as values known to 0.1 % can tell


def transition_table(env: Any) -> DecisionTable:
    """The table of an environment with `env.unwrapped.P`, such as Taxi, FrozenLake, CliffWalking.

    Every state that is entered with `terminated` leads to itself with reward 0 from then on.

    Args:
        env: the environment, or its name for `gymnasium.make`; a name without a version, such as
            "Taxi", means the newest that is installed.
    """
    env = _made(env)
    outcomes = getattr(env.unwrapped, "P", None)
    if outcomes is None:
        raise TypeError(
            f"env must have a table env.unwrapped.P, as Taxi, FrozenLake and CliffWalking have, "
            f"and {checks.shown(env)} has none."
        )
    shape = (int(env.observation_space.n), int(env.action_space.n), int(env.observation_space.n))
    transition, gains = np.zeros(shape), np.zeros(shape)
    ending, going = np.zeros(shape, bool), np.zeros(shape, bool)
    for state, actions in outcomes.items():
        for action, possible in actions.items():
            for probability, following, reward, terminated in possible:
                transition[state, action, following] += probability
                gains[state, action, following] += probability * reward
                kind = ending if terminated else going
                kind[state, action, following] |= probability > 0
    terminal = np.asarray(ending.any(axis=(0, 1)))
    _refuse_mixed(env, ending | going, going, terminal)
    rewards = np.divide(gains, transition, out=gains, where=transition > 0)
    transition[terminal], rewards[terminal] = 0, 0
    transition[terminal, :, terminal] = 1
    return DecisionTable(transition, rewards, terminal)


def policy_chain(table: DecisionTable, policy: Any) -> tuple[np.ndarray, np.ndarray]:
    """P and R, S × S each, of the Markov chain under a policy.

    Args:
        table: of `transition_table`.
        policy: an action for each state, or their probabilities, S × A.
    """
    states, actions, _ = table.transition.shape
    given = np.asarray(policy)
    if given.shape == (states,) and given.dtype.kind in "iu":
        if given.min() < 0 or given.max() >= actions:
            raise ValueError(
                f"policy must be actions from 0 to {actions - 1}; they go from {given.min()} to "
                f"{given.max()}."
            )
        every = np.arange(states)
        return table.transition[every, given], table.rewards[every, given]
    chances = given.shape == (states, actions) and given.dtype.kind == "f"
    if not chances or given.min() < 0 or not np.allclose(given.sum(axis=1), 1):
        raise ValueError(
            f"policy must be {states} integers, or {states} × {actions} probabilities with "
            f"rows that sum to one, not {checks.shown(policy)}."
        )
    transition = np.einsum("sa,sat->st", given, table.transition)
    gains = np.einsum("sa,sat,sat->st", given, table.transition, table.rewards)
    return transition, np.divide(gains, transition, out=gains, where=transition > 0)


@checks.explain_keywords
def policy_iteration(
    env: Any,
    gamma: float = 0.95,
    features: Any = None,
    evaluator: Any = None,
    max_rounds: int = 100,
) -> Solution:
    """Evaluate the policy by `LinearValueFunction`, take the best action everywhere, repeat.

    Starts from action 0 everywhere and ends when no action is better than the policy's. It warns
    when it ends otherwise: by `max_rounds`, or because the evaluator's tolerance leaves values so
    uncertain (by more than 0.1 %) that better actions may be hidden.

    Args:
        env: an environment, its name, or a `DecisionTable`.
        gamma: discount γ, from 0 to below 1.
        features: Φ, S × d; None is one-hot, for which the values are exact. With features that
            cannot represent the values the iteration may cycle.
        evaluator: a `LinearValueFunction` with other settings; its gamma must be the same. None is
            one with up to 10,000 epochs.
        max_rounds: limit on evaluations.
    """
    from sklearn.base import clone

    from mvrc.applications.bellman.estimator import LinearValueFunction

    gamma = inputs.discount(gamma)
    checks.integer("max_rounds", max_rounds)
    table = env if isinstance(env, DecisionTable) else transition_table(env)
    states = len(table.transition)
    phi = np.eye(states) if features is None else inputs.feature_table(features, states)
    if evaluator is None:
        evaluator = LinearValueFunction(gamma=gamma, max_epochs=_EPOCHS)
    evaluator = clone(evaluator)
    if evaluator.gamma != gamma:
        raise ValueError(f"evaluator has gamma={evaluator.gamma}, but gamma here is {gamma}.")
    fine = evaluator.tol
    if features is None:
        evaluator.set_params(tol=max(fine, _COARSE))
    expected = (table.transition * table.rewards).sum(axis=2)
    policy, every = np.zeros(states, int), np.arange(states)
    for rounds in range(1, max_rounds + 1):
        transition, rewards = policy_chain(table, policy)
        values = evaluator.fit(phi, rewards, transition=transition).predict(phi)
        returns = expected + gamma * (table.transition @ values)
        followed, size = returns[every, policy], np.abs(values).max()
        margin = _BETTER * size
        if features is None:
            # |V − V̂| ≤ δ/(1 − γ) for the residual δ: what is better beyond it is truly better.
            margin += 2 * gamma / (1 - gamma) * np.abs(values - followed).max()
        better = returns.max(axis=1) > followed + margin
        if not better.any() and evaluator.tol == fine:
            if uncertain := bool(margin > _KNOWN * size):
                _warn(
                    f"its values, up to {size:.3g}, are accurate to {margin / 2:.2g} only, which "
                    f"may hide better actions; give an evaluator with a smaller tol than {fine:g} "
                    f"or more epochs than {evaluator.max_epochs}"
                )
            return Solution(policy, values, rounds, not uncertain)
        if not better.any():
            evaluator.set_params(tol=fine)
        elif rounds < max_rounds:  # else the values would be of another policy
            policy = np.where(better, returns.argmax(axis=1), policy)
    _warn(f"it made max_rounds={max_rounds} rounds, and the policy may improve further")
    return Solution(policy, values, max_rounds, False)


def _warn(reason: str) -> None:
    from sklearn.exceptions import ConvergenceWarning

    # Past this function, policy_iteration and its wrapper, to the caller.
    warnings.warn(f"policy_iteration did not finish: {reason}.", ConvergenceWarning, stacklevel=4)


def _made(env: Any) -> Any:
    """The environment, made when it is a name."""
    if not isinstance(env, str):
        if not hasattr(env, "unwrapped"):
            raise TypeError(
                f"env must be a gymnasium environment or its name, not {checks.shown(env)}."
            )
        return env
    try:
        import gymnasium
    except ImportError as error:
        raise extras.missing("Environments need gymnasium", "gym") from error
    with warnings.catch_warnings():
        # A name without a version asks for the newest, of which gymnasium warns.
        warnings.filterwarnings("ignore", ".*Using the latest versioned environment", UserWarning)
        return gymnasium.make(env)


def _refuse_mixed(env: Any, steps: np.ndarray, going: np.ndarray, terminal: np.ndarray) -> None:
    """Refuse states that an episode can enter both with and without its end.

    `steps` are the possible s, a, s', and `going` those after which an episode can go on.
    """
    start = getattr(env.unwrapped, "initial_state_distrib", np.ones(len(terminal)))
    reached = np.asarray(start) > 0
    leads = (steps & ~terminal[:, None, None]).any(axis=1)
    while (more := reached | leads[reached].any(axis=0)).sum() > reached.sum():
        reached = more
    entered = going[reached & ~terminal].any(axis=(0, 1)) & terminal
    if entered.any():
        raise ValueError(
            f"env enters state {int(np.argmax(entered))} both with and without ending the "
            f"episode; a table needs states that always end it or never do."
        )
