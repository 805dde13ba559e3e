# %% [markdown]
# # A network that minds its worst samples
#
# The tilted loss log E exp(tℓ)/t weighs a sample by exp(tℓ). Its minibatch gradient is biased, as the mean stands inside
# of the logarithm; `minimize` is not.

# %%
import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
import optax
from sklearn.datasets import load_digits

import mvrc
from mvrc import losses

images, labels = load_digits(return_X_y=True)
data = (images / 16).astype(np.float32), labels.astype(np.int32)
net = eqx.nn.MLP(64, 10, 32, 1, key=jax.random.key(0))


def loss(model, sample):
    image, label = sample
    return optax.softmax_cross_entropy_with_integer_labels(model(image), label)


# %%
found = {}
for t in (0.1, 2.0):
    problem = losses.tilted(loss, data, t=t)
    found[t] = mvrc.minimize(problem, net, mvrc.Auto(), seconds=8)
    print(t, found[t].objective < 0.5)

# %%
plt.figure(figsize=(6, 3.5))
for t, result in found.items():
    each = np.asarray(jax.vmap(loss, (None, 0))(result.x, data))
    plt.plot(np.sort(each)[::-1][:200] + 1e-9, label=f"t = {t}")
plt.yscale("log")
plt.xlabel("the 200 worst samples")
plt.ylabel("loss")
plt.legend()
plt.show()
