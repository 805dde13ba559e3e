# %% [markdown]
# # The value of states, without the double-sampling bias
#
# Squaring a temporal difference of a single next state counts the noise of that state as an error. As a composition
# the mean comes first, then the square. A walk on a ring of 60 states, with rewards on one side:

# %%
import matplotlib.pyplot as plt
import numpy as np

import mvrc
from mvrc.applications import bellman

states = np.arange(60)
angle = 2 * np.pi * states / 60
transition = np.zeros((60, 60))
for step in (-3, -2, -1, 1, 2, 3):
    transition[states, (states + step) % 60] = 1 / 6
rewards = np.tile(np.maximum(np.cos(angle), 0), (60, 1))  # of the state that is reached
features = np.column_stack(
    [np.ones(60), *(f(k * angle) for k in (1, 2, 3) for f in (np.cos, np.sin))]
)

# %%
problem = bellman(transition, rewards, features, gamma=0.9)
result = mvrc.minimize(problem, np.zeros(7))
print(result.status.name)

# %% [markdown]
# The values are known: (I − γP)⁻¹ times the expected reward.

# %%
expected = (transition * rewards).sum(axis=1)
exact = np.linalg.solve(np.eye(60) - 0.9 * transition, expected)
found = features @ result.x
print(bool(np.abs(found - exact).max() < 0.1))

plt.figure(figsize=(6, 3.5))
plt.plot(states, exact, "o", ms=3, color="0.5", label="exact")
plt.plot(states, found, label="seven features")
plt.xlabel("state")
plt.ylabel("value")
plt.legend()
plt.show()
