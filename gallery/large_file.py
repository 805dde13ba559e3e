# %% [markdown]
# # A file that stays on the disk
#
# The rows of a file are read in order, pass after pass, and are never all in memory. Here the file is small enough to
# check the answer against the array.

# %%
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import mvrc

rng = np.random.default_rng(0)
rows = rng.normal(0.05, 1.0, (200_000, 20)).astype(np.float32) + rng.normal(
    0, 0.5, (200_000, 1)
).astype(np.float32)
np.save("returns.npy", rows)


# %%
def solve(data):
    problem = mvrc.Composition(
        inner=lambda x, r: jnp.stack([r @ x, (r @ x) ** 2]),
        outer=lambda y: -y[0] + 0.5 * (y[1] - y[0] ** 2),
        inner_data=data,
        regularizer=mvrc.L1(0.01),
    )
    return mvrc.minimize(problem, np.zeros(20, np.float32), mvrc.MVRC(step_size=0.1), epochs=10)


stored, held = solve(mvrc.File("returns.npy")), solve(rows)
print(bool(np.abs(stored.x - held.x).max() < 1e-2))

# %%
plt.figure(figsize=(6, 3.5))
for name, result in {"file": stored, "array": held}.items():
    passes = result.history["inner_values"] / len(rows)
    plt.plot(passes, result.history["objective"], "o-", ms=4, label=name)
plt.xlabel("passes over the rows")
plt.ylabel("objective")
plt.legend()
plt.show()
