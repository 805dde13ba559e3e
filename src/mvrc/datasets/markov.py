"""Random Markov chains with rewards, for policy evaluation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mvrc.support import checks

_ERGODIC = 1e-5  # added to every weight, so that every state is reached from every other


class MarkovChain(NamedTuple):
    """A decision process under a fixed policy.

    Examples:
        >>> chain = mvrc.datasets.random_mdp(states=20, features=3)
        >>> chain.gamma, chain.features.shape
        (0.95, (20, 3))
    """

    transition: np.ndarray  # S × S, P_ij = probability of j after i; rows sum to 1
    rewards: np.ndarray  # S × S, R_ij = reward of the move from i to j
    features: np.ndarray  # S × features, row φ_i of state i
    gamma: float  # discount


@checks.explain_keywords
def random_mdp(
    states: int = 400,
    features: int = 100,
    gamma: float = 0.95,
    seed: int = 0,
    branching: int | None = None,
) -> MarkovChain:
    """The random process of the literature on policy evaluation, under a fixed policy.

    After Dann, Neumann and Peters, "Policy evaluation with temporal differences" (2014):
    P_ij = (u_ij + 1e−5) / Σ_k (u_ik + 1e−5), with u, the rewards R and the features independent
    and uniform on [0, 1].

    Args:
        states: S.
        features: of each state.
        gamma: discount in [0, 1).
        seed: of all random numbers.
        branching: u_ij is 0 except for this many states j, drawn anew for each i; None is all
            states.

    Examples:
        >>> mvrc.datasets.random_mdp(states=20, features=3).transition.sum(axis=1)[:2]
        array([1., 1.])
    """
    checks.integer("states", states)
    checks.integer("features", features)
    if checks.fraction("gamma", gamma) == 1:
        raise ValueError("gamma must lie in [0, 1), not 1: the value would be infinite.")
    rng = np.random.default_rng(checks.seed("seed", seed))
    weights = rng.uniform(size=(states, states))
    rewards = rng.uniform(size=(states, states))
    values = rng.uniform(size=(states, features))
    if branching is not None:
        if checks.integer("branching", branching) > states:
            raise ValueError(f"branching must be at most the {states} states, not {branching}.")
        order = rng.permuted(np.tile(np.arange(states), (states, 1)), axis=1)
        weights[order >= branching] = 0
    weights += _ERGODIC
    return MarkovChain(weights / weights.sum(axis=1, keepdims=True), rewards, values, float(gamma))
