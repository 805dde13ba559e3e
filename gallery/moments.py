# %% [markdown]
# # The method of moments
#
# Parameters are chosen so that moments of the model equal means of the data: ‖E m(x, ξ)‖² is a square of an
# expectation. A gamma distribution from its first three moments.

# %%
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import mvrc

rng = np.random.default_rng(0)
data = rng.gamma(2.5, 1.2, 4000)


def moments(x, value):
    shape, scale = jnp.exp(x)  # both positive
    first = shape * scale
    second = first * (shape + 1) * scale
    third = second * (shape + 2) * scale
    return jnp.stack([value - first, (value**2 - second) / 10, (value**3 - third) / 100])


problem = mvrc.Composition(moments, lambda y: (y**2).sum(), data)
result = mvrc.minimize(problem, np.zeros(2))
print(result.status.name, np.exp(result.x).round(1))

# %%
shape, scale = np.exp(result.x)
grid = np.linspace(0.05, 12, 200)
density = grid ** (shape - 1) * np.exp(-grid / scale)
density /= density.sum() * (grid[1] - grid[0])
plt.figure(figsize=(6, 3.5))
plt.hist(data, bins=60, density=True, color="0.85")
plt.plot(grid, density)
plt.xlabel("value")
plt.show()
