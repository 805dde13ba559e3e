# %% [markdown]
# # A sum of a few functions
#
# Of twelve features two matter, and neither of them linearly. The model finds which, and how.

# %%
import matplotlib.pyplot as plt
import numpy as np

from mvrc.applications import SparseAdditiveRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (600, 12))
y = np.sin(2 * X[:, 3]) + 0.5 * X[:, 7] ** 2 + 0.2 * rng.standard_normal(600)
model = SparseAdditiveRegressor().fit(X, y)
print(round(model.score(X, y), 2))

# %% [markdown]
# What each feature contributes: the prediction with the others at their means.

# %%
grid = np.linspace(-2, 2, 60)
fig, axes = plt.subplots(1, 3, figsize=(7.5, 2.6), sharey=True)
for axis, j in zip(axes, (3, 7, 0), strict=True):
    at = np.tile(X.mean(axis=0), (60, 1))
    at[:, j] = grid
    axis.plot(grid, model.predict(at) - model.predict(at).mean())
    axis.set_title(f"feature {j}")
plt.show()
