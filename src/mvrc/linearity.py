"""Linearity: which rows of g'(x) do not depend on x, read off the traced derivative of g.

Such a row is gone from every difference g'(new) − g'(old), and need not be evaluated for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

# Entry by entry, so that what one entry of the output depends on is known.
_ENTRYWISE = {"add", "add_any", "sub", "mul", "div", "neg", "convert_element_type", "copy"}
_CALLS = {"jit", "pjit", "closed_call"}


def curved(function: Callable[..., Any], x: Any, sample: Any) -> np.ndarray:
    """Which entries of the vector function(x, sample) have a derivative by x that depends on x.

    Told without numbers, so never wrong for a sample, but maybe too often yes: as for a function
    that has no forward mode.
    """

    def tangent(x: Any, along: Any, sample: Any) -> Any:
        return jax.jvp(lambda x: function(x, sample), (x,), (along,))[1]

    try:
        closed = jax.make_jaxpr(tangent)(x, x, sample)
    except TypeError:
        closed = None
    if closed is None or closed.effects:
        return np.ones(jax.eval_shape(function, x, sample).shape, bool)
    inputs = [np.zeros(v.aval.shape, bool) for v in closed.jaxpr.invars]
    inputs[0] = ~inputs[0]
    return _follow(closed.jaxpr, inputs)[0]


def _follow(jaxpr: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Which entries of each output depend on the marked entries of the inputs."""
    marks = dict(zip(jaxpr.invars, inputs, strict=True))

    def marked(atom: Any) -> np.ndarray:
        known = None if isinstance(atom, core.Literal) else marks.get(atom)
        return np.zeros(atom.aval.shape, bool) if known is None else known

    for equation in jaxpr.eqns:
        found = _through(equation, [marked(atom) for atom in equation.invars])
        marks.update(zip(equation.outvars, found, strict=True))
    return [marked(atom) for atom in jaxpr.outvars]


def _through(equation: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The same for one equation."""
    name, params = equation.primitive.name, equation.params
    shapes = [v.aval.shape for v in equation.outvars]
    if name in _CALLS:
        return _follow(params.get("jaxpr", params.get("call_jaxpr")).jaxpr, inputs)
    if name == "concatenate":
        return [np.concatenate(inputs, params["dimension"])]
    if name == "stack":
        return [np.stack(inputs, params["axis"])]
    # A reshape with dimensions, as of order="F", changes the order of the entries.
    if name == "squeeze" or (name == "reshape" and params.get("dimensions") is None):
        return [inputs[0].reshape(shapes[0])]
    if name == "broadcast_in_dim":
        places = dict(zip(params["broadcast_dimensions"], inputs[0].shape, strict=True))
        aligned = inputs[0].reshape([places.get(i, 1) for i in range(len(shapes[0]))])
        return [np.broadcast_to(aligned, shapes[0])]
    if name in _ENTRYWISE:
        return [np.broadcast_to(np.any(np.broadcast_arrays(*inputs), axis=0), shapes[0])]
    # custom_lin stands for a derivative that is known only backwards.
    everything = name == "custom_lin" or any(mark.any() for mark in inputs)
    return [np.full(shape, everything) for shape in shapes]
