# %% [markdown]
# # A ranking by AUC
#
# One digit against all others: a tenth of the images are positive. The margin loss on pairs is a composition of five
# means, so no pairs are formed.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import train_test_split

import mvrc
from mvrc import losses

images, digits = load_digits(return_X_y=True)
split = train_test_split(images / 16, digits == 8, random_state=0, stratify=digits == 8)
train, test, train_labels, test_labels = split

# %%
problem = losses.auc_margin(lambda x, row: row @ x, train, train_labels, regularizer=mvrc.L2(1e-3))
result = mvrc.minimize(problem, np.zeros(64))
scores = test @ result.x
print(result.status.name, roc_auc_score(test_labels, scores) > 0.95)

# %%
plt.figure(figsize=(4.2, 3.8))
plt.plot(*roc_curve(test_labels, scores)[:2])
plt.xlabel("false positives")
plt.ylabel("true positives")
plt.show()
