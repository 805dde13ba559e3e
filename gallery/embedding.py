# %% [markdown]
# # Digits in the plane
#
# Stochastic neighbour embedding: log Σⱼ exp(…) over all points is a function of an expectation.

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from mvrc.applications import StochasticNeighborEmbedding

images, labels = load_digits(return_X_y=True)
images, labels = images[:300], labels[:300]
places = StochasticNeighborEmbedding(perplexity=15, random_state=0).fit_transform(images)

# %%
plt.figure(figsize=(5, 4.5))
plt.scatter(*places.T, c=labels, cmap="tab10", s=12)
plt.colorbar(label="digit")
plt.show()
