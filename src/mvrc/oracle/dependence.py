"""Dependence: which entries of a traced derivative depend on x, and on which entries of a tangent.

Told without numbers, operation by operation, so never wrong for a sample, but maybe too often yes:
what an unknown operation gives depends on all that it was given.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

# Entry by entry, so that what one entry of the output depends on is known.
_ENTRYWISE = {
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh",
    "cbrt", "ceil", "clamp", "convert_element_type", "copy", "copy_p", "cos", "cosh", "digamma",
    "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt",
    "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min",
    "mul", "ne", "neg", "nextafter", "not", "or", "pow", "reduce_precision", "rem", "round",
    "rsqrt", "select_n", "sign", "sin", "sinh", "sqrt", "square", "stop_gradient", "sub", "tan",
    "tanh", "xor",
}  # fmt: skip
_REDUCTIONS = {
    "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "argmax",
    "argmin",
}  # fmt: skip
_RUNNING = {"cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"}
_CALLS = {"jit", "pjit", "closed_call", "custom_jvp_call", "remat2", "checkpoint"}

_MOST = 2**26  # bytes of the marks of one array
_KNOWN = 2**16  # entries of an array whose numbers are followed, as of indices


class TooLargeError(Exception):
    """The marks would take more memory than they are worth."""


class Dependence(NamedTuple):
    """Of the rows of a derivative."""

    moving: np.ndarray  # which depend on x
    pattern: np.ndarray | None  # rows × entries of the tangent; None: not asked for
    backward_only: bool  # whether part of it is known only backwards


def dependence(closed: Any, tangents: bool) -> Dependence:
    """For a traced function (x, tangent, …) ↦ vector, linear in the tangent.

    Args:
        closed: its jaxpr.
        tangents: whether single entries of the tangent are told apart.
    """
    jaxpr = closed.jaxpr
    (rows,) = jaxpr.outvars[0].aval.shape
    width = 1 + (jaxpr.invars[1].aval.size if tangents else 0)
    follower = _Follower((width + 7) // 8)
    if closed.effects:
        return Dependence(np.ones(rows, bool), None, True)
    marks = [follower.nothing(v.aval.shape) for v in jaxpr.invars]
    marks[0] = marks[0].copy()
    marks[0][..., 0] |= 128  # the first bit: x
    if tangents:
        unit = np.eye(width - 1, width, 1, dtype=bool)  # the others: entries of the tangent
        marks[1] = np.packbits(unit, axis=1)
    found = follower.follow(jaxpr, marks, dict(zip(jaxpr.constvars, closed.consts, strict=True)))
    bits = np.unpackbits(found[0], axis=1, count=width).astype(bool)
    return Dependence(bits[:, 0], bits[:, 1:] if tangents else None, follower.backward_only)


def first_input(closed: Any, skipped: int, count: int) -> tuple[bool, str]:
    """Whether a traced function depends on some of its inputs, and where it reads beyond the end.

    Args:
        closed: its jaxpr.
        skipped, count: the inputs are `count` ones after the first `skipped`.
    """
    jaxpr, follower = closed.jaxpr, _Follower(1)
    marks = [follower.nothing(v.aval.shape) for v in jaxpr.invars]
    for i in range(skipped, skipped + count):
        marks[i] = ~marks[i]
    found = follower.follow(jaxpr, marks, dict(zip(jaxpr.constvars, closed.consts, strict=True)))
    return bool(closed.effects) or any(mark.any() for mark in found), follower.beyond


class _Follower:
    """Marks of all arrays of a jaxpr: for each entry, as bits in its last axis, its origins."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.backward_only = False
        self.beyond = ""  # an index out of bounds, in words

    def nothing(self, shape: tuple[int, ...]) -> np.ndarray:
        """No origins; takes no memory."""
        return np.broadcast_to(np.zeros(1, np.uint8), (*shape, self.width))

    def follow(
        self, jaxpr: Any, inputs: list[np.ndarray], numbers: dict[Any, Any]
    ) -> list[np.ndarray]:
        """The marks of the outputs. `numbers` has the arrays whose values are known."""
        marks = dict(zip(jaxpr.invars, inputs, strict=True))
        known = {v: a for v, a in numbers.items() if _concrete(a)}

        def marked(atom: Any) -> np.ndarray:
            found = None if isinstance(atom, core.Literal) else marks.get(atom)
            return self.nothing(atom.aval.shape) if found is None else found

        def value(atom: Any) -> Any:
            return atom.val if isinstance(atom, core.Literal) else known.get(atom)

        for equation in jaxpr.eqns:
            values = [value(atom) for atom in equation.invars]
            known.update(_evaluated(equation, values))
            found = self.through(equation, [marked(atom) for atom in equation.invars], values)
            marks.update(zip(equation.outvars, found, strict=True))
        return [marked(atom) for atom in jaxpr.outvars]

    def through(
        self, equation: Any, inputs: list[np.ndarray], values: list[Any]
    ) -> list[np.ndarray]:
        """The marks after one equation."""
        name, params = equation.primitive.name, equation.params
        shapes = [v.aval.shape for v in equation.outvars]
        if any(math.prod(shape) * self.width > _MOST for shape in shapes):
            raise TooLargeError
        if name == "custom_lin":  # stands for a derivative that is known only backwards
            self.backward_only = True
            return [~self.nothing(shape) for shape in shapes]
        if name in _CALLS:
            inside = params.get("jaxpr", params.get("call_jaxpr"))
            consts = getattr(inside, "consts", ())
            inside = getattr(inside, "jaxpr", inside)
            numbers = dict(zip(inside.constvars, consts, strict=True))
            numbers |= {v: a for v, a in zip(inside.invars, values, strict=True) if a is not None}
            return self.follow(inside, inputs, numbers)
        if name in ("gather", "dynamic_slice") and not self.beyond:
            self.beyond = _beyond(equation, values)
        if name == "split":
            ends = np.cumsum(params["sizes"])[:-1]
            return list(np.split(inputs[0], ends, axis=params["axis"]))
        if name == "unstack":
            return [np.moveaxis(inputs[0], params["axis"], 0)[i] for i in range(len(shapes))]
        if len(shapes) == 1:
            found = self._entrywise(name, inputs, shapes[0])
            if found is None:
                found = _reduced(name, params, inputs)
            if found is None:
                found = _moved(name, params, inputs, values, shapes[0])
            if found is not None:
                return [found]
        return [np.broadcast_to(_all(inputs, self.width), (*shape, self.width)) for shape in shapes]

    def _entrywise(
        self, name: str, inputs: list[np.ndarray], shape: tuple[int, ...]
    ) -> np.ndarray | None:
        if name not in _ENTRYWISE:
            return None
        total = self.nothing(shape)
        for mark in inputs:
            if not _is_nothing(mark):
                total = total | mark
        return np.broadcast_to(total, (*shape, self.width))


