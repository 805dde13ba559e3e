"""`python -m benchmarks.contrastive`: batches of 16 and 256 of a global contrastive loss.

Two views of 800 digits through a network; the loss compares each of the 1,600 views with all
others. The plug-in minimises the loss inside of a batch (|B₂| inner samples) and SOX the global
one, both with Adam at equal samples; each has the step size, and SOX the γ, with the least global
loss at the end for one seed, and is shown for three others. Writes docs/coupled.md and
docs/images/contrastive.png.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import mvrc
from benchmarks import paths
from mvrc import losses
from mvrc.estimators import PlugIn, Sox

PAGE, MARK = paths.DOCS / "coupled.md", "<!-- contrastive -->"
FILE = paths.IMAGES / "contrastive.png"
OBJECTS, TEMPERATURE, EPOCHS = 800, 0.1, 40
BATCHES, RATES, GAMMAS = (16, 256), (3e-4, 1e-3, 3e-3, 1e-2), (0.1, 0.5)
CHOOSING, REPORTED = 100, (0, 1, 2)


def data() -> tuple[Any, ...]:
    """Two views, and rows and labels of other digits for training and test of a classifier."""
    pixels, digit = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(pixels))
    pixels, digit = (pixels[order] / 16).astype("f"), digit[order]
    noise = rng.standard_normal((2, OBJECTS, 64)).astype("f")
    views = pixels[:OBJECTS] + 0.3 * noise
    return views[0], views[1], pixels, digit


def embed(net: Any, row: Any) -> Any:
    return net(row)


def run(batch: int, weight: float | None, rate: float, seed: int) -> tuple[list[float], float, Any]:
    """The global loss at every epoch, what a classifier of five neighbours gets right, and x."""
    first, second, pixels, digit = data()
    problem = losses.contrastive(embed, first, second, TEMPERATURE, inner_batch=batch)
    estimator = PlugIn() if weight is None else Sox(mvrc.Power(weight), mvrc.Power(1.0), "first")
    steps = 2 * OBJECTS // batch
    falling = optax.cosine_decay_schedule(rate, EPOCHS * steps, 0.02)
    scheme = mvrc.OptaxScheme(optax.adam(falling))
    method = mvrc.Method(estimator, scheme, mvrc.Sizes(batch), period=steps)
    net = eqx.nn.MLP(64, 16, 128, 1, key=jax.random.key(seed))
    result = mvrc.minimize(problem, net, method, epochs=EPOCHS, seed=seed, record_every=4)
    z = np.array(jax.vmap(result.x)(pixels[OBJECTS:]))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    labels, half = digit[OBJECTS:], len(z) // 2
    near = KNeighborsClassifier(5).fit(z[:half], labels[:half])
    return list(result.history["objective"]), near.score(z[half:], labels[half:]), result.x


def inside(net: Any, batch: int) -> float:
    """The mean over batches of the loss inside of a batch, at a given network."""
    first, second, _, _ = data()
    z = np.array(jax.vmap(net)(jnp.concatenate([first, second])), np.float64)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    similar, n = z @ z.T / TEMPERATURE, len(z)
    rng, found = np.random.default_rng(0), []
    for _ in range(4000):
        k, *others = rng.choice(n, batch + 1, replace=False)
        partner = similar[k, (k + n // 2) % n]
        found.append(np.log(np.mean(np.exp(similar[k, others]))) - partner)
    return float(np.mean(found))


def main() -> None:
    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    lines = [
        "| | batch | global loss at the end | loss inside of batches there | right digits "
        "| step size |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    shown: dict[str, tuple[float | None, ...]] = {"plug-in": (None,), "SOX": GAMMAS}
    for name, weights in shown.items():
        for batch in BATCHES:
            tried = {
                (weight, rate): run(batch, weight, rate, CHOOSING)[0][-1]
                for weight in weights for rate in RATES
            }  # fmt: skip
            weight, rate = min(tried, key=lambda pair: np.nan_to_num(tried[pair], nan=np.inf))
            runs = [run(batch, weight, rate, seed) for seed in REPORTED]
            curve = np.mean([history for history, _, _ in runs], axis=0)
            style = {"color": "C3" if weight is None else "C0", "ls": "-" if batch > 16 else "--"}
            label = f"{name}, batches of {batch}"
            axis.plot(np.linspace(0, EPOCHS, len(curve)), curve, label=label, **style)
            end = np.mean([history[-1] for history, _, _ in runs])
            right = np.mean([share for _, share, _ in runs])
            biased = np.mean([inside(x, batch) for _, _, x in runs])
            words = name if weight is None else f"{name}, γ = {weight:g}"
            lines.append(
                f"| {words} | {batch} | {end:.3f} | {biased:.3f} | {100 * right:.1f} % | {rate:g} |"
            )
            print(lines[-1], flush=True)
    axis.set(xlabel="epochs (1,600 outer samples each)", ylabel="global contrastive loss")
    low = min(line.get_ydata()[-1] for line in axis.lines)
    axis.set_ylim(low - 0.1, low + 1.0)
    axis.legend(frameon=False)
    figure.savefig(FILE, dpi=150)
    before, _, after = PAGE.read_text(encoding="utf-8").split(MARK)
    table = "\n\n" + "\n".join(lines) + "\n\n"
    PAGE.write_text(before + MARK + table + MARK + after, encoding="utf-8")


if __name__ == "__main__":
    main()
