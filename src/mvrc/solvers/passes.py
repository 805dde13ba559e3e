"""Full passes over the samples as compiled programs, and what they evaluate, counted."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.compiler import quick
from mvrc.oracle import Counts, Geometry, Oracle, Vector, curvature
from mvrc.problem import Composition
from mvrc.support import cache
from mvrc.support.partition import Signature, Static, combine, partition, signature

SIZES = 4096  # samples from which E|g| is taken, spread over all
TOLD = 64  # samples from which noise is told


class Evaluation(NamedTuple):
    """F at a point, with what the curvature there needs."""

    value: float  # F
    gradient: np.ndarray  # ∇F
    scale: float  # E|fₖ| + |∇f|ᵀE|g|: the size of the terms that are added up in F
    inner: np.ndarray  # y = g(x)
    outer: np.ndarray  # ∇f(y)


class CurvatureSample(NamedTuple):
    """The samples of a measurement of ∇²F: `first` pieces of `rows` of them, later up to `most`."""

    rows: int
    first: int
    most: int


class Curvature(NamedTuple):
    """H = A + B with A = Jᵀ∇²f J and B = Σ ∂f·E∇²g."""

    matrix: np.ndarray  # H
    diagonal: np.ndarray  # |Aᵢᵢ| + |Bᵢᵢ|: |Hᵢᵢ| alone is rounding where A and B cancel


class Noise(NamedTuple):
    """Of a few samples, their mean taken off; inner and outer samples are paired."""

    values: np.ndarray  # ⟨∇f, gᵢ⟩ + fₖ
    slopes: np.ndarray  # the same of ∇F: gᵢ'ᵀ∇f + Jᵀ(∇²f gᵢ + ∇fₖ), a row per sample


class Passes:
    """Exact evaluations of F = f∘g and of its curvature at flat points; float64 outside.

    Args:
        problem: a composition of finite sums.
        geometry: layouts of its x and y.
    """

    def __init__(self, problem: Composition, geometry: Geometry) -> None:
        inside, outside = problem.inner_source.count, problem.outer_source
        last = 1 if outside is None else outside.count
        assert inside is not None and last is not None
        self.n, self.N, self.d = int(inside), int(last), geometry.x.size
        self._inner, self._outer = map(int, problem.evaluations)
        self.problem, self.geometry = problem, geometry
        self.dtype = geometry.x.dtype
        self.compiling = 0.0  # seconds
        self._packed = problem.packed(geometry)
        # What a measurement of ∇²F evaluates of the most samples that the program serves.
        most = self._packed.inner_source.capacity or 0
        self._small = most * self.d * geometry.inner_numbers() <= quick.SMALL
        self._numbers, self._static = partition(self._packed, self.dtype)
        self._last: tuple[bytes, Evaluation] | None = None

    def compile(self) -> None:
        """What every step needs."""
        self._program(_full, self._blank()[0])

    def compile_noise(self) -> None:
        """What tells noise."""
        x, y = self._blank()
        self._program(_noise, x, y, y)

    def has_curvature(self, sample: CurvatureSample) -> bool:
        """Whether f and g can be differentiated twice; compiles the program if they can."""
        x, y = self._blank()
        zero = np.int32(0)
        self._begun(_full, x)  # which is needed in any case
        return self._can(_curvature, x, y, y, zero, zero)

    def has_products(self) -> bool:
        """The same for products with ∇²F."""
        x, y = self._blank()
        return self._can(_product, x, y, y, x)

    def _blank(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(self.d, self.dtype), np.zeros(self.geometry.y.size, self.geometry.y.dtype)

    def _can(self, program: Any, *arguments: Any) -> bool:
        try:
            self._program(program, *arguments)
        except Exception:  # a custom derivative rule that cannot be differentiated again
            return False
        return True

    def full(self, x: np.ndarray) -> tuple[Evaluation, Counts]:
        """F, ∇F and the size of its terms, in one pass."""
        point = x.astype(self.dtype)
        if self._last is None or self._last[0] != point.tobytes():
            found = self._run(_full, point)
            value, gradient, scale, inner, outer = jax.device_get(found)
            evaluation = Evaluation(
                float(value), gradient.astype(np.float64), float(scale), inner, outer
            )
            self._last = (point.tobytes(), evaluation)
        return self._last[1], self._counts(self.n, self.n, 1)

    def curvature(
        self, x: np.ndarray, inner: np.ndarray, outer: np.ndarray,
        sample: CurvatureSample, pieces: int, shift: int,
    ) -> tuple[Curvature, Counts]:  # fmt: skip
        """∇²F; B from so many pieces of the samples, A from all."""
        return self.curvature_of(x, inner, outer, min(pieces * sample.rows, self.n), shift)

    def curvature_of(
        self, x: np.ndarray, inner: np.ndarray, outer: np.ndarray, rows: int, shift: int
    ) -> tuple[Curvature, Counts]:
        """The same from so many samples."""
        found = self._run(
            _curvature, x.astype(self.dtype), inner, outer, np.int32(rows), np.int32(shift % self.n)
        )
        matrix, diagonal = (np.asarray(a).astype(np.float64) for a in found)
        return Curvature(matrix, diagonal), self._counts(0, self.n + self.d * rows, self.d)

    def gauss_newton(
        self, x: np.ndarray, inner: np.ndarray, outer: np.ndarray
    ) -> tuple[np.ndarray | None, Counts]:
        """A + Σₖ ∂ₖf·E[∇gₖ∇gₖᵀ/2gₖ], which never curves downwards; exact for squared residuals.

        None where a gₖ or a ∂ₖf is negative.
        """
        found = self._run(_gauss_newton, x.astype(self.dtype), inner, outer)
        matrix = np.asarray(found).astype(np.float64)
        counts = self._counts(0, 2 * self.n, self.d)
        return (matrix if np.all(np.isfinite(matrix)) else None), counts

    def noise(self, x: np.ndarray, inner: np.ndarray, outer: np.ndarray) -> tuple[Noise, Counts]:
        """What each of a few samples says of Φ and ∇F, less the mean; zeros where none is drawn."""
        found = self._run(_noise, x.astype(self.dtype), inner, outer)
        values, slopes = (np.asarray(a).astype(np.float64) for a in found)
        counts = Counts(TOLD, 3 * TOLD, TOLD)
        return Noise(values, slopes), counts

    def product(
        self, x: np.ndarray, inner: np.ndarray, outer: np.ndarray, v: np.ndarray
    ) -> tuple[np.ndarray, Counts]:
        """∇²F(x)v."""
        size = float(np.abs(v).max())
        if not size > 0:
            return np.zeros_like(v), Counts()
        unit = (v / size).astype(self.dtype)  # v may be beyond the range of float32
        found = self._run(_product, x.astype(self.dtype), inner, outer, unit)
        return size * np.asarray(found).astype(np.float64), self._counts(0, 2 * self.n, 1)

    def _counts(self, values: int, jacobians: int, outer: int) -> Counts:
        """Of so many inner samples, and passes over the outer ones."""
        values, jacobians = (k * self._inner // self.n for k in (values, jacobians))
        return Counts(values, jacobians, outer * self._outer, 0)

    def _run(self, program: Any, *arguments: Any) -> Any:
        return self._program(program, *arguments)(self._numbers, *arguments)

    def _program(self, program: Any, *arguments: Any) -> Any:
        start = time.perf_counter()
        compiled, fresh = self._begun(program, *arguments)
        if fresh:
            compiled.wait()
            fresh.clear()
            self.compiling += time.perf_counter() - start
        return compiled

    def _begun(self, program: Any, *arguments: Any) -> Any:
        given = signature((self._numbers, *arguments))
        rare = program is _noise or (program is not _full and self._small)
        return _compiled(program, self._static, self.geometry, rare, given)


@cache.remember
def _compiled(
    program: Any, static: Static, geometry: Geometry, rare: bool, given: Signature
) -> tuple[Any, list[bool]]:
    """A program for such arguments, and a list that is empty once it has been asked for."""

    def run(numbers: Any, *arguments: Any) -> Any:
        problem = combine(numbers, static)
        return program(Oracle(problem.functions(geometry)), problem, *arguments)

    return quick.Program(run, given.specs(), rare=rare), [True]


def _full(oracle: Oracle, problem: Composition, x: Vector) -> Any:
    everything, outside = problem.everything()
    inner, pull = oracle.values_and_pullback(x, everything)
    outer = oracle.outer_gradient(inner, outside)
    sizes = jnp.maximum(oracle.sizes(x, problem.inner_source.part(SIZES)), jnp.abs(inner))
    scale = oracle.outer_size(inner, outside) + jnp.vdot(jnp.abs(outer), sizes)
    return oracle.outer_value(inner, outside), pull(outer), scale, inner, outer


def _curvature(
    oracle: Oracle, problem: Composition, x: Vector, inner: Vector, outer: Vector, size: Any,
    shift: Any,
) -> Any:  # fmt: skip
    part = problem.inner_source.spread(size, shift)
    outside, inside = curvature.hessian(oracle, x, inner, outer, problem.everything(), part)
    whole = outside + inside
    return (whole + whole.T) / 2, jnp.abs(jnp.diagonal(outside)) + jnp.abs(jnp.diagonal(inside))


def _noise(oracle: Oracle, problem: Composition, x: Vector, inner: Vector, outer: Vector) -> Any:
    functions, inside, outside = oracle.functions, problem.inner_source, problem.outer_source
    values, slopes = jnp.zeros(TOLD, x.dtype), jnp.zeros((TOLD, x.size), x.dtype)
    part, some = inside.part(TOLD), None if outside is None else outside.part(TOLD)
    pulled = jax.vmap(lambda u: oracle.pullback(x, part, u))
    if inside.drawn:
        few = part.piece(0, TOLD)
        each, back = jax.vjp(lambda x: functions.values(x, few), x)
        alone = jnp.eye(TOLD, dtype=each.dtype)[:, :, None] * outer
        turn = lambda u: jax.jvp(lambda y: oracle.outer_gradient(y, some), (inner,), (u,))[1]  # noqa: E731
        values = values + each @ outer
        slopes = slopes + jax.vmap(lambda u: back(u)[0])(alone) + pulled(jax.vmap(turn)(each))
    if outside is not None and outside.drawn:
        assert some is not None
        rows = some.piece(0, TOLD)
        values = values + functions.outer_values(inner, rows)
        one = lambda s: jax.grad(lambda y: functions.outer_values(y, s)[0])(inner)  # noqa: E731
        slopes = slopes + pulled(jax.vmap(one)(jax.tree_util.tree_map(lambda a: a[:, None], rows)))
    return values - values.mean(), slopes - slopes.mean(axis=0)


def _gauss_newton(
    oracle: Oracle, problem: Composition, x: Vector, inner: Vector, outer: Vector
) -> Any:
    return curvature.gauss_newton(oracle, x, inner, outer, problem.everything())


def _product(
    oracle: Oracle, problem: Composition, x: Vector, inner: Vector, outer: Vector, v: Vector
) -> Any:
    return curvature.hessian_product(oracle, x, inner, outer, problem.everything(), v)
