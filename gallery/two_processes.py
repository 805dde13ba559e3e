# %% [markdown]
# # Two processes, the same bits
#
# Rows lie in shards, and each process reads its own. Random numbers and partial sums belong to shards, not to
# processes, so the answer does not depend on how many processes there are. On a cluster the same script runs on every
# machine; here `mvrc launch` starts it twice.

# %%
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

Path("train.py").write_text(
    """
import sys

import jax
import jax.numpy as jnp
import numpy as np

import mvrc


def read_shard(k):
    rng = np.random.default_rng(k)
    return rng.normal(0.1, 1.0, (500, 5))


problem = mvrc.Composition(
    inner=lambda x, r: jnp.stack([r @ x, (r @ x) ** 2]),
    outer=lambda y: -y[0] + 0.5 * (y[1] - y[0] ** 2),
    inner_data=mvrc.Sharded(read_shard, shards=8),
    regularizer=mvrc.L1(0.01),
)
result = mvrc.minimize(problem, np.zeros(5), mvrc.MVRC(step_size=0.1), epochs=6)
if jax.process_index() == 0:
    np.savez(sys.argv[1], x=result.x, passes=result.history["inner_values"] / 4000,
             objective=result.history["objective"])
"""
)


def run(processes):
    name = f"{processes}.npz"
    command = [sys.executable, "-m", "mvrc.cli", "launch", "-n", str(processes), "train.py", name]
    subprocess.run(command, check=True, capture_output=True)
    return np.load(name)


one, two = run(1), run(2)
print("the same bits:", bool((one["x"] == two["x"]).all()))

# %%
plt.figure(figsize=(6, 3.5))
plt.plot(one["passes"], one["objective"], "o-", label="one process")
plt.plot(two["passes"], two["objective"], "x", ms=10, label="two processes")
plt.xlabel("passes over the rows")
plt.ylabel("objective")
plt.legend()
plt.show()
