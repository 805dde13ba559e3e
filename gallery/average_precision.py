# %% [markdown]
# # Average precision
#
# For each positive the share of positives among the samples above it: an inner mean of its own for every positive, a
# coupled problem.

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, precision_recall_curve
from sklearn.model_selection import train_test_split

from mvrc.applications import AveragePrecisionClassifier

images, digits = load_digits(return_X_y=True)
split = train_test_split(images / 16, digits == 8, random_state=1, stratify=digits == 8)
train, test, train_labels, test_labels = split

# %%
models = {
    "average precision": AveragePrecisionClassifier(alpha=1e-3).fit(train, train_labels),
    "logistic regression": LogisticRegression(max_iter=1000).fit(train, train_labels),
}
plt.figure(figsize=(5, 3.8))
for name, model in models.items():
    scores = model.decision_function(test)
    print(name, average_precision_score(test_labels, scores) > 0.7)
    precision, recall, _ = precision_recall_curve(test_labels, scores)
    plt.plot(recall, precision, label=name)
plt.xlabel("recall")
plt.ylabel("precision")
plt.legend()
plt.show()
