"""The estimators of coupled problems as pure functions, for any training loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from mvrc.estimators import Msvr, PlugIn, Sox
from mvrc.oracle import Geometry, Layout, Oracle
from mvrc.oracle.coupled import CoupledFunctions, Coupling, only
from mvrc.oracle.structure import dense
from mvrc.problem import inputs
from mvrc.regularizers import Zero
from mvrc.sampling import Batch, Inside, Pair
from mvrc.schedules import Power
from mvrc.support import calls, checks

COUPLED = ("sox", "msvr", "bsgd")


class CoupledTracker(eqx.Module):
    """What `mvrc.tracker(…, coupled=True)` returns; all its functions are pure.

    A batch is `(indices, outer samples, inner samples)`: numbers k from 0 to count − 1, their rows,
    and inner samples that all of them share, along one leading axis, or with two leading axes those
    of each k.
    """

    inner: Callable[..., Any] = eqx.field(static=True)
    outer: Callable[..., Any] = eqx.field(static=True)
    estimator: Any
    count: int = eqx.field(static=True)
    shared: bool = eqx.field(static=True)

    def init(self, x: Any, batch: Any) -> Any:
        """The state at x: no k is known before its first batch."""
        oracle, geometry, numbers, _ = self._oracle(x, batch)
        blank = Oracle(oracle.functions, {"values": _Blank(self.count)})
        return self.estimator.refresh(blank, geometry.x.flatten(numbers))

    def update(self, state: Any, x: Any, batch: Any) -> tuple[Any, Any]:
        """The estimate of ∇F(x), in the structure of x, and the next state."""
        oracle, geometry, numbers, _ = self._oracle(x, batch)
        new = self.estimator.update(oracle, state, geometry.x.flatten(numbers))
        return geometry.x.unflatten(self.estimator.gradient(new)), new

    def surrogate(self, state: Any, x: Any, batch: Any, *, has_aux: bool = False) -> Any:
        """A scalar whose gradient in x is the estimate; its value is the mean of fₖ(uₖ)."""
        numbers, rest = eqx.partition(x, eqx.is_inexact_array)
        held = jax.tree_util.tree_map(jax.lax.stop_gradient, numbers)
        oracle, geometry, _, pair = self._oracle(eqx.combine(held, rest), batch)
        gradient, new = self.update(state, eqx.combine(held, rest), batch)
        functions: Any = oracle.functions
        if hasattr(new, "table"):
            u = jnp.asarray(new.table)[batch[0]]
        else:
            u = functions.means(geometry.x.flatten(held), pair)
        each = functions.coupling.outers(jax.vmap(functions.inside.unflatten)(u), pair)
        moves = jax.tree_util.tree_map(
            lambda v, a, b: jnp.sum(v * (a - b)), gradient, numbers, held
        )
        scalar = jnp.mean(each) + sum(jax.tree_util.tree_leaves(moves))
        return (scalar, new) if has_aux else scalar

    def _oracle(self, x: Any, batch: Any) -> tuple[Oracle, Geometry, Any, Pair]:
        numbers, rest = eqx.partition(x, eqx.is_inexact_array)
        if not isinstance(batch, tuple | list) or len(batch) != 3:
            raise TypeError(
                f"batch must be (indices, outer samples, inner samples), not {checks.shown(batch)}."
            )
        indices, outside, inside = batch
        sizes = {jnp.shape(a)[:1] for a in jax.tree_util.tree_leaves((indices, outside))}
        if sizes != {jnp.shape(indices)} or jnp.ndim(indices) != 1:
            raise ValueError(
                f"indices has shape {jnp.shape(indices)} and the outer samples "
                f"{[jnp.shape(a) for a in jax.tree_util.tree_leaves(outside)]}; all must have one "
                f"leading axis, of the outer samples."
            )
        inner = self.inner
        if jax.tree_util.tree_leaves(rest):
            inner = inputs.OfModel(inner, rest)
        layout = Layout.of(numbers)
        axes = 1 if self.shared else 2
        row, sample = _spec(outside, 1), _spec(inside, axes)
        call = "inner(x, outer_sample, sample)"
        y = calls.shape_of(call, inner, _spec(numbers, 0), row, sample)
        inputs.check_inner(y)
        inputs.check_outer(calls.shape_of("outer(y, outer_sample)", self.outer, y, row))
        geometry = Geometry(
            x=layout,
            y=Layout.of(jax.ShapeDtypeStruct((1,), layout.dtype)),
            inner_sample=1,
            outer_sample=0,
            jacobian=dense(1, layout.size),
            inside=Layout.of(y, layout.dtype),
        )
        coupling = _HandedCoupling(inner, self.outer, _Handed(inside, self.shared), outside)
        functions = CoupledFunctions(coupling, only, None, Zero(), geometry)
        pair = Pair(jnp.asarray(indices, jnp.int32))
        return Oracle(functions, {"values": _HandedBatch(pair)}), geometry, numbers, pair


def coupled_tracker(
    inner: Any, outer: Any, estimator: Any, weight: Any, gradient_weight: Any, count: Any,
    shared: bool,
) -> CoupledTracker:  # fmt: skip
    """The tracker of a name, with checked arguments."""
    calls.check_function("inner(x, outer_sample, sample)", inner)
    calls.check_function("outer(y, outer_sample)", outer)
    checks.choice("estimator", estimator, COUPLED)
    if count is None:
        raise ValueError("count is required with coupled=True: how many outer samples there are.")
    number = checks.integer("count", count)
    last = weight if gradient_weight is None else gradient_weight
    own: Any = PlugIn()
    if estimator == "sox":
        own = Sox(_power(weight), _power(last), "first")
    elif estimator == "msvr":
        for one in (weight, last):
            if isinstance(one, Power) or not 0 < float(one) < 1:
                raise ValueError(
                    "weight and gradient_weight of 'msvr' must be numbers between 0 and 1."
                )
        own = Msvr(float(weight), float(last), True, "first")
    return CoupledTracker(inner, outer, own, number, shared)


def _power(weight: Any) -> Power:
    return weight if isinstance(weight, Power) else Power(checks.positive("weight", weight))


def _spec(tree: Any, axes: int) -> Any:
    return jax.tree_util.tree_map(
        lambda a: jax.ShapeDtypeStruct(jnp.shape(a)[axes:], jnp.result_type(a)), tree
    )


class _Handed(Inside):
    """Inner samples of the batch at hand."""

    rows: Any
    shared: bool = eqx.field(static=True)

    def pairs(self, N: int) -> int:
        return N * self.most()

    def most(self) -> int:
        return jax.tree_util.tree_leaves(self.rows)[0].shape[0 if self.shared else 1]

    def each(self, size: int) -> int:
        return size

    def draw(self, key: Any, start: Any, k: Any, size: int) -> Any:
        raise AssertionError("the loop draws")

    def spec(self, row: Any) -> Any:
        return _spec(self.rows, 1 if self.shared else 2)

    def fingerprint(self) -> Any:
        raise AssertionError("the loop knows")

    def means(self, g: Any, outer_rows: Any, pair: Pair, most: int) -> Any:
        over = jax.vmap(jax.vmap(g, (None, 0)), (0, None if self.shared else 0))
        values = over(outer_rows, self.rows)
        return jax.tree_util.tree_map(lambda a: jnp.mean(a, axis=1), values)


class _HandedCoupling(Coupling):
    """Of the batch at hand, whose outer rows come with it."""

    source: Any
    outside: Any

    def __init__(self, inner: Any, outer: Any, inside: _Handed, outside: Any) -> None:
        self.inner, self.outer, self.outside = inner, outer, outside
        self.source = _Only(inside)

    def _rows(self, pair: Pair) -> Any:
        return self.outside


class _Only(eqx.Module):
    """What a coupling asks of its source."""

    inside: _Handed


class _HandedBatch(Batch):
    """The pairs of a batch that the user hands over."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.size = pair, len(pair.k)

    def piece(self, start: Any, length: int) -> Any:
        return self.pair

    def indices(self) -> Any:
        return self.pair.k


class _Blank(Batch):
    """As large as the table."""

    def __init__(self, size: int) -> None:
        self.size = size

    def piece(self, start: Any, length: int) -> Any:
        raise AssertionError("nothing is evaluated")