def _reduced(name: str, params: Any, inputs: list[np.ndarray]) -> np.ndarray | None:
    """Sums and products."""
    if name in _REDUCTIONS:
        return np.bitwise_or.reduce(inputs[0], axis=tuple(params["axes"]))
    if name in _RUNNING:
        axis, turn = params["axis"], np.flip if params["reverse"] else lambda a, axis: a
        return turn(np.bitwise_or.accumulate(turn(inputs[0], axis), axis=axis), axis)
    if name == "dot_general":
        (over_left, over_right), (with_left, with_right) = params["dimension_numbers"]
        left = _factor(inputs[0], over_left, with_left)
        right = _factor(inputs[1], over_right, with_right)
        batch, free = len(with_left), left.ndim - len(with_left) - 1
        left = left.reshape(*left.shape[:-1], *[1] * (right.ndim - batch - 1), left.shape[-1])
        right = right.reshape(*right.shape[:batch], *[1] * free, *right.shape[batch:])
        return left | right
    return None


def _factor(marks: np.ndarray, over: Any, along: Any) -> np.ndarray:
    """A factor of a product, summed; its axes: those along, the free ones, the bits."""
    summed = np.bitwise_or.reduce(marks, axis=tuple(over), keepdims=True)
    last = marks.ndim - 1
    free = [i for i in range(last) if i not in (*over, *along)]
    ordered = np.transpose(summed, (*along, *free, *over, last))
    return ordered.reshape(*ordered.shape[: len(along) + len(free)], marks.shape[-1])


