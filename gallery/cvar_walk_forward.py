# %% [markdown]
# # CVaR, walking forward
#
# Every quarter the weights are chosen on the days before, and held for the next. The number of days grows with every
# fit; no program is compiled anew for it.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np

import mvrc
from mvrc.applications import MeanCVaRPortfolio

returns = mvrc.datasets.simulate_industry(n=3000, d=10, seed=3).values
starts = range(2000, 3000, 125)

# %%
held, seconds = [], []
for start in starts:
    began = time.perf_counter()
    model = MeanCVaRPortfolio(risk_aversion=2.0, beta=0.95).fit(returns[:start])
    seconds.append(time.perf_counter() - began)
    held.append(returns[start : start + 125] @ model.weights_)
held = np.concatenate(held)
print("the first fit takes longest:", bool(seconds[0] >= max(seconds)))

# %%
equal = returns[2000:3000].mean(axis=1)
worst = lambda r: -np.sort(r)[: len(r) // 20].mean()
print(
    "mean of the worst 5 % of days smaller than with equal weights:",
    bool(worst(held) < worst(equal)),
)

plt.figure(figsize=(6, 3.5))
plt.plot(np.cumsum(equal), color="0.6", label="equal weights")
plt.plot(np.cumsum(held), label="mean–CVaR, chosen anew every 125 days")
plt.xlabel("day")
plt.ylabel("sum of returns, %")
plt.legend()
plt.show()
