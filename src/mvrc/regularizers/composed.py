"""r(Ax) for a linear operator A: fused and graph-guided penalties, solved by SPIDER+ADMM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.regularizers.base import Regularizer, one_step, shapes
from mvrc.regularizers.blocks import Blocks, Stacked
from mvrc.support import checks, precision
from mvrc.support.numerics import extrapolate, power_iteration
from mvrc.support.partition import combine, partition

_ITERATIONS = 5000  # most steps of the numeric prox


class LinearOperator(eqx.Module):
    """x ↦ Ax with its adjoint and a bound on ‖A‖².

    Args:
        operator: a matrix (NumPy, JAX or SciPy sparse), or a pair of functions (apply, adjoint).
        size: number of coordinates of x; needed for a pair of functions.

    Examples:
        >>> A = mvrc.LinearOperator(np.array([[1.0, 1.0, 1.0]]))
        >>> A.apply(np.array([1.0, 2.0, 3.0]))
        Array([6.], dtype=float32)
    """

    matrix: Any
    apply_function: Callable[..., Any] | None = eqx.field(static=True)
    adjoint_function: Callable[..., Any] | None = eqx.field(static=True)
    size: int = eqx.field(static=True)
    norm_squared: float

    @checks.explain_keywords
    def __init__(self, operator: Any, size: int | None = None) -> None:
        self.apply_function = self.adjoint_function = self.matrix = None
        if isinstance(operator, tuple) and len(operator) == 2 and all(map(callable, operator)):
            self.apply_function, self.adjoint_function = operator
            self.size = checks.integer("size", size)
        else:
            self.matrix, self.size = _matrix(operator), int(operator.shape[1])
            if size is not None and size != self.size:
                raise ValueError(f"size is {size} but the matrix has {self.size} columns.")
        with precision.follow(self.matrix):
            # By its numbers: JAX never forgets the structure of an argument, with A's functions.
            numbers, static = partition(self, np.float32)
            norm = jax.jit(lambda numbers: _norm_squared(combine(numbers, static)))(numbers)
            self.norm_squared = 1.01 * float(norm)

    def apply(self, x: Any) -> Any:
        """Ax."""
        image = self.matrix @ x if self.apply_function is None else self.apply_function(x)
        return image.astype(x.dtype)  # a float64 matrix does not widen a float32 run

    def adjoint(self, u: Any) -> Any:
        """Aᵀu."""
        image = u @ self.matrix if self.adjoint_function is None else self.adjoint_function(u)
        return image.astype(u.dtype)


class Composed(Regularizer):
    """x ↦ r(Ax), x a vector; with `+` several: Composed(r₁, A₁) + Composed(r₂, A₂) + r₃.

    Its prox has no closed form. `prox` here is a numeric one, accurate to about 1e-9 and used for
    measuring only; `SpiderADMM` needs no more than the prox of r.

    Args:
        regularizer: r.
        operator: A, a matrix, a sparse matrix, a pair of functions (apply, adjoint), or a
            `LinearOperator`.
        size: number of coordinates of x; needed for a pair of functions.

    Examples:
        >>> differences = np.array([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]])
        >>> r = mvrc.Composed(mvrc.L1(1.0), differences)
        >>> float(r.value(np.array([1.0, 3.0, 2.0])))
        3.0
    """

    regularizer: Regularizer
    operator: LinearOperator | Stacked

    @checks.explain_keywords
    def __init__(self, regularizer: Regularizer, operator: Any, size: int | None = None) -> None:
        if not isinstance(regularizer, Regularizer) or isinstance(regularizer, Composed):
            raise TypeError(
                f"regularizer must be a Regularizer with a prox of its own such as mvrc.L1(0.01), "
                f"not {checks.shown(regularizer)}."
            )
        self.regularizer = regularizer
        is_operator = isinstance(operator, LinearOperator | Stacked)
        self.operator = operator if is_operator else LinearOperator(operator, size)

    def value(self, x: Any) -> Any:
        return self.regularizer.value(self.operator.apply(x))

    def prox(self, x: Any, step: Any) -> Any:
        """argmin_w r(Aw) + ‖w − x‖²/(2 step), by accelerated ascent on the dual.

        w = x − step·Aᵀu with u minimising (step/2)‖Aᵀu‖² − uᵀAx + r*(u).
        """
        operator, eps = self.operator, jnp.finfo(x.dtype).eps
        step = one_step(step)
        rate = 1 / (step * operator.norm_squared)
        image = operator.apply(x)

        def dual_prox(u: Any) -> Any:
            # Moreau: prox_{rate·r*}(u) = u − rate·prox_{r/rate}(u/rate).
            return u - rate * self.regularizer.prox(u / rate, 1 / rate)

        def body(carry: Any) -> Any:
            u, ahead, t, k, _ = carry
            slope = step * operator.apply(operator.adjoint(ahead)) - image
            new = dual_prox(ahead - rate * slope)
            ahead, t_new = extrapolate(new, u, t, jnp.vdot(ahead - new, new - u))
            change = jnp.linalg.norm(new - u) / (1 + jnp.linalg.norm(new))
            return new, ahead, t_new, k + 1, change

        def going(carry: Any) -> Any:
            return (carry[4] > 4 * eps) & (carry[3] < _ITERATIONS)

        zero = jnp.zeros_like(image)
        one = jnp.ones((), x.dtype)
        u = jax.lax.while_loop(going, body, (zero, zero, one, jnp.int32(0), one))[0]
        return x - step * operator.adjoint(u)

    def check(self, x: Any) -> None:
        if not hasattr(x, "shape") or np.shape(x) != (self.operator.size,):
            raise ValueError(
                f"x of Composed must be a vector of {self.operator.size} coordinates, the columns "
                f"of its operator, not {shapes(x)}."
            )
        image = jax.eval_shape(self.operator.apply, jax.ShapeDtypeStruct(x.shape, x.dtype))
        self.regularizer.check(np.zeros(image.shape, image.dtype))


def stack(terms: list[Regularizer]) -> Composed:
    """Their sum, at least one of them composed; A of the others is the identity."""
    size = next(term.operator.size for term in terms if isinstance(term, Composed))
    blocks = [
        term if isinstance(term, Composed) else Composed(term, LinearOperator((_same, _same), size))
        for term in terms
    ]
    operator = Stacked(tuple(block.operator for block in blocks))
    return Composed(Blocks(tuple(b.regularizer for b in blocks), operator.heights), operator)


def _same(x: Any) -> Any:
    return x


def _matrix(operator: Any) -> Any:
    """A dense JAX matrix, or a sparse one (BCOO) from SciPy's."""
    if isinstance(operator, jax.core.Tracer):
        raise TypeError("operator is a traced array; call mvrc outside of jit, vmap and grad.")
    if hasattr(operator, "tocoo"):
        from jax.experimental import sparse

        coo = operator.tocoo()
        indices = np.stack([coo.row, coo.col], axis=1).astype(np.int32)
        with precision.follow(coo.data):
            return sparse.BCOO((jnp.asarray(coo.data), jnp.asarray(indices)), shape=coo.shape)
    is_matrix = hasattr(operator, "ndim") and operator.ndim == 2
    if not is_matrix or not np.issubdtype(operator.dtype, np.floating):
        raise TypeError(
            f"operator must be a floating-point matrix, a SciPy sparse matrix or a pair of "
            f"functions (apply, adjoint), not {checks.shown(operator)}."
        )
    with precision.follow(operator):
        return jnp.asarray(operator)


def _norm_squared(operator: LinearOperator) -> Any:
    """‖A‖² by power iteration on AᵀA."""
    dtype = jnp.float32 if operator.matrix is None else operator.matrix.dtype
    start = jax.random.normal(jax.random.key(0), (operator.size,), dtype)

    def apply(x: Any) -> Any:
        return operator.adjoint(operator.apply(x))

    return power_iteration(apply, start / jnp.linalg.norm(start), 200)[1]
