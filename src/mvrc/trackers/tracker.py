"""The estimators of `minimize` as pure functions, for any training loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from mvrc.estimators import Ema, Estimator, Nasa, Scsc, Spider, Storm, chosen
from mvrc.oracle import Functions, Geometry, Oracle
from mvrc.problem import inputs
from mvrc.problem.shapes import geometry_of
from mvrc.regularizers import Zero
from mvrc.schedules import Power
from mvrc.support import calls, checks
from mvrc.trackers.coupled import coupled_tracker
from mvrc.trackers.given import Given
from mvrc.trackers.multilevel import Multilevel

Weight = float | Power


@checks.explain_keywords
def tracker(
    inner: Callable[..., Any],
    outer: Callable[..., Any],
    estimator: str | Estimator = "storm",
    *,
    weight: Weight = 0.1,
    gradient_weight: Weight | None = None,
    jacobian: str = "auto",
    bound: float | None = None,
    base: int = 8,
    levels: int = 5,
    micro_batch: int | None = None,
    axis_name: Any = None,
    coupled: bool = False,
    count: int | None = None,
    shared: bool = True,
) -> Any:
    """An estimate of ∇F, F(x) = f(E g(x)), that is carried from step to step on small batches.

        tracker = mvrc.tracker(inner, outer)
        state = tracker.init(x, batch)
        gradient, state = tracker.update(state, x, batch)   # in a loop, under jit

    The naive gradient of a batch, g'_A(x)ᵀ∇f(g_A(x)), is biased unless f is affine: with batches of
    16 it does not find the minimum. Functions are those of `Composition`, for one sample; `outer`
    may take a second argument, a sample of a mean outside, and batches are then pairs `(inner,
    outer)`.

    Args:
        inner: `g(x, sample)`, an array or pytree.
        outer: `f(y)`, or `f(y, sample)`.
        estimator: a name, or an estimator of `mvrc.estimators` that needs no table. "scgd": an
            average of g; "scsc": one that is corrected for the move of x; "storm": average and
            Jacobian, both corrected; "smvr": STORM at each level; "nasa": averages of g and of the
            gradient; "spider": differences from a `refresh`; "multilevel": nothing is carried, and
            batches have random sizes (Blanchet & Glynn).
        weight: of the new sample in the average, β or a; a `Power` may let it fall.
        gradient_weight: that of the Jacobian and the gradient ("storm", "smvr", "nasa"); as
            `weight` when None.
        jacobian: of "storm", "smvr" and "spider": keep g' as a "matrix", or its product with ∇f
            only, "free"; "auto" takes the matrix unless it is large. "free" is unbiased only with
            a `second` batch.
        bound: radius of SMVR's projection.
        base, levels: of "multilevel": samples of the smallest batch, and doublings of it.
        micro_batch: samples that are evaluated at a time, to save memory; the estimate is that of
            the whole batch.
        axis_name: of devices (`pmap`, `shard_map`, `vmap`) among which every batch is shared out
            equally; estimates are means over all.
        coupled: whether there is an inner mean for every outer sample, as in `Coupled`: functions
            are `g(x, outer_sample, sample)` and `f(y, outer_sample)`, batches `(indices, outer
            samples, inner samples)`, estimators "sox" (`weight` is γ, `gradient_weight` β), "msvr"
            and "bsgd"; a `CoupledTracker`.
        count: of a coupled problem the number of outer samples, N.
        shared: of a coupled problem whether the inner samples of a batch have one leading axis and
            are those of all its outer samples, or two, and are those of each.

    Examples:
        >>> tracker = mvrc.tracker(problem.inner, problem.outer, "scgd", weight=0.5)
        >>> state = tracker.init(x0, returns[:50])
        >>> gradient, state = tracker.update(state, x0 + 0.1, returns[50:100])
        >>> gradient.shape
        (3,)
    """
    if checks.boolean("coupled", coupled):
        if estimator == "storm":
            estimator = "sox"  # the default
        return coupled_tracker(inner, outer, estimator, weight, gradient_weight, count, shared)
    if count is not None or not shared:
        raise ValueError("count and shared are for coupled=True; leave them out.")
    calls.check_function("inner(x, sample)", inner)
    if not callable(outer):
        raise TypeError(f"outer must be a function f(y) or f(y, sample), not {outer!r}.")
    if micro_batch is not None:
        checks.integer("micro_batch", micro_batch)
    own: Any = estimator
    if isinstance(estimator, str):
        own = _named(estimator, weight, gradient_weight, jacobian, bound, base, levels)
    elif not isinstance(estimator, Estimator):
        raise TypeError(f"estimator must be one of {NAMES} or an Estimator, not {estimator!r}.")
    if own.keeps_table:
        raise ValueError(
            f"estimator {type(own).__name__} keeps a row for every sample, and a loop's batches "
            f"do not number theirs; it may be one of {NAMES}."
        )
    return Tracker(inner, outer, own, _arguments(outer) > 1, micro_batch, axis_name)


NAMES = ("scgd", "scsc", "storm", "smvr", "nasa", "spider", "multilevel")


class Tracker(eqx.Module):
    """What `mvrc.tracker` returns; all its functions are pure. States are pytrees of arrays.

    Examples:
        >>> tracker = mvrc.tracker(problem.inner, problem.outer, "storm")
        >>> state = tracker.init(x0, returns)  # of all samples, so the estimate is exact
        >>> gradient, state = tracker.update(state, x0, returns)
        >>> np.allclose(gradient, -returns.mean(axis=0), atol=1e-5)
        True
    """

    inner: Callable[..., Any] = eqx.field(static=True)
    outer: Callable[..., Any] = eqx.field(static=True)
    estimator: Any
    two_level: bool = eqx.field(static=True)
    micro_batch: int | None = eqx.field(static=True)
    axis_name: Any = eqx.field(static=True)

    def init(self, x: Any, batch: Any, *, second: Any = None) -> Any:
        """The state at x, from a first batch; the larger, the better the start."""
        return self._with(x, batch, second, lambda own, oracle, at: own.refresh(oracle, at))[1]

    def update(self, state: Any, x: Any, batch: Any, *, second: Any = None) -> tuple[Any, Any]:
        """The estimate of ∇F(x), in the structure of x, and the next state.

        Args:
            state: that of the previous point.
            x: the parameters; of an equinox model the inexact arrays are its numbers.
            batch: samples along a leading axis; `(inner, outer)` with a mean outside.
            second: another inner batch, independent of the first, for the Jacobian.
        """
        step = lambda own, oracle, at: own.update(oracle, state, at)  # noqa: E731
        return self._with(x, batch, second, step)

    def refresh(self, state: Any, x: Any, batch: Any, *, second: Any = None) -> tuple[Any, Any]:
        """Estimate and state from a large batch alone, as SPIDER asks for now and then."""
        del state  # what was known is replaced
        return self._with(x, batch, second, lambda own, oracle, at: own.refresh(oracle, at))

    def surrogate(
        self, state: Any, x: Any, batch: Any, *, second: Any = None, has_aux: bool = False
    ) -> Any:
        """A scalar whose gradient in x is the estimate, for loops that want a loss.

        Its value is f at the tracked mean of g. With `has_aux` the next state comes with it, as
        `jax.value_and_grad(…, has_aux=True)` wants it.
        """
        numbers, rest = eqx.partition(x, eqx.is_inexact_array)
        held = jax.tree_util.tree_map(jax.lax.stop_gradient, numbers)
        gradient, new = self.update(state, eqx.combine(held, rest), batch, second=second)
        value = self._value(new, eqx.combine(held, rest), batch)
        moves = jax.tree_util.tree_map(
            lambda v, a, b: jnp.sum(v * (a - b)), gradient, numbers, held
        )
        scalar = value + sum(jax.tree_util.tree_leaves(moves))
        return (scalar, new) if has_aux else scalar

    def _value(self, state: Any, x: Any, batch: Any) -> Any:
        """f at the tracked mean of g."""
        functions, _, _ = self._functions(x, batch)
        outside = self._batches(batch, None)["outer"]
        return Oracle(functions).outer_value(state.inner, outside)

    def _with(self, x: Any, batch: Any, second: Any, step: Any) -> tuple[Any, Any]:
        """Gradient and state after a step of the estimator."""
        functions, geometry, numbers = self._functions(x, batch)
        own = self.estimator
        if isinstance(own, Estimator):
            own, _ = chosen(own, geometry)
        oracle = Oracle(functions, self._batches(batch, second))
        state = step(own, oracle, geometry.x.flatten(numbers))
        return geometry.x.unflatten(own.gradient(state)), state

    def _functions(self, x: Any, batch: Any) -> tuple[Functions, Geometry, Any]:
        numbers, rest = eqx.partition(x, eqx.is_inexact_array)
        if not jax.tree_util.tree_leaves(numbers):
            raise TypeError("x has no floating-point arrays; give the parameters as arrays.")
        inner = self.inner
        if jax.tree_util.tree_leaves(rest):
            inner = inputs.OfModel(inner, rest)
        inside, outside = self._parts(batch)
        Given("batch", inside)  # refuses what has no leading axis
        sample = None if outside is None else _one(outside)
        geometry = geometry_of(inner, self.outer, None, numbers, _one(inside), sample)
        return Functions(inner, self.outer, None, Zero(), geometry), geometry, numbers

    def _batches(self, batch: Any, second: Any) -> dict[str, Any]:
        inside, outside = self._parts(batch)
        given = lambda name, rows: (  # noqa: E731
            None if rows is None else Given(name, rows, self.axis_name, self.micro_batch)
        )
        return {
            "values": given("batch", inside),
            "jacobians": given("second", second),
            "outer": given("the outer batch", outside),
        }

    def _parts(self, batch: Any) -> tuple[Any, Any]:
        """The inner batch, and with a mean outside the outer one."""
        if not self.two_level:
            return batch, None
        if not isinstance(batch, tuple) or len(batch) != 2:
            raise TypeError(
                "batch must be a pair (inner, outer), as outer takes a sample as well, not "
                f"{checks.shown(batch)}."
            )
        return batch


def _named(
    name: str, weight: Weight, gradient_weight: Weight | None, jacobian: str, bound: float | None,
    base: int, levels: int,
) -> Any:  # fmt: skip
    """The estimator of a name."""
    checks.choice("estimator", name, NAMES)
    inner = _power("weight", weight)
    last = None if gradient_weight is None else _power("gradient_weight", gradient_weight)
    if bound is not None:
        bound = checks.positive("bound", bound)
    if name == "scgd":
        return Ema(inner)
    if name == "scsc":
        return Scsc(inner)
    if name == "nasa":
        for own in (inner, last):
            if own is not None and own.exponent != 0:
                raise ValueError("weight and gradient_weight of 'nasa' must be plain numbers.")
        return Nasa(Power(1.0), (last or inner).scale, inner.scale)
    if name == "spider":
        return Spider(jacobian)
    if name == "multilevel":
        return Multilevel(base, levels)
    recursion = "levels" if name == "smvr" else "composed"
    return Storm(inner, last, last, jacobian, recursion, bound)


def _power(name: str, weight: Weight) -> Power:
    if isinstance(weight, Power):
        return weight
    number = checks.fraction(name, weight)
    return Power(checks.positive(name, number))


def _one(batch: Any) -> Any:
    """Shapes of one sample."""
    return jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), batch)


def _arguments(outer: Callable[..., Any]) -> int:
    """How many arguments f needs."""
    try:
        parameters = inspect.signature(outer).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in parameters)
