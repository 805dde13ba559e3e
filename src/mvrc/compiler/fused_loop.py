"""The fused loop: small steps as one compiled function on one thread, for the CPU.

XLA's CPU runtime makes a task of every operation and hands tasks from thread to thread, which costs
steps of a few microseconds more than their arithmetic. XLA has another way, for small loops: a call
with the mark below becomes one function of machine code. What that way cannot do is refused here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend import core

from mvrc.compiler import rows
from mvrc.support import tricks

# Releases with which tests/test_compiler.py passes; the mark is private, and may mean something
# else in any other.
TESTED = ("0.8.2", "0.8.3", "0.9.0", "0.9.0.1", "0.12.0", "0.12.0.1")

_MARK = {"xla_cpu_small_call": "true", "inlineable": "false"}
_PLAIN = {"xla_cpu_small_call": "false", "inlineable": "true"}

_LARGE = 2**16  # numbers of an array that is not copied

MOST = 2**20  # bytes of samples of a step; with more, tasks cost little and may share the cores

_NUMBERS = {
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh",
    "bitcast_convert_type", "cbrt", "ceil", "clamp", "convert_element_type", "copy", "copy_p",
    "cos", "cosh", "div", "eq", "erf", "erf_inv", "exp", "exp2", "expm1", "floor", "ge", "gt",
    "integer_pow", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne",
    "neg", "not", "or", "pow", "rem", "round", "rsqrt", "select_n", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square",
    "stop_gradient", "sub", "tan", "tanh", "xor",
}  # fmt: skip
_SHAPES = {
    "broadcast_in_dim", "concatenate", "dynamic_slice", "dynamic_update_slice", "expand_dims",
    "gather", "iota", "pad", "reshape", "rev", "slice", "split", "squeeze", "stack", "transpose",
    "unstack",
}  # fmt: skip
_SUMS = {
    "argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod",
    "reduce_sum",
}  # fmt: skip
_DRAWS = {
    "random_bits", "random_fold_in", "random_split", "random_unwrap", "random_wrap", "threefry2x32",
}  # fmt: skip
_CALLS = {
    "closed_call", "cond", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "jit", "pjit",
    "scan", "while",
}  # fmt: skip
_ALLOWED = _NUMBERS | _SHAPES | _SUMS | _DRAWS | _CALLS


def available() -> bool:
    """Whether programs are for the CPU, by a release that was tested, and MVRC_FUSED_LOOP is on."""
    if jax.default_backend() != "cpu" or not tricks.on("fused_loop"):
        return False
    return jaxlib.__version__ in TESTED


def plain_scan(
    step: Callable[[Any, Any], tuple[Any, None]], carry: Any, inputs: Any, length: Any
) -> tuple[Any, None]:
    """`jax.lax.scan` without outputs, over the first inputs; how many of them may be traced."""

    def one(t: Any, carry: Any) -> Any:
        return step(carry, jax.tree_util.tree_map(lambda a: _at(a, t), inputs))[0]

    return jax.lax.fori_loop(0, length, one, carry), None


def _at(a: Any, t: Any) -> Any:
    return jax.lax.dynamic_index_in_dim(a, t, keepdims=False)


def scan(
    step: Callable[[Any, Any], tuple[Any, None]], carry: Any, inputs: Any, length: Any
) -> tuple[Any, None]:
    """The same; one function if all operations of a step are known here."""
    first = jax.tree_util.tree_map(lambda a: a[0], inputs)
    with rows.one_by_one() as tables:
        trace = jax.make_jaxpr(lambda *a: step(*a)[0], return_shape=True)
        closed, shape = trace(carry, first)
    structure = jax.tree_util.tree_structure(shape)
    traced = _steps(closed, structure)
    length = jnp.asarray(length, jnp.int32)
    arrays = jax.tree_util.tree_leaves((closed.consts, carry, inputs))
    # XLA does without an array that has no numbers, and then without the argument: see `_used`.
    if not (_fits(closed.jaxpr) and all(a.size for a in arrays)):
        if tables:
            return plain_scan(step, carry, inputs, length)
        return traced(closed.consts, None, carry, inputs, length), None
    always = _truth(arrays)
    consts = [c if _is_data(c) else _hidden(c, always) for c in closed.consts]
    hidden, inputs = jax.tree_util.tree_map(lambda a: _hidden(a, always), (carry, inputs))
    found, used = _marked(traced)(consts, always, hidden, inputs, _hidden(length, always))
    # A truth that needs every argument is part of the answer, or XLA would do without it.
    leaves, tree = jax.tree_util.tree_flatten(found)
    least = min(range(len(leaves)), key=lambda i: leaves[i].size)
    leaves[least] = _where(used, leaves[least], jax.tree_util.tree_leaves(carry)[least])
    return jax.tree_util.tree_unflatten(tree, leaves), None


def _steps(closed: Any, structure: Any) -> Callable[..., Any]:
    """All steps; with a truth that XLA does not know each stands in a branch that is taken on it:
    XLA shares operations outside of branches among threads, and the function has one."""

    def steps(consts: Any, always: Any, carry: Any, inputs: Any, length: Any) -> Any:
        traced = core.jaxpr_as_fun(core.ClosedJaxpr(closed.jaxpr, consts))

        def one(carry: Any, given: Any) -> tuple[Any, None]:
            def go() -> Any:
                leaves = traced(*jax.tree_util.tree_leaves((carry, given)))
                return jax.tree_util.tree_unflatten(structure, leaves)

            return go() if always is None else jax.lax.cond(always, go, lambda: carry), None

        return plain_scan(one, carry, inputs, length)[0]

    return steps


def _truth(arrays: list[Any]) -> Any:
    """True, from a number that XLA does not know."""
    return _used(arrays[:1])


def _where(flag: Any, a: Any, b: Any) -> Any:
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        data = jnp.where(flag, jax.random.key_data(a), jax.random.key_data(b))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(a))
    return jnp.where(flag, a, b)


def _marked(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as a call with the mark, which the operations inside do not bear.

    It may not close over arrays: all that it is given has to be in sight of `_used`.
    """

    def steps(consts: Any, always: Any, *rest: Any) -> Any:
        with set_xla_metadata(**_PLAIN):
            # Before the first step, which may then write where it has read.
            used = _used((consts, always, *rest))
            return function(consts, always & used, *rest), used

    def run(*args: Any) -> Any:
        with set_xla_metadata(**_MARK):
            return jax.jit(steps)(*args)

    return run


