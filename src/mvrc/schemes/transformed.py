"""Steps of an Optax optimiser, on any estimate."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from mvrc.oracle import Geometry, Layout, Vector
from mvrc.regularizers import Regularizer, Zero
from mvrc.schemes.base import Penalty, PlainScheme
from mvrc.support import checks


class OptaxState(NamedTuple):
    """The iterate and what the optimiser keeps."""

    x: Vector
    optimizer: Any  # its own state, of x in its own tree


class OptaxScheme(PlainScheme):
    """u, s⁺ = optimizer.update(v, s, x);  x⁺ = prox_{λr}(x + u).

    The optimiser sees x and v in x's own tree, so masks and rules for each layer hold. A prox after
    the update keeps x in a constraint set. With a penalty and an optimiser that scales coordinates
    (Adam), the points where this stops are not the stationary points of f∘g + r, as the prox does
    not know the scaling: use the penalty of the optimiser (`optax.adamw`), or smooth it.

    Args:
        optimizer: of Optax, such as `optax.adamw(1e-3)`.
        step_size: λ of the prox, needed where there is a regulariser; it is also the λ at which
            gradient mappings are measured, 1 when None.

    Examples:
        >>> import optax
        >>> from mvrc.estimators import Ema
        >>> adam = mvrc.OptaxScheme(optax.adam(0.05))
        >>> method = mvrc.Method(Ema(mvrc.Power(0.1)), adam, mvrc.Sizes(20))
        >>> mvrc.minimize(problem, x0, method, epochs=20).objective < -0.05
        True
    """

    optimizer: Any = eqx.field(static=True)
    step_size: float
    layout: Layout | None = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(self, optimizer: Any, step_size: float | None = None) -> None:
        if not is_optimizer(optimizer):
            raise TypeError(
                f"optimizer must be one of Optax, such as optax.adam(1e-3), not "
                f"{checks.shown(optimizer)}."
            )
        self.optimizer = optimizer
        self.step_size = 0.0 if step_size is None else checks.positive("step_size", step_size)
        self.layout = None

    def fitted(self, geometry: Geometry, regularizer: Regularizer) -> OptaxScheme:
        if not self.step_size and not isinstance(regularizer, Zero):
            raise ValueError(
                f"step_size of OptaxScheme is needed with the regularizer "
                f"{type(regularizer).__name__}: the λ of the prox after each update, for instance "
                f"the learning rate."
            )
        own = OptaxScheme(self.optimizer, self.step_size or 1.0)
        object.__setattr__(own, "layout", geometry.x)
        return own

    def init(self, x: Vector) -> OptaxState:
        assert self.layout is not None
        return OptaxState(x, self.optimizer.init(self.layout.unflatten(jnp.asarray(x))))

    def query(self, state: OptaxState) -> Vector:
        return state.x

    def advance(self, state: OptaxState, v: Vector, penalty: Penalty) -> OptaxState:
        assert self.layout is not None
        x, gradient = self.layout.unflatten(state.x), self.layout.unflatten(v)
        updates, kept = self.optimizer.update(gradient, state.optimizer, x)
        kept = jax.tree_util.tree_map(_as_before, kept, state.optimizer)
        moved = state.x + self.layout.flatten(updates)
        return OptaxState(penalty.prox(moved, self.step_size), kept)

    def restarts(self) -> tuple[str, int]:
        return "never", 1

    def point(self, state: OptaxState) -> Vector:
        return state.x


def is_optimizer(given: Any) -> bool:
    """Whether it is a gradient transformation, told by what it can do."""
    return isinstance(given, tuple) and all(
        callable(getattr(given, name, None)) for name in ("init", "update")
    )


def _as_before(new: Any, old: Any) -> Any:
    """In the dtype that it had: a loop's state must not change its type."""
    return jnp.asarray(new).astype(jnp.asarray(old).dtype)
