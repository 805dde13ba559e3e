"""The sparse additive models as compositions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.problem import Composition
from mvrc.regularizers import L1, GroupL2
from mvrc.support import checks

# The functions of a problem are part of the key of its compiled program, so they stand here and
# numbers such as the penalty are data: fits that differ in numbers only compile once.


def modified_root(y: Any) -> jax.Array:
    """√|y| where |y| ≥ 1, else 1.75y² − 0.75y⁴: equal in value and slope (½) at |y| = 1."""
    size = jnp.abs(y)
    large = size >= 1
    # The root sees no zero, where its slope is infinite and where() would make NaN of it.
    return jnp.where(large, jnp.sqrt(jnp.where(large, size, 1)), 1.75 * y**2 - 0.75 * y**4)


@checks.explain_keywords
def sparse_additive(X: Any, y: Any, penalty: float = 1.0, l1: float = 0.001) -> Composition:
    """The paper's nonconvex sparse additive model with linear parts h_j(x_j) = θ_j x_j, a Σ².

    Φ(θ) = (1/(d+1)) [mean (y_i − |Σ_j θ_j x_ij|)² + penalty Σ_j f(mean (θ_j x_ij)²)] + l1 ‖θ‖₁,

    f the `modified_root`: g_i(θ) = [(y_i − |Σ_j θ_j x_ij|)², (θ_1 x_i1)², …, (θ_d x_id)²],
    f_1(y) = y_1 and f_k(y) = penalty f(y_k) for k ≥ 2. The outer part is a mean over the d + 1
    terms. The paper's penalty is 1; it states no scaling, and X and y of unit root mean square,
    not centred, give its results. θ = 0 is stationary: start at 0.01 everywhere.

    Reference: Chen & Zhou, Momentum with Variance Reduction for Nonconvex Composition Optimization,
    2020, the experiments and equation (SpAM_obj_DE_ours).

    Args:
        X: features, n rows.
        y: what is to be predicted, n numbers; not negative, if |…| is to match them.
        penalty: λ, the weight of the d terms f_k.
        l1: μ, the weight of ‖θ‖₁.

    Examples:
        >>> from mvrc.applications import sparse_additive
        >>> model = sparse_additive(returns[:, :2], returns[:, 2])
        >>> mvrc.minimize(model, 0.01 * np.ones(2), epochs=20).x.shape
        (2,)
    """
    X, y = _rows("X", X, y)
    penalty, l1 = checks.nonnegative("penalty", penalty), checks.nonnegative("l1", l1)
    return Composition(
        inner=_squares,
        outer=_term,
        inner_data={"x": X, "y": y},
        outer_data=_terms(X, penalty),
        regularizer=L1(l1),
    )


@checks.explain_keywords
def sparse_additive_root(
    X: Any, y: Any, penalty: float = 1.0, smoothing: float = 1e-2, l1: float = 0.0
) -> Composition:
    """The convex sparse additive model of the paper's appendix with h_j(x_j) = θ_j x_j, a Σ².

    Φ(θ) = (1/(d+1)) [mean (y_i − Σ_j θ_j x_ij)² + penalty Σ_j f(mean (θ_j x_ij)²)] + l1 ‖θ‖₁,

    g_i(θ) = [(y_i − Σ_j θ_j x_ij)², (θ_1 x_i1)², …, (θ_d x_id)²], f_1(y) = y_1 and
    f_k(y) = penalty f(y_k) for k ≥ 2, where the appendix has f(y) = √|y|, whose slope at 0 is
    infinite, and here f(y) = (y² + δ⁴)^¼ − δ. As √|y| − δ ≤ f(y) ≤ √|y|, the smoothing lowers Φ,
    and its least value, by at most penalty·δ·d/(d+1); a θ_j that would be 0 ends at
    ±δ (q/(1 − q))^¼/rms(x_j) instead, with q = (slope of the error/penalty)^(4/3): mostly below δ,
    above where the slope comes close to the penalty. Φ is convex: f of a mean of squares is a norm
    of (rms(θ_j x_j), δ).

    Reference: Chen & Zhou, Momentum with Variance Reduction for Nonconvex Composition Optimization,
    2020, equation (SpAM_obj_DE). `sparse_additive` is the nonconvex form of its experiment, and
    `sparse_additive_convex` solves this one without smoothing.

    Args:
        X: features, n rows.
        y: what is to be predicted, n numbers.
        penalty: λ, the weight of the d terms f_k; the appendix has 1 there.
        smoothing: δ.
        l1: μ, the weight of ‖θ‖₁.

    Examples:
        >>> from mvrc.applications import sparse_additive_root
        >>> model = sparse_additive_root(returns[:, :2], returns[:, 2])
        >>> mvrc.minimize(model, 0.01 * np.ones(2), epochs=20).x.shape
        (2,)
    """
    X, y = _rows("X", X, y)
    penalty, l1 = checks.nonnegative("penalty", penalty), checks.nonnegative("l1", l1)
    terms = _terms(X, penalty)
    delta = np.full_like(terms["weight"], checks.positive("smoothing", smoothing))
    return Composition(
        inner=_signed_squares,
        outer=_root_term,
        inner_data={"x": X, "y": y},
        outer_data={**terms, "smoothing": delta},
        regularizer=L1(l1),
    )


def _terms(X: np.ndarray, penalty: float) -> dict[str, np.ndarray]:
    """The d + 1 outer functions: which entry of y each takes, with what weight."""
    weight = np.full(X.shape[1] + 1, penalty, X.dtype)
    weight[0] = 1.0
    return {"index": np.arange(len(weight)), "weight": weight}


def _signed_squares(theta: jax.Array, sample: dict[str, jax.Array]) -> jax.Array:
    parts = theta * sample["x"]
    return jnp.concatenate([(sample["y"] - jnp.sum(parts))[None], parts]) ** 2


def _root_term(y: jax.Array, sample: dict[str, jax.Array]) -> jax.Array:
    delta = sample["smoothing"]
    return _chosen_term(y, (y**2 + delta**4) ** 0.25 - delta, sample)


def _squares(theta: jax.Array, sample: dict[str, jax.Array]) -> jax.Array:
    parts = theta * sample["x"]
    total = jnp.sum(parts)
    error = sample["y"] - total * jnp.sign(total)  # slope 0 at 0, where that of jnp.abs is 1
    return jnp.concatenate([error[None], parts]) ** 2


def _term(y: jax.Array, sample: dict[str, jax.Array]) -> jax.Array:
    return _chosen_term(y, modified_root(y), sample)


def _chosen_term(y: jax.Array, roots: jax.Array, sample: dict[str, jax.Array]) -> jax.Array:
    """Term `index`: y itself for 0, else a root. All terms, then a choice by a product.

    For many seeds a gather compiles ten times as long.
    """
    place = jnp.arange(y.size)
    terms = jnp.where(place == 0, y, roots)
    chosen = (place == sample["index"]).astype(y.dtype)
    return sample["weight"] * (chosen @ terms)


@checks.explain_keywords
def sparse_additive_convex(B: Any, y: Any, groups: Any, penalty: float) -> Composition:
    """The convex sparse additive model in a basis, a group lasso, a Σ¹ with f the identity.

    Φ(β) = mean (y_i − b_iᵀβ)² + penalty Σ_j ‖β_j‖.

    With a basis whose blocks are orthonormal on the data, B_jᵀB_j = n·I, ‖β_j‖² is the mean of
    h_j(x_ij)², and this is equation (SpAM_obj) of the paper, after Ravikumar, Lafferty, Liu &
    Wasserman, Sparse Additive Models, 2009. There is no intercept: centre y and the columns of B.

    Args:
        B: basis functions at the data, n rows; see `mvrc.applications.additive.splines`.
        y: what is to be predicted, n numbers.
        groups: which columns of B belong together, as for `mvrc.GroupL2`.
        penalty: λ; from `largest_penalty` on, the solution is 0.

    Examples:
        >>> from mvrc.applications import sparse_additive_convex
        >>> model = sparse_additive_convex(returns, returns[:, 0] ** 2, [0, 0, 1], penalty=0.1)
        >>> mvrc.minimize(model, x0).x.shape
        (3,)
    """
    B, y = _rows("B", B, y)
    regularizer = GroupL2(checks.nonnegative("penalty", penalty), groups)
    regularizer.check(B[0])
    return Composition(_squared_error, _identity, {"b": B, "y": y}, regularizer=regularizer)


def _squared_error(beta: jax.Array, sample: dict[str, jax.Array]) -> jax.Array:
    return (sample["y"] - sample["b"] @ beta)[None] ** 2


def _identity(y: jax.Array) -> jax.Array:
    return y[0]


def largest_penalty(B: Any, y: Any, groups: Any) -> float:
    """The smallest penalty at which `sparse_additive_convex` is solved by 0: max_j ‖(2/n) B_jᵀy‖.

    Args:
        B, y, groups: as for `sparse_additive_convex`.
    """
    B, y = _rows("B", B, y)
    regularizer = GroupL2(1.0, groups)
    regularizer.check(B[0])
    slope = 2 / len(y) * (y @ B)
    return float(np.sqrt(np.max(np.bincount(np.asarray(regularizer.labels), slope**2))))


def _rows(name: str, matrix: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """A table and its numbers to be predicted, as floating-point arrays, or a sentence."""
    table = _floats(name, matrix)
    numbers = _floats("y", y)
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"{name} must be a table of rows and columns, not of shape {table.shape}.")
    if numbers.shape != table.shape[:1]:
        raise ValueError(
            f"y must have one number for each of the {len(table)} rows of {name}, not the shape "
            f"{numbers.shape}."
        )
    return table, numbers


def _floats(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
        array = array if array.dtype == np.float32 else array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, not {checks.shown(value)}.") from None
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} contains NaN or infinite values; remove or fill them first.")
    return array
