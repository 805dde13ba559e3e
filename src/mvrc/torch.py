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
        _hand_over(state["gradient"], parameters)
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

    def _at(
        self, batch: Any, point: list[torch.Tensor], mean: bool = True
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """g of the batch at some parameters (of each of its samples without a mean), and these as
        leaves."""
        leaves = [p.detach().clone().requires_grad_() for p in point]
        named = dict(zip(self._names, leaves, strict=True))

        def call(*args: Any, **kwargs: Any) -> Any:
            return torch.func.functional_call(self.model, named, args, kwargs)

        each = self.inner(call, batch)
        if each.ndim != 2:
            raise ValueError(
                f"inner(call, batch) returned shape {tuple(each.shape)}; it must be (samples, p)."
            )
        return (each.mean(0) if mean else each), leaves

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


class CoupledTracker:
    """The same for a coupled problem, (1/N) Σₖ fₖ(gₖ), with a mean uₖ for every outer sample k.

        tracker = mvrc.torch.CoupledTracker(model, inner, outer, count=N)
        loss = tracker.backward(batch)      # batch[0]: the numbers k

    `inner(call, batch)` gives gₖ of every k of the batch, of shape (k, p); `outer(y, batch)` gives
    fₖ(yₖ), of shape (k,). The rules are those of SOX and MSVR, the numbers those of
    `mvrc.tracker(…, coupled=True)` on equal batches.

    Args:
        model: a `torch.nn.Module`.
        inner, outer: the functions.
        count: N.
        estimator: "sox" or "msvr".
        weight: γ.
        gradient_weight: β; as `weight` when None.
    """

    @checks.explain_keywords
    def __init__(
        self,
        model: torch.nn.Module,
        inner: Callable[..., Any],
        outer: Callable[..., Any],
        count: int,
        estimator: str = "sox",
        weight: float = 0.1,
        gradient_weight: float | None = None,
    ) -> None:
        self.model, self.inner, self.outer = model, inner, outer
        self.count = checks.integer("count", count)
        self.estimator = checks.choice("estimator", estimator, ("sox", "msvr"))
        self.weight = checks.fraction("weight", weight)
        own = weight if gradient_weight is None else gradient_weight
        self.gradient_weight = checks.fraction("gradient_weight", own)
        self._parts = Tracker(model, lambda call, batch: inner(call, batch), outer)
        self._state: dict[str, Any] | None = None

    def backward(self, batch: Any) -> torch.Tensor:
        """Set `.grad` of every parameter to the estimate; returns the mean of fₖ(uₖ)."""
        k = torch.as_tensor(batch[0])
        now = self._parts._parameters()
        y, leaves = self._at(batch, now)
        state = self._state
        if state is None:
            table = torch.full((self.count, y.shape[1]), torch.inf, dtype=y.dtype)
            point = [p.detach().clone() for p in now]
            state = {"table": table, "gradient": None, "point": point}
        old = state["table"][k]
        value, known = y.detach(), ~torch.isposinf(old)
        moved = (1 - self.weight) * old + self.weight * value
        before, earlier = y, None
        if self.estimator == "msvr":
            before, earlier = self._at(batch, state["point"])
            rest, size = 1 - self.weight, len(k)
            share = (self.count - size) / (size * rest) + rest if size < self.count else rest
            moved = moved + share * (value - before.detach())
        u = torch.where(known, moved, value)
        gradient = self._pull(y, leaves, self._slopes(u, batch))
        if state["gradient"] is not None:
            kept = state["gradient"]
            if earlier is None:
                gradient = (1 - self.gradient_weight) * kept + self.gradient_weight * gradient
            else:
                at = torch.where(known, old, value)
                last = self._pull(before, earlier, self._slopes(at, batch))
                gradient = gradient + (1 - self.gradient_weight) * (kept - last)
        table = state["table"].clone() if self._state is None else state["table"]
        unique, place = torch.unique(k, return_inverse=True)
        total = torch.zeros(len(unique), u.shape[1], dtype=u.dtype).index_add_(0, place, u)
        table[unique] = total / torch.bincount(place)[:, None].to(u.dtype)
        point = [p.detach().clone() for p in now]
        self._state = {"table": table, "gradient": gradient, "point": point}
        _hand_over(gradient, now)
        with torch.no_grad():
            return self.outer(u, batch).mean()

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs: the table above all."""
        if self._state is None:
            return {}
        return {**self._state, "table": self._state["table"].clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self._state = {**state, "table": state["table"].clone()} if state else None

    def _at(self, batch: Any, point: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """gₖ of the batch at some parameters, and these as leaves."""
        return self._parts._at(batch, point, mean=False)

    def _pull(self, y: torch.Tensor, leaves: list[torch.Tensor], u: torch.Tensor) -> torch.Tensor:
        return self._parts._pull(y, leaves, u / len(y))

    def _slopes(self, y: torch.Tensor, batch: Any) -> torch.Tensor:
        """∇fₖ(yₖ)."""
        y = y.detach().requires_grad_()
        return torch.autograd.grad(self.outer(y, batch).sum(), y)[0]


def _hand_over(gradient: torch.Tensor, parameters: list[torch.Tensor]) -> None:
    """A flat gradient into `.grad` of each parameter."""
    parts = gradient.split([p.numel() for p in parameters])
    for p, part in zip(parameters, parts, strict=True):
        p.grad = part.view_as(p).clone()
