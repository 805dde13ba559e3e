"""The estimators of `mvrc.tracker` in plain PyTorch, for any `torch.optim` (extra `torch`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mvrc.support import checks, extras

try:
    import torch
except ImportError as error:
    raise extras.missing("mvrc.torch needs PyTorch", "torch") from error

NAMES = ("scgd", "scsc", "storm", "nasa")


class Tracker:
    """An estimate of ∇F, F = f(E g), that is carried from step to step in the `.grad` of a model.

        tracker = mvrc.torch.Tracker(model, inner, outer)
        for batch in loader:
            loss = tracker.backward(batch)      # sets .grad
            optimizer.step()

    `inner(call, batch)` gives g of every sample of a batch, of shape (samples, p), where `call`
    stands for the model: so it can be evaluated at earlier parameters as well. The rules are those
    of `mvrc.tracker`, and so are the numbers on equal batches. The state is in `state_dict`:
    without it a resumed run would forget the mean of g.

    Args:
        model: a `torch.nn.Module`.
        inner: `g(call, batch)`.
        outer: `f(y)`, a scalar, of a y of shape (p,).
        estimator: "scgd": an average of g; "scsc": one corrected for the move of the parameters;
            "storm": average and Jacobian, both corrected (it keeps p × d numbers); "nasa":
            averages of g and of the gradient.
        weight: of the new batch in the average.
        gradient_weight: that of the Jacobian or gradient; as `weight` when None.
    """

    @checks.explain_keywords
    def __init__(
        self,
        model: torch.nn.Module,
        inner: Callable[..., Any],
        outer: Callable[..., Any],
        estimator: str = "storm",
        weight: float = 0.1,
        gradient_weight: float | None = None,
    ) -> None:
        self.model, self.inner, self.outer = model, inner, outer
        self.estimator = checks.choice("estimator", estimator, NAMES)
        self.weight = checks.fraction("weight", weight)
        own = weight if gradient_weight is None else gradient_weight
        self.gradient_weight = checks.fraction("gradient_weight", own)
        self._names = [n for n, p in model.named_parameters() if p.requires_grad]
        self._state: dict[str, Any] | None = None

    def backward(self, batch: Any) -> torch.Tensor:
        """Set `.grad` of every parameter to the estimate; returns f at the tracked mean of g."""
        parameters = self._parameters()
        if self._state is None:
            state = self._first(batch, parameters)
        else:
            state = getattr(self, f"_{self.estimator}")(batch, parameters, self._state)
        state["point"] = [p.detach().clone() for p in parameters]
        self._state = state
        start = 0
        for p in parameters:
            p.grad = state["gradient"][start : start + p.numel()].view_as(p).clone()
            start += p.numel()
        with torch.no_grad():
            return self.outer(state["inner"])

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {} if self._state is None else dict(self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self._state = dict(state) or None

    def _parameters(self) -> list[torch.Tensor]:
        found = dict(self.model.named_parameters())
        return [found[name] for name in self._names]

    def _at(self, batch: Any, point: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """g of the batch at some parameters, and these as leaves."""
        leaves = [p.detach().clone().requires_grad_() for p in point]
        named = dict(zip(self._names, leaves, strict=True))

        def call(*args: Any, **kwargs: Any) -> Any:
            return torch.func.functional_call(self.model, named, args, kwargs)

        each = self.inner(call, batch)
        if each.ndim != 2:
            raise ValueError(
                f"inner(call, batch) returned shape {tuple(each.shape)}; it must be (samples, p)."
            )
        return each.mean(0), leaves

    def _pull(self, y: torch.Tensor, leaves: list[torch.Tensor], u: torch.Tensor) -> torch.Tensor:
        """g'ᵀu, flat."""
        parts = torch.autograd.grad(y, leaves, u, retain_graph=True, allow_unused=True)
        pairs = zip(parts, leaves, strict=True)
        return torch.cat([(torch.zeros_like(a) if g is None else g).reshape(-1) for g, a in pairs])

    def _jacobian(self, y: torch.Tensor, leaves: list[torch.Tensor]) -> torch.Tensor:
        """g', p × d."""
        return torch.stack([self._pull(y, leaves, e) for e in torch.eye(len(y), dtype=y.dtype)])

    def _slope(self, y: torch.Tensor) -> torch.Tensor:
        """∇f(y)."""
        y = y.detach().requires_grad_()
        return torch.autograd.grad(self.outer(y), y)[0]

    def _first(self, batch: Any, parameters: list[torch.Tensor]) -> dict[str, Any]:
        y, leaves = self._at(batch, parameters)
        state = {"inner": y.detach()}
        if self.estimator == "storm":
            state["jacobian"] = self._jacobian(y, leaves)
            state["gradient"] = self._slope(y) @ state["jacobian"]
        else:
            state["gradient"] = self._pull(y, leaves, self._slope(y))
        return state

    def _scgd(self, batch: Any, now: list[torch.Tensor], state: dict[str, Any]) -> dict[str, Any]:
        y, leaves = self._at(batch, now)
        inner = (1 - self.weight) * state["inner"] + self.weight * y.detach()
        return {"inner": inner, "gradient": self._pull(y, leaves, self._slope(inner))}

    def _scsc(self, batch: Any, now: list[torch.Tensor], state: dict[str, Any]) -> dict[str, Any]:
        y, leaves = self._at(batch, now)
        before = self._at(batch, state["point"])[0].detach()
        inner = y.detach() + (1 - self.weight) * (state["inner"] - before)
        return {"inner": inner, "gradient": self._pull(y, leaves, self._slope(inner))}

    def _storm(self, batch: Any, now: list[torch.Tensor], state: dict[str, Any]) -> dict[str, Any]:
        y, leaves = self._at(batch, now)
        before, old = self._at(batch, state["point"])
        inner = y.detach() + (1 - self.weight) * (state["inner"] - before.detach())
        change = self._jacobian(y, leaves)
        kept = state["jacobian"] - self._jacobian(before, old)
        jacobian = change + (1 - self.gradient_weight) * kept
        return {
            "inner": inner, "jacobian": jacobian, "gradient": self._slope(inner) @ jacobian
        }  # fmt: skip

    def _nasa(self, batch: Any, now: list[torch.Tensor], state: dict[str, Any]) -> dict[str, Any]:
        y, leaves = self._at(batch, now)
        sample = self._pull(y, leaves, self._slope(state["inner"]))
        first, last = self.weight, self.gradient_weight
        return {
            "inner": (1 - first) * state["inner"] + first * y.detach(),
            "gradient": (1 - last) * state["gradient"] + last * sample,
        }
