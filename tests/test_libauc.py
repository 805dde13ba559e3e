"""Coupled estimates against LibAUC's losses, which hide the same averages: u and gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
auc = pytest.importorskip("libauc.losses.auc", reason="pip install --no-deps libauc")
contrastive = pytest.importorskip("libauc.losses.contrastive")

N, D, GAMMA = 60, 5, 0.4
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((N, D))


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    with jax.enable_x64(True):
        yield
    torch.set_default_dtype(torch.float32)


def test_average_precision():
    labels = (RNG.uniform(size=N) < 0.3).astype(int)
    loss = auc.APLoss(data_len=N, gamma=GAMMA, margin=0.7)

    def inner(w, k, sample):
        row, positive = sample
        surrogate = jnp.maximum(0.7 + jnp.tanh(row @ w) - jnp.tanh(k @ w), 0) ** 2
        return jnp.stack([positive * surrogate, surrogate])

    tracker = mvrc.tracker(
        inner, lambda y, k: -y[0] / y[1], "sox", weight=GAMMA, gradient_weight=1.0, coupled=True,
        count=N,
    )  # fmt: skip
    w = torch.tensor(RNG.standard_normal(D), requires_grad=True)
    state = None
    for _ in range(12):
        chosen = RNG.choice(N, 20, replace=False)
        positive = chosen[labels[chosen] == 1]
        score = torch.tanh(torch.from_numpy(ROWS[chosen]) @ w)
        w.grad = None
        loss(score, torch.from_numpy(labels[chosen]), torch.from_numpy(chosen)).backward()
        at = jnp.asarray(w.detach().numpy())
        batch = positive, ROWS[positive], (ROWS[chosen], labels[chosen].astype(float))
        if state is None:  # theirs begins at 0, not at the first value
            state = tracker.init(at, batch)
            state = state._replace(table=jnp.zeros_like(state.table))
        gradient, state = tracker.update(state, at, batch)
        np.testing.assert_allclose(gradient, w.grad.numpy(), rtol=1e-6)
        theirs = torch.cat([loss.u_pos, loss.u_all], 1).numpy()
        np.testing.assert_allclose(state.table, theirs, rtol=1e-6)
        with torch.no_grad():
            w -= 0.05 * w.grad


def test_contrastive():
    """Each object is drawn twice, by both of its views, and its u keeps the mean of both."""
    other = ROWS + 0.1 * RNG.standard_normal(ROWS.shape)
    temperature, size = 0.3, 12
    loss = contrastive.GCLoss_v1(N=N, tau=temperature, gamma=GAMMA)

    def unit(w, row):
        z = w @ row
        return z / jnp.linalg.norm(z)

    def inner(w, k, sample):
        own, partner = k
        similar = jnp.exp(unit(w, own) @ unit(w, sample) / temperature)
        return jnp.stack([similar, unit(w, own) @ unit(w, partner)])

    tracker = mvrc.tracker(
        inner, lambda y, k: temperature * jnp.log(y[0]) - y[1], "sox", weight=GAMMA,
        gradient_weight=1.0, coupled=True, count=N, shared=False,
    )  # fmt: skip
    w = torch.tensor(RNG.standard_normal((4, D)), requires_grad=True)
    order, state = RNG.permutation(N), None
    for t in range(12):
        # First every object once, as theirs takes a batch of new objects for the first.
        chosen = order[size * t :][:size] if t < 5 else RNG.choice(N, size, replace=False)
        first, second = ROWS[chosen], other[chosen]
        w.grad = None
        views = [torch.from_numpy(a) @ w.T for a in (first, second)]
        loss(*views, torch.from_numpy(chosen)).backward()
        at = jnp.asarray(w.detach().numpy())
        own = np.concatenate([first, second])
        partner = np.concatenate([second, first])
        numbers = np.arange(2 * size)
        rest = np.stack([own[(numbers % size) != i % size] for i in numbers])
        batch = np.concatenate([chosen, chosen]), (own, partner), rest
        state = tracker.init(at, batch) if state is None else state
        gradient, state = tracker.update(state, at, batch)
        # Theirs is the sum over both views of the means over objects.
        np.testing.assert_allclose(2 * gradient, w.grad.numpy(), rtol=1e-6, atol=1e-9)
        known = np.isfinite(np.asarray(state.table)[:, 0])
        np.testing.assert_allclose(
            np.asarray(state.table)[known, 0], loss.u.numpy()[known, 0], rtol=1e-6
        )
        with torch.no_grad():
            w -= 0.05 * w.grad
