"""The tracker in PyTorch: the numbers of JAX's on the same batches, and a state that is kept."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import mvrc

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from mvrc.torch import NAMES, CoupledTracker, Tracker  # noqa: E402

ROWS = np.random.default_rng(0).standard_normal((400, 4)).astype("f")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.first = torch.nn.Parameter(torch.randn(6, 3, generator=generator) / 2)
        self.last = torch.nn.Parameter(torch.randn(6, generator=generator) / 2)

    def forward(self, rows):
        return torch.tanh(rows[:, :3] @ self.first.T) @ self.last


def torch_inner(call, rows):
    residual = call(rows) - rows[:, 3]
    return torch.stack([residual, residual**2], 1)


def torch_outer(y):
    return torch.log(1 + y[1]) - 0.5 * y[0] ** 2


def jax_inner(x, row):
    residual = jnp.tanh(x["first"] @ row[:3]) @ x["last"] - row[3]
    return jnp.stack([residual, residual**2])


def jax_outer(y):
    return jnp.log(1 + y[1]) - 0.5 * y[0] ** 2


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_are_those_of_jax(name):
    net = Net()
    own = Tracker(net, torch_inner, torch_outer, name, weight=0.2)
    other = mvrc.tracker(jax_inner, jax_outer, name, weight=0.2)
    step = torch.optim.SGD(net.parameters(), lr=0.1)
    state = None
    for t in range(8):
        rows = ROWS[16 * t : 16 * t + 16]
        x = {k: jnp.asarray(v.detach().numpy()) for k, v in net.named_parameters()}
        if state is None:
            state = other.init(x, rows)
            want = None
        else:
            want, state = other.update(state, x, rows)
        value = own.backward(torch.from_numpy(rows))
        if want is not None:
            for k, p in net.named_parameters():
                assert np.allclose(p.grad.numpy(), want[k], rtol=1e-5, atol=1e-6)
        assert np.allclose(value.item(), jax_outer(state.inner), rtol=1e-5)
        step.step()


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_is_the_same_run(name, tmp_path):
    def run(net, own, step, turns):
        for t in turns:
            own.backward(torch.from_numpy(ROWS[16 * t : 16 * t + 16]))
            step.step()

    def new():
        net = Net()
        return net, Tracker(net, torch_inner, torch_outer, name), torch.optim.Adam(net.parameters())

    straight = new()
    run(*straight, range(10))
    half = new()
    run(*half, range(5))
    torch.save([part.state_dict() for part in half], tmp_path / "run.pt")
    again = new()
    for part, kept in zip(again, torch.load(tmp_path / "run.pt"), strict=True):
        part.load_state_dict(kept)
    run(*again, range(5, 10))
    for a, b in zip(straight[0].parameters(), again[0].parameters(), strict=True):
        assert torch.equal(a, b)


def test_mistakes_are_told():
    with pytest.raises(ValueError, match="did you mean 'storm'"):
        Tracker(Net(), torch_inner, torch_outer, "strom")
    with pytest.raises(ValueError, match=r"must be \(samples, p\)"):
        Tracker(Net(), lambda call, rows: call(rows), torch_outer).backward(torch.zeros(3, 4))


@pytest.mark.parametrize("name", ["sox", "msvr"])
def test_coupled_numbers_are_those_of_jax(name):
    """Also where a k is drawn twice, and after a resume."""
    net = Net()

    def torch_coupled(call, batch):
        _, outside, inside = batch
        gap = call(inside)[None, :] - call(outside)[:, None]
        return torch.stack([gap, torch.nn.functional.softplus(gap)], 2).mean(1)

    def torch_last(y, batch):
        return torch.log1p(y[:, 1]) + 0.1 * batch[1][:, 3] * y[:, 0] ** 2

    def score(x, row):
        return jnp.tanh(x["first"] @ row[:3]) @ x["last"]

    def jax_coupled(x, k, sample):
        gap = score(x, sample) - score(x, k)
        return jnp.stack([gap, jnp.logaddexp(gap, 0.0)])

    def jax_last(y, k):
        return jnp.log1p(y[1]) + 0.1 * k[3] * y[0] ** 2

    make = lambda: CoupledTracker(net, torch_coupled, torch_last, 30, name, 0.3, 0.2)  # noqa: E731
    own = make()
    other = mvrc.tracker(
        jax_coupled, jax_last, name, weight=0.3, gradient_weight=0.2, coupled=True, count=30
    )
    step = torch.optim.SGD(net.parameters(), lr=0.1)
    rng, state = np.random.default_rng(0), None
    for t in range(8):
        k = rng.integers(0, 30, 6) if t % 2 else rng.choice(30, 6, replace=False)
        batch = k, ROWS[k], ROWS[rng.integers(30, 400, 8)]
        x = {n: jnp.asarray(v.detach().numpy()) for n, v in net.named_parameters()}
        state = other.init(x, batch) if state is None else state
        want, state = other.update(state, x, batch)
        value = own.backward([torch.from_numpy(np.asarray(a)) for a in batch])
        assert torch.isfinite(value)
        for n, p in net.named_parameters():
            np.testing.assert_allclose(p.grad.numpy(), want[n], rtol=2e-4, atol=1e-6)
        step.step()
        if t == 4:
            saved, own = own.state_dict(), make()
            own.load_state_dict(saved)
