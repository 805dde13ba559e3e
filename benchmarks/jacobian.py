"""The Jacobian as a matrix against matrix-free, over p·d: where "auto" should switch."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

import mvrc
from benchmarks.row import Row

SIZES = ((2, 30), (8, 30), (32, 32), (8, 512), (128, 128))
STEPS, EPOCHS = 51, 6


def rows() -> Iterator[Row]:
    """g(x, a) = tanh(W(a∘x)), 2,000 rows, batch 64; the best epoch of each form."""
    rng = np.random.default_rng(0)
    for p, d in SIZES:
        data = rng.standard_normal((2_000, d)) / d**0.5
        mix = rng.standard_normal((p, d)) / d**0.5
        problem = mvrc.Composition(
            lambda x, a, mix=mix: jnp.tanh(mix @ (a * x)), lambda y: jnp.sum(y**2) - y[0], data
        )
        step = {form: _step(problem, d, form) for form in ("matrix", "free")}
        yield Row(
            f"p·d = {p} × {d} = {p * d:,}: matrix / matrix-free",
            step["matrix"] / step["free"], "x",
            note=f"a step {step['matrix']:.1f} µs and {step['free']:.1f} µs",
        )  # fmt: skip


def _step(problem: mvrc.Composition, d: int, form: str) -> float:
    method = mvrc.MVRC(step_size=1e-3, batch_size=64, period=STEPS, jacobian=form)
    result = mvrc.minimize(problem, np.zeros(d), method, epochs=EPOCHS)
    return 1e6 * float(np.diff(result.history["seconds"])[1:].min()) / STEPS
