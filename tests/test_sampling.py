"""Where samples come from: what a batch may depend on, orders, pieces."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc.oracle import Oracle
from mvrc.sampling import ArraySource, Words, key_bits
from mvrc.sampling.draws import block_starts, in_order
from mvrc.sampling.streams import Drawn

DATA = {"a": np.arange(300.0).reshape(100, 3)}


def normal(key, size):
    return jax.random.normal(key, (size, 4))


def test_samples_of_a_stream_do_not_depend_on_pieces():
    """Sample i is a function of the key and of i alone."""
    whole = np.asarray(Drawn(normal, jax.random.key(3), 50).samples())
    longer = np.asarray(Drawn(normal, jax.random.key(3), 70).samples())
    np.testing.assert_array_equal(longer[:50], whole)
    batch = Drawn(normal, jax.random.key(3), 50)
    for start, length in ((0, 7), (7, 13), (20, 30)):
        piece = np.asarray(batch.piece(start, length))
        np.testing.assert_array_equal(piece, whole[start : start + length])
    assert len(np.unique(whole)) == whole.size


def test_values_and_jacobians_of_a_stream_are_of_the_same_samples():
    """Linear g with a Jacobian of the user's, p = d = 100: ⟨g_A(x), u⟩ = ⟨x, G_Aᵀu⟩."""
    d = 100
    stream = mvrc.Stream(lambda key, size: jax.random.normal(key, (size, d, d)))
    problem = mvrc.Composition(
        lambda x, s: s @ x, lambda y: jnp.sum(y**2), stream, inner_jacobian=lambda x, s: s
    )
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((2, d)).astype(np.float32)
    with problem.precision(x):
        geometry = problem.geometry(x)
        oracle = Oracle(problem.functions(geometry))
        batch = stream.refresh(key_bits(0), 512)
        assert geometry.inner_rows(True) < batch.size  # summed in pieces, of two lengths
        values, pull = oracle.values_and_pullback(jnp.asarray(x), batch)
        left, right = float(values @ u), float(x @ np.asarray(pull(jnp.asarray(u))))
    assert left == pytest.approx(right, rel=1e-4)


@pytest.mark.parametrize("sampling", ["replacement", "reshuffled"])
def test_draws_of_a_step_do_not_depend_on_how_many_steps_there_are(sampling):
    source = ArraySource(DATA, sampling)
    few, many = (source.tickets(Words(1), steps, 10) for steps in (4, 25))
    assert len(many) == 25
    np.testing.assert_array_equal(few, many[:4])


def test_draws_of_a_smaller_batch_are_the_first_of_a_larger_one():
    source = ArraySource(DATA, "replacement")
    tickets = [source.tickets(Words(1), 3, size) for size in (7, 12)]
    np.testing.assert_array_equal(tickets[1][:, :7], tickets[0])


def test_indices_are_uniform():
    """χ² with 99 degrees of freedom: 160 is beyond 4 standard deviations."""
    source = ArraySource(DATA, "replacement")
    seen = np.bincount(np.ravel(source.tickets(Words(5), 1000, 50)), minlength=100)
    assert ((seen - 500.0) ** 2 / 500).sum() < 160


def test_words_of_other_names_are_independent():
    """Correlations of 2¹⁶ numbers: 5/2⁸ is five standard deviations. Neighbours in every way."""
    names = [(0, 1, 0), (1, 1, 0), (0, 2, 0), (0, 1, 1), (1, 0, 0), (0, 0, 1)]
    drawn = [Words(*name).uniform(256, 256).astype(float) for name in names]
    drawn += [drawn[0].T, np.roll(drawn[0], 1, 0), np.roll(drawn[0], 1, 1)]
    together = np.corrcoef(np.stack([a.ravel() for a in drawn]))
    assert np.abs(together - np.eye(len(drawn))).max() < 5 / 256
    assert abs(drawn[0].mean() - 0.5) < 5 * 12**-0.5 / 256


@pytest.mark.parametrize(("size", "count"), [(3, 51), (3, 50), (1, 4097), (7, 9), (40, 41)])
def test_a_pass_of_blocks_has_each_once(size, count):
    blocks = count // size
    starts = block_starts(Words(3), 3 * blocks + 1, size, count)
    passes = [starts[i * blocks : (i + 1) * blocks] for i in range(3)]
    for own in passes:
        rows = (own[:, None] + np.arange(size)) % count
        assert len(np.unique(rows)) == blocks * size
    if blocks > 10:
        assert not np.array_equal(passes[0], passes[1])


def test_orders_of_blocks_are_uniform():
    """χ² of 20 × 19 ordered pairs, as below."""
    pairs = np.array([block_starts(Words(seed), 2, 1, 20) for seed in range(8000)])
    seen = np.bincount(20 * pairs[:, 0] + pairs[:, 1], minlength=400).reshape(20, 20)
    assert np.trace(seen) == 0
    expected = len(pairs) / 380
    assert ((seen[~np.eye(20, dtype=bool)] - expected) ** 2 / expected).sum() < 500


@pytest.mark.parametrize("count", [1, 2, 3, 17, 1000, 4097])
def test_an_order_of_blocks_has_each_once(count):
    found = np.asarray(in_order(jax.random.key(1), np.arange(count), count))
    np.testing.assert_array_equal(np.sort(found), np.arange(count))


def test_blocks_of_many_are_uniform_and_different():
    """χ² of 20 × 19 ordered pairs, 379 degrees of freedom: 500 is beyond 4 standard deviations."""
    draw = jax.jit(jax.vmap(lambda key: in_order(key, jnp.arange(2), 20)))
    first, second = np.asarray(draw(jax.random.split(jax.random.key(0), 40_000))).T
    seen = np.bincount(20 * first + second, minlength=400).reshape(20, 20)
    assert np.trace(seen) == 0
    expected = 40_000 / 380
    assert ((seen[~np.eye(20, dtype=bool)] - expected) ** 2 / expected).sum() < 500


def test_blocks_do_not_overlap_where_a_sum_of_two_rows_exceeds_32_bits():
    """On the circle of rows all starts are whole blocks apart, over the seam plus the rest of 4."""
    count, size = 1_500_000_001, 7
    starts = block_starts(Words(0), 1000, size, count).astype(np.int64)
    assert starts.min() >= 0
    assert starts.max() < count
    apart = (starts - starts[0]) % count % size
    assert set(apart) <= {0, count % size}
    assert len(set(starts)) == 1000
