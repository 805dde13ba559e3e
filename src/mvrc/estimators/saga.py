"""SAGA: a table of the last point of every sample (Zhang & Xiao, C-SAGA, 2019)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from mvrc.estimators.base import Estimator, three_batches
from mvrc.estimators.tables import one_of_each, put, read
from mvrc.oracle import Oracle, Vector
from mvrc.sampling import Batch
from mvrc.support import checks

TABLES = ("full", "points")


class SagaState(NamedTuple):
    """The tables with their running means, and the estimate at the last query point."""

    values: Vector  # gⱼ(αⱼ), n × p; or the points αⱼ themselves, n × d
    jacobians: Vector | None  # gⱼ'(αⱼ), n × rows × d; None when points are kept
    mean_value: Vector  # Y = mean gⱼ(αⱼ)
    mean_jacobian: Float[Array, "rows d"]  # Z = mean gⱼ'(αⱼ)
    outer: Vector | None  # ∇fⱼ(βⱼ), N × p; None for one outer function
    mean_outer: Vector | None  # W = mean ∇fⱼ(βⱼ)
    gradient: Vector  # zᵀw


class Saga(Estimator):
    """With a table of last points αⱼ, Y = mean gⱼ(αⱼ) and Z = mean gⱼ'(αⱼ), for a batch S:

        y = Y + mean_S(gⱼ(x) − gⱼ(αⱼ)),   z = Z + mean_S(gⱼ'(x) − gⱼ'(αⱼ)),
        estimate zᵀ∇f(y),   then αⱼ ← x for j ∈ S,

    and Y, Z change by (1/n)Σ over the distinct indices of S. With a mean outside too there is a
    table of last y: w = W + mean_B(∇fⱼ(y) − ∇fⱼ(βⱼ)), estimate zᵀw. The first table is one full
    pass at x₀.

    Args:
        table: "full" keeps gⱼ(αⱼ) and gⱼ'(αⱼ), n·(p + p·d) numbers; "points" keeps αⱼ, n·d numbers,
            and evaluates the old points again at every step.
        anew: whether every epoch starts with a new table, as a run after a restart does.
    """

    keeps_table: ClassVar[bool] = True

    table: str = eqx.field(static=True, default="full")
    anew: bool = eqx.field(static=True, default=False)

    @property
    def refreshes(self) -> bool:  # type: ignore[override]
        return self.anew

    def __check_init__(self) -> None:
        checks.choice("table", self.table, TABLES)

    def roles(self, two_level: bool) -> tuple[str, ...]:
        return ("values", "outer") if two_level else ("values",)

    def refresh(self, oracle: Oracle, point: Vector) -> SagaState:
        a, _, b = three_batches(oracle)
        outer = None
        if self.table == "full":
            values, jacobians = oracle.each(point, a)
            mean_value, mean_jacobian = jnp.mean(values, 0), jnp.mean(jacobians, 0)
        else:
            values, jacobians = jnp.broadcast_to(point, (a.size, point.size)), None
            mean_value, mean_jacobian = oracle.values_and_jacobian(point, a)
        if b is not None:
            outer = oracle.each_outer(mean_value, b)
            mean_outer = jnp.mean(outer, 0)
        else:
            mean_outer = oracle.outer_gradient(mean_value, None)
        gradient = oracle.pull(mean_jacobian, mean_outer)
        return SagaState(
            values, jacobians, mean_value, mean_jacobian, outer,
            None if b is None else mean_outer, gradient,
        )  # fmt: skip

    def update(self, oracle: Oracle, state: SagaState, point: Vector) -> SagaState:
        a, _, b = three_batches(oracle)
        chosen = a.indices()
        new_value, new_jacobian = oracle.each(point, a)
        old_value, old_jacobian = self._old(oracle, state, a, chosen)
        change_value, change_jacobian = new_value - old_value, new_jacobian - old_jacobian
        y = state.mean_value + jnp.mean(change_value, 0)
        z = state.mean_jacobian + jnp.mean(change_jacobian, 0)

        once = one_of_each(chosen, len(state.values)) / len(state.values)
        state = state._replace(
            values=put(state.values, chosen, new_value if self.table == "full" else point),
            mean_value=state.mean_value + jnp.tensordot(once, change_value, 1),
            mean_jacobian=state.mean_jacobian + jnp.tensordot(once, change_jacobian, 1),
        )
        if state.jacobians is not None:
            state = state._replace(jacobians=put(state.jacobians, chosen, new_jacobian))
        if b is None:
            return state._replace(gradient=oracle.pull(z, oracle.outer_gradient(y, None)))
        assert state.outer is not None and state.mean_outer is not None
        picked = b.indices()
        new_outer = oracle.each_outer(y, b)
        change = new_outer - read(state.outer, picked)
        w = state.mean_outer + jnp.mean(change, 0)
        once = one_of_each(picked, len(state.outer)) / len(state.outer)
        return state._replace(
            outer=put(state.outer, picked, new_outer),
            mean_outer=state.mean_outer + once @ change,
            gradient=oracle.pull(z, w),
        )

    def gradient(self, state: SagaState) -> Vector:
        return state.gradient

    def _old(self, oracle: Oracle, state: SagaState, a: Batch, chosen: Any) -> tuple[Any, Any]:
        """gⱼ(αⱼ) and gⱼ'(αⱼ) of the batch, read or evaluated again."""
        if state.jacobians is not None:
            rows = read(state.jacobians, chosen).reshape(-1, *state.mean_jacobian.shape)
            return read(state.values, chosen), rows
        return oracle.each_at(read(state.values, chosen), a)
