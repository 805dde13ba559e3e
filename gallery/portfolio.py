# %% [markdown]
# # A portfolio and its frontier
#
# The variance of a portfolio is a function of two expectations, so g returns both and f combines them. Sixty risk
# aversions give the frontier; the programs are compiled once.

# %%
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import mvrc

returns = mvrc.datasets.simulate_industry(n=5000, d=12, seed=1).values  # percent per day
mean, risk = returns.mean(axis=0), returns.std(axis=0)

# %% [markdown]
# f is a function of y alone; the risk aversion is data of the outer function, so that one program serves all.


# %%
def frontier(aversion):
    problem = mvrc.Composition(
        inner=lambda x, r: jnp.stack([r @ x, (r @ x) ** 2]),
        outer=lambda y, k: -y[0] + k * (y[1] - y[0] ** 2),
        inner_data=returns,
        outer_data=np.array([aversion]),
        regularizer=mvrc.Simplex(),
    )
    return mvrc.minimize(problem, np.full(12, 1 / 12))


aversions = np.geomspace(0.002, 2, 20)
results = [frontier(k) for k in aversions]
print({r.status.name for r in results})

# %%
points = np.array([[(returns @ r.x).std(), (returns @ r.x).mean()] for r in results])
plt.figure(figsize=(6, 3.5))
plt.scatter(risk, mean, s=15, color="0.6", label="single assets")
plt.plot(points[:, 0], points[:, 1], "o-", ms=3, label="optimal portfolios")
plt.xlabel("risk: standard deviation, % per day")
plt.ylabel("mean return, % per day")
plt.legend()
plt.show()