def _moved(
    name: str, params: Any, inputs: list[np.ndarray], values: list[Any], shape: tuple[int, ...]
) -> np.ndarray | None:
    """Entries that only change their places."""
    first = inputs[0] if inputs else None
    if name == "concatenate":
        return np.concatenate(inputs, params["dimension"])
    if name == "stack":
        return np.stack(inputs, params["axis"])
    if first is None:
        return None
    if name in ("squeeze", "expand_dims", "reshape"):
        if params.get("dimensions") and name == "reshape":  # as of order="F"
            first = np.transpose(first, (*params["dimensions"], first.ndim - 1))
        return first.reshape(*shape, first.shape[-1])
    if name == "transpose":
        return np.transpose(first, (*params["permutation"], first.ndim - 1))
    if name == "rev":
        return np.flip(first, params["dimensions"])
    if name == "slice":
        steps = params["strides"] or (1,) * len(shape)
        limits = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
        return first[tuple(slice(*limit) for limit in limits)]
    if name == "broadcast_in_dim":
        places = dict(zip(params["broadcast_dimensions"], first.shape[:-1], strict=True))
        aligned = [places.get(i, 1) for i in range(len(shape))]
        return np.broadcast_to(first.reshape(*aligned, first.shape[-1]), (*shape, first.shape[-1]))
    if name == "dynamic_slice" and all(v is not None for v in values[1:]):
        sizes = params["slice_sizes"]
        starts = [
            int(np.clip(v, 0, whole - size))
            for v, whole, size in zip(values[1:], first.shape[:-1], sizes, strict=True)
        ]
        return first[tuple(slice(a, a + b) for a, b in zip(starts, sizes, strict=True))]
    if name == "gather" and values[1] is not None and first.size // first.shape[-1] <= _KNOWN:
        return _gathered(params, first, values[1], shape)
    return None


def _gathered(params: Any, marks: np.ndarray, chosen: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A gather at known places: made on the numbers of the entries. What is out of bounds is 0."""
    entries = np.arange(math.prod(marks.shape[:-1]), dtype=np.int32).reshape(marks.shape[:-1])
    params = {**params, "fill_value": -1}
    with jax.ensure_compile_time_eval():
        places = np.asarray(jax.lax.gather_p.bind(entries, np.asarray(chosen), **params))
    flat = marks.reshape(-1, marks.shape[-1])
    found = np.where(places.reshape(-1, 1) < 0, np.uint8(0), flat[places.reshape(-1)])
    return found.reshape(*shape, marks.shape[-1])


def _beyond(equation: Any, values: list[Any]) -> str:
    """An index out of bounds at which a gather or a dynamic slice starts, in words; "" for none."""
    params, shape = equation.params, equation.invars[0].aval.shape
    if any(value is None for value in values[1:]):
        return ""
    if equation.primitive.name == "gather":
        chosen = np.asarray(values[1])
        axes = params["dimension_numbers"].start_index_map
        starts = {axis: chosen[..., place] for place, axis in enumerate(axes)}
    else:
        starts = {axis: np.asarray(value) for axis, value in enumerate(values[1:])}
    for axis, start in starts.items():
        wrong = start[(start < 0) | (start > shape[axis] - params["slice_sizes"][axis])]
        if wrong.size:
            which = int(wrong.flat[0])
            index = which if which >= 0 else which - shape[axis]  # as it was written
            return f"index {index} of {shape[axis]}"
    return ""


def _all(inputs: list[np.ndarray], width: int) -> np.ndarray:
    """All origins of all entries."""
    total = np.zeros(width, np.uint8)
    for mark in inputs:
        if mark.size:
            total = total | np.bitwise_or.reduce(mark.reshape(-1, width), axis=0)
    return total


def _is_nothing(mark: np.ndarray) -> bool:
    """Whether it is what `nothing` gave: one byte, repeated without memory."""
    return not mark.size or not (any(mark.strides) or mark.flat[0])


def _concrete(a: Any) -> bool:
    return a is not None and not isinstance(a, jax.core.Tracer) and np.size(a) <= _KNOWN


def _evaluated(equation: Any, values: list[Any]) -> dict[Any, np.ndarray]:
    """Integers that an equation gives, where all that it takes is known."""
    if equation.primitive.name in _CALLS or equation.effects or any(v is None for v in values):
        return {}
    made = equation.outvars
    kinds = [getattr(v.aval.dtype, "kind", "key") for v in made]  # NumPy's, or a random key
    if not all(v.aval.size <= _KNOWN and k in "iub" for v, k in zip(made, kinds, strict=True)):
        return {}
    try:
        with jax.ensure_compile_time_eval():
            found = equation.primitive.bind(*map(np.asarray, values), **equation.params)
    except Exception:  # known numbers help, and nothing depends on them
        return {}
    found = found if equation.primitive.multiple_results else [found]
    return {v: np.asarray(a) for v, a in zip(made, found, strict=True)}
