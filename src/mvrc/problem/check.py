"""problem.check(x): derivatives against central finite differences, in words."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.support import checks

_DIRECTIONS = 64  # coordinates of x and of y that are tried
_SAMPLES = 3


@dataclasses.dataclass(frozen=True)
class Check:
    """The report of `Composition.check`: `ok`, and a sentence for each comparison."""

    ok: bool
    sentences: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return "\n".join((f"derivatives {'agree' if self.ok else 'DISAGREE'}:", *self.sentences))


def check(problem: Any, x: Any, seed: int = 0) -> Check:
    """Compare the inner Jacobian (autodiff's, or the user's own) and the outer gradient.

    Entries are compared on a few random samples and at most 64 random coordinates. A central
    difference with step h = ε^{1/3}·max(1, |x|) is right to about ε^{2/3} of the function's size;
    the tolerance is 100 times that.
    """
    checks.integer("seed", seed, least=0)
    problem, x, _ = problem.in_numbers(x, "x")
    x = problem.start(x, "x")
    with problem.precision(x):
        geometry = problem.geometry(x)
        functions = problem.functions(geometry)
        rng = np.random.default_rng(seed)
        flat = geometry.x.flatten(x)
        which = "your inner_jacobian" if problem.inner_jacobian else "autodiff of inner"
        parts = []
        written = problem.inner_jacobian is not None
        slope = functions.written_jacobian if written else jax.jacrev(functions.value)
        inner, inner_slope = jax.jit(functions.value), jax.jit(slope)
        samples = _some(problem.inner_source, rng)
        for number, sample in samples:
            where = f"{which}, sample {number}"
            at = functools.partial(inner, sample=sample)
            parts.append(_compare(where, at, flat, inner_slope(flat, sample), rng))
        y = np.mean([inner(flat, sample) for _, sample in samples], axis=0)

        def value(y: Any, sample: Any) -> Any:
            tree = geometry.y.unflatten(y)
            result = problem.outer(tree) if sample is None else problem.outer(tree, sample)
            return jnp.atleast_1d(result)

        outer, outer_slope = jax.jit(value), jax.jit(jax.jacrev(value))
        outside: list[Any] = [(None, None)]
        if problem.two_level:
            outside = _some(problem.outer_source, rng)
        for number, sample in outside:
            where = "autodiff of outer" + ("" if number is None else f", sample {number}")
            at = functools.partial(outer, sample=sample)
            parts.append(_compare(where, at, y, outer_slope(y, sample), rng))
    return Check(all(ok for ok, _ in parts), tuple(sentence for _, sentence in parts))


def _some(source: Any, rng: np.random.Generator) -> list[tuple[int, Any]]:
    """A few random samples with their numbers."""
    size = source.everything().size
    numbers = rng.choice(size, min(_SAMPLES, size), replace=False)
    found = source.numbered(numbers)
    one = lambda k: jax.tree_util.tree_map(lambda a: a[k], found)  # noqa: E731
    return [(int(i), one(k)) for k, i in enumerate(numbers)]


def _compare(
    where: str, function: Any, point: Any, exact: Any, rng: np.random.Generator
) -> tuple[bool, str]:
    """Columns of the exact Jacobian against central differences of the function."""
    eps = float(np.finfo(point.dtype).eps)
    columns = rng.permutation(point.size)[:_DIRECTIONS]
    point, exact = np.asarray(point), np.asarray(exact)
    worst, at, scale = -1.0, (0, 0, 0.0, 0.0), 1.0
    value = np.asarray(function(point))
    for j in columns:
        h = eps ** (1 / 3) * max(1.0, abs(float(point[j])))
        above, below = point.copy(), point.copy()
        above[j] += h
        below[j] -= h
        width = float(above[j]) - float(below[j])
        numeric = (np.asarray(function(above), float) - np.asarray(function(below), float)) / width
        bad = ~np.isfinite(exact[:, j]) | ~np.isfinite(numeric)
        if bad.any():
            k = int(np.argmax(bad))
            return False, (
                f"{where}: entry ({k}, {j}) is not finite: derivative {exact[k, j]}, finite "
                f"difference {numeric[k]}; x may lie on a kink or outside the domain."
            )
        scale = max(scale, float(np.abs(numeric).max()), float(np.abs(value).max()))
        error = np.abs(exact[:, j] - numeric)
        k = int(np.argmax(error))
        if error[k] > worst:
            worst, at = float(error[k]), (k, int(j), float(exact[k, j]), float(numeric[k]))
    tolerance = 100 * eps ** (2 / 3) * scale
    k, j, derivative, difference = at
    if worst <= tolerance:
        return True, f"{where}: largest difference {worst:.1e} (tolerance {tolerance:.1e})."
    return False, (
        f"{where}: entry ({k}, {j}) is {derivative:.6g} but the finite difference is "
        f"{difference:.6g} (tolerance {tolerance:.1e}); the derivative is wrong, or x lies on a "
        f"kink."
    )