def _hidden(a: Any, always: Any) -> Any:
    """The same array, of which XLA cannot know that it is a constant.

    It would write a constant into the function, and not need the argument then: see `_used`.
    """
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        data = _hidden(jax.random.key_data(a), always)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(a))
    if a.size > _LARGE:  # its first number alone, in place: a table need not be copied
        one = jax.lax.slice(a, (0,) * a.ndim, (1,) * a.ndim)
        hidden = jnp.where(always, one, jnp.zeros_like(one))
        return jax.lax.dynamic_update_slice(a, hidden, (0,) * a.ndim)
    return jnp.where(always, a, jnp.zeros_like(a))


def _is_data(a: Any) -> bool:
    """Whether an array that a step closes over is so large that it must be the samples.

    They are arguments of the whole program, so no constants, and are not copied.
    """
    return isinstance(a, jax.core.Tracer) and a.size > _LARGE


def _used(args: Any) -> Any:
    """A truth that needs a number of every array.

    XLA aborts the process over such a function with an argument that it found to be of no use, as
    one that is only multiplied by zero. This way every argument is of use.
    """
    count = jnp.int32(0)
    for a in jax.tree_util.tree_leaves(args):
        a = jax.random.key_data(a) if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a
        count += (a[(0,) * a.ndim] != 0).astype(jnp.int32)
    return count >= 0


def _fits(jaxpr: Any) -> bool:
    """Whether all operations are such that one function can hold them."""
    return all(_known(equation) for equation in jaxpr.eqns) and not jaxpr.effects


def _known(equation: Any) -> bool:
    name = equation.primitive.name
    if name == "dot_general":
        return not _multiplies_matrices(equation)
    params = jax.tree_util.tree_leaves(list(equation.params.values()), is_leaf=_is_jaxpr)
    inside = [p for p in params if _is_jaxpr(p)]
    return name in _ALLOWED and all(_fits(getattr(p, "jaxpr", p)) for p in inside)


def _is_jaxpr(value: Any) -> bool:
    return isinstance(value, core.Jaxpr | core.ClosedJaxpr)


def _multiplies_matrices(equation: Any) -> bool:
    """Whether both factors of a product are matrices, which XLA has faster ways for."""
    (over, along) = equation.params["dimension_numbers"]
    shapes = [atom.aval.shape for atom in equation.invars]
    summed = math.prod(shapes[0][i] for i in over[0])
    rows = [
        math.prod(n for i, n in enumerate(shape) if i not in (*summed_over, *aligned))
        for shape, summed_over, aligned in zip(shapes, over, along, strict=True)
    ]
    return min(*rows, summed) > 1
