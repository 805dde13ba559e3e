# %% [markdown]
# # The value of states, without the double-sampling bias
#
# Squaring a temporal difference of a single next state counts the noise of that state as an error. As a composition
# the mean comes first, then the square.

# %%
import matplotlib.pyplot as plt
import numpy as np

import mvrc
from mvrc.applications import bellman

chain = mvrc.datasets.random_mdp(states=100, features=20, gamma=0.9, seed=0)
problem = bellman(chain.transition, chain.rewards, chain.features, chain.gamma)
result = mvrc.minimize(problem, np.zeros(20))
print(result.status.name)

# %% [markdown]
# The values of the chain are known: (I − γP)⁻¹ times the expected reward.

# %%
expected = (chain.transition * chain.rewards).sum(axis=1)
exact = np.linalg.solve(np.eye(100) - chain.gamma * chain.transition, expected)
found = chain.features @ result.x

plt.figure(figsize=(4.2, 3.8))
plt.scatter(exact, found, s=10)
ends = [exact.min(), exact.max()]
plt.plot(ends, ends, color="0.6")
plt.xlabel("exact value")
plt.ylabel("with 20 features")
plt.show()
