"""The two kinds of data: observed transitions and a known chain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mvrc.applications.bellman import inputs

# Seen successors for each state below which the plain residual is called biased: the variance of
# the targets, divided by this number, is part of what is minimised. For a walk on [−1, 1] with
# Gaussian steps, γ from 0.9 to 0.95, 6 or 20 radial features and 6,000 transitions in all, the
# values' error is 4 to 12 times that of LSTD at 1 successor, 1.3 to 5 times at 10, 1.1 to 4 times
# at 20 and 1 to 2 times at 50.
SUCCESSORS = 20


class Transitions(NamedTuple):
    """Observed transitions, with equal rows of features taken as one state."""

    features: np.ndarray  # the distinct states that were left
    slots: np.ndarray  # for each transition its row of `features`
    rewards: np.ndarray
    next_features: np.ndarray  # 0 where the transition was terminal

    @property
    def shares(self) -> np.ndarray:
        """The shares of the visits, for each state."""
        return np.bincount(self.slots) / len(self.slots)

    def mean_change(self, gamma: float) -> tuple[np.ndarray, np.ndarray]:
        """φ_s − γ mean φ(s') and the mean rewards, for each state."""
        counts = np.bincount(self.slots)
        following = np.zeros(self.features.shape)
        np.add.at(following, self.slots, self.next_features)
        rewards = np.bincount(self.slots, self.rewards) / counts
        return self.features - gamma * following / counts[:, None], rewards

    def biased(self, gamma: float) -> bool:
        """Whether the next value may vary, and too few successors were seen for its mean."""
        few = len(self.slots) < SUCCESSORS * len(self.features)
        return few and gamma > 0 and bool(self.next_features.any())

    def seen(self) -> str:
        """How often states were left, as part of a sentence."""
        n, states = len(self.slots), len(self.features)
        each = f"{n / states:.3g} per state on average"
        return f"the {n:,} transitions start from {states:,} different states ({each})"


class Chain(NamedTuple):
    """A known Markov chain."""

    features: np.ndarray
    transition: np.ndarray
    rewards: np.ndarray  # R, S × S

    @property
    def shares(self) -> np.ndarray:
        """Equal shares, for each state."""
        return np.full(len(self.features), 1 / len(self.features))

    def mean_change(self, gamma: float) -> tuple[np.ndarray, np.ndarray]:
        """φ_s − γ E φ(s') and the expected rewards, for each state."""
        change = self.features - gamma * (self.transition @ self.features)
        return change, (self.transition * self.rewards).sum(axis=1)


def from_rows(
    X: np.ndarray, y: np.ndarray, following: np.ndarray | None, terminal: Any
) -> Transitions:
    """Transitions of the rows of X to those of `following`; None is a trajectory."""
    ended = inputs.flags("terminal", terminal, len(X), "X")
    if following is None:
        rows = len(X) if ended[-1] else len(X) - 1
        following = np.roll(X, -1, axis=0)[:rows]
        X, y, ended = X[:rows], y[:rows], ended[:rows]
    states, slots = np.unique(X, axis=0, return_inverse=True)
    return Transitions(states, slots.ravel(), y, np.where(ended[:, None], 0.0, following))
