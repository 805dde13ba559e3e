"""What an estimator of ∇F is: it sees query points and samples, never x, prox or step sizes."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import equinox as eqx

from mvrc.oracle import Geometry, Oracle, Vector
from mvrc.sampling import Samples

JACOBIANS = ("auto", "matrix", "free")

# "auto" keeps the p × d matrix up to this many rows. It takes min(p, d) passes a point. With one
# row both forms cost the same, and the matrix has less noise where g is affine; from two rows on
# the matrix-free step is faster (docs/performance.md).
MATRIX_ROWS = 1


class Estimator(eqx.Module):
    """v ≈ ∇F(z) from samples.

    `refresh` starts the estimate at a point from a large batch, `update` moves it to the next
    query point with a small one; the state is a NamedTuple of arrays. An estimator that
    `refreshes` does so at the start of every epoch, any other only once, before the first.
    """

    refreshes: ClassVar[bool]
    keeps_table: ClassVar[bool] = False  # a row for every sample, so neither streams nor a part

    @abc.abstractmethod
    def roles(self, two_level: bool) -> tuple[str, ...]:
        """The independent batches a step draws, of "values", "jacobians" and "outer"."""

    @abc.abstractmethod
    def refresh(self, oracle: Oracle, point: Vector) -> Any:
        """The state at `point` from the oracle's (large) batches."""

    @abc.abstractmethod
    def update(self, oracle: Oracle, state: Any, point: Vector) -> Any:
        """The state at `point` from the state at the previous point and small batches."""

    @abc.abstractmethod
    def gradient(self, state: Any) -> Vector:
        """The estimate v."""


def keeps_matrix(jacobian: str, geometry: Geometry) -> bool:
    """Whether the Jacobian is kept as a p × d matrix."""
    if jacobian == "auto":
        return geometry.y.size <= MATRIX_ROWS
    return jacobian == "matrix"


def three_batches(oracle: Oracle) -> tuple[Samples, Samples, Samples | None]:
    """A, A' and B.

    B is None with one outer function; A' is A then, and where the estimator draws no A'.
    """
    a = oracle.batch("values")
    assert a is not None
    if not oracle.two_level:
        return a, a, None
    return a, oracle.batch("jacobians") or a, oracle.batch("outer")
