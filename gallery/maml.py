# %% [markdown]
# # Meta-learning on sinusoids
#
# One start for all tasks, from which a single gradient step on ten points of a task fits its curve. Each task's step is
# an inner mean, so minibatches of points bias the plain gradient.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import mvrc
from mvrc import losses

rng = np.random.default_rng(0)
tasks, points = 20, 20
amplitude, phase = rng.uniform(0.5, 3, tasks), rng.uniform(0, np.pi, tasks)
x = rng.uniform(-4, 4, (2 * points, tasks, 1)).astype(np.float32)
y = (amplitude * np.sin(x[..., 0] + phase)).astype(np.float32)


net = eqx.nn.MLP(1, 1, 24, 2, activation=jnp.tanh, key=jax.random.key(0))
weights, rest = eqx.partition(net, eqx.is_array)  # a step changes the numbers of a model


def loss(weights, sample):
    return (eqx.combine(weights, rest)(sample[0])[0] - sample[1]) ** 2


support = x[:points], y[:points]
query = np.swapaxes(x[points:], 0, 1), np.swapaxes(y[points:], 0, 1)

# %%
problem = losses.maml(loss, support, query, step=0.05)
result = mvrc.minimize(problem, weights, seconds=15)
print(result.objective < 2.0)

# %% [markdown]
# A curve that was not among the tasks: before and after one step on ten of its points.

# %%
new = np.linspace(-4, 4, 10, dtype=np.float32)[:, None]
target = lambda at: 2 * np.sin(at[:, 0] + 1.0)
mean = lambda model: jax.vmap(lambda a, b: loss(model, (a, b)))(new, target(new)).mean()
gradient = jax.grad(mean)(result.x)
after = jax.tree.map(lambda x, g: x - 0.05 * g, result.x, gradient)
grid = np.linspace(-4, 4, 100, dtype=np.float32)[:, None]

plt.figure(figsize=(6, 3.5))
plt.plot(grid, target(grid), color="0.6", label="curve")
plt.plot(new, target(new), "o", color="0.3", label="its ten points")
plt.plot(grid, jax.vmap(eqx.combine(result.x, rest))(grid), "--", label="start")
plt.plot(grid, jax.vmap(eqx.combine(after, rest))(grid), label="after one step")
plt.legend()
plt.show()
