"""Iterables of batches as endless sources."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import mvrc

D = 4
MEAN = np.arange(1.0, D + 1)


class Loader:
    """Batches of 100, 20 times, of a new random order every time."""

    def __init__(self, noise=1.0):
        self.noise, self.made = noise, 0

    def __iter__(self):
        for _ in range(20):
            self.made += 1
            rng = np.random.default_rng(self.made)
            yield {"a": MEAN + self.noise * rng.standard_normal((100, D))}


def problem(data):
    return mvrc.Composition(lambda x, s: x - s["a"], lambda y: jnp.sum(y**2), data)


ANCHORED = mvrc.MVRC(0.1, batch_size=8, refresh_size=500, period=20)


@pytest.mark.parametrize("method", [mvrc.STORM(period=200), ANCHORED, None])
def test_a_run_on_fresh_samples_finds_the_mean(method):
    data = mvrc.Batches(Loader(), evaluation=1000)
    result = mvrc.minimize(problem(data), np.zeros(D), method, epochs=8, seed=3)
    np.testing.assert_allclose(result.x, MEAN, atol=0.35)
    assert result.objective < 0.1 * result.history["objective"][0]
    assert data.taken > 1000


def test_samples_are_fresh_and_in_order_and_the_same_again():
    seen = iter([np.arange(0.0, 5), np.arange(5.0, 1000)])
    data = mvrc.Batches(seen, evaluation=3)
    keys = np.arange(8, dtype=np.uint32).reshape(4, 2)
    first = data.feed.answer(keys)
    np.testing.assert_array_equal(first, [3, 4, 5, 6])
    np.testing.assert_array_equal(data.feed.answer(keys[::-1]), first[::-1])
    np.testing.assert_array_equal(data.evaluation, [0, 1, 2])
    assert data.taken == 7


def test_a_data_loader_of_pytorch():
    torch = pytest.importorskip("torch")
    rows = torch.arange(600.0).reshape(200, 3)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=32)
    data = mvrc.Batches(loader, evaluation=(rows[:50],))
    assert data.spec()[0].shape == (3,)
    made = mvrc.Composition(lambda x, s: x - s[0], lambda y: jnp.sum(y**2), data)
    result = mvrc.minimize(made, np.zeros(3, np.float32), mvrc.STORM(period=9), epochs=2)
    assert np.isfinite(result.objective)


def test_refused():
    with pytest.raises(TypeError, match="batches must be an iterable"):
        mvrc.Batches(3)
    with pytest.raises(ValueError, match="batches gave no samples"):
        mvrc.Batches([])
    with pytest.raises(ValueError, match="evaluation has samples of"):
        mvrc.Batches(Loader(), evaluation=np.zeros((5, 2)))
    with pytest.raises(ValueError, match="sample 1 of the iterable: it has NaN"):
        mvrc.Batches([np.array([1.0, np.nan])], evaluation=2)
    few = mvrc.Batches(iter([np.zeros((150, 2))]), evaluation=100)
    made = mvrc.Composition(lambda x, s: x - s, lambda y: jnp.sum(y**2), few)
    with pytest.raises(ValueError, match="batches ended after"):
        mvrc.minimize(made, np.zeros(2), mvrc.STORM(period=200), epochs=2)
    with pytest.raises(TypeError, match="Batches"):
        mvrc.Composition(lambda x, s: x - s, jnp.sum, (np.zeros(2) for _ in range(3)))
