"""What an estimator of ∇F is: it sees query points and samples, never x, prox or step sizes."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx

from mvrc.oracle import Geometry, Oracle, Vector
from mvrc.sampling import Batch

JACOBIANS = ("auto", "matrix", "free")

# "auto" is the matrix, as the methods' own papers have it, up to so many numbers kept and so many
# passes through g for a Jacobian (`Geometry.jacobian` counts both). A pass costs about one
# evaluation of g: an epoch of the embedding of 300 points (600 passes and 720,000 numbers; batches
# and period 17) takes 35 times as long with the matrix, 0.67 s against 0.019 s.
MATRIX_ENTRIES = 2**18
MATRIX_PASSES = 64


class Estimator(eqx.Module):
    """v ≈ ∇F(z) from samples.

    `refresh` starts the estimate at a point from a large batch, `update` moves it to the next
    query point with a small one; the state is a NamedTuple of arrays. An estimator that
    `refreshes` does so at the start of every epoch, any other only once, before the first.
    """

    refreshes: ClassVar[bool]
    keeps_table: ClassVar[bool] = False  # a row for every sample, so neither streams nor a part
    is_coupled: ClassVar[bool] = False  # for `Coupled` problems alone

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


def chosen(estimator: Estimator, geometry: Geometry) -> tuple[Estimator, tuple[str, ...]]:
    """The estimator with "matrix" or "free" for "auto", and a sentence if it is free."""
    if getattr(estimator, "jacobian", None) != "auto":
        return estimator, ()
    found = geometry.jacobian
    # A matrix of one row is as long as the product that would be kept in its place.
    if found.entries <= max(MATRIX_ENTRIES, found.d) and found.passes <= MATRIX_PASSES:
        return dataclasses.replace(estimator, jacobian="matrix"), ()  # type: ignore[call-arg]
    return dataclasses.replace(estimator, jacobian="free"), (  # type: ignore[call-arg]
        f"The Jacobian of g, {found.p:,} × {found.d:,}, takes {found.passes:,} passes and "
        f"{found.entries:,} numbers, beyond the {MATRIX_PASSES} passes and {MATRIX_ENTRIES:,} "
        f"numbers up to which it is kept: the matrix-free form of the estimator is used, which is "
        f"not that of the papers and has no theorem; jacobian='matrix' keeps the matrix.",
    )


def three_batches(oracle: Oracle) -> tuple[Batch, Batch, Batch | None]:
    """A, A' and B: A' is A where the estimator draws none, B None with one outer function."""
    a = oracle.batch("values")
    assert a is not None
    return a, oracle.batch("jacobians") or a, oracle.batch("outer")


class Refreshed(NamedTuple):
    """What a refresh evaluates."""

    inner: Vector  # g
    outer: Vector  # ∇f(g)
    jacobian: Vector | None  # g'; None: matrix-free
    gradient: Vector  # g'ᵀ∇f(g)


def refreshed(
    oracle: Oracle, point: Vector, jacobian: str, inside: Callable[[Vector], Vector] | None = None
) -> Refreshed:
    """g, ∇f(g) and their product from the oracle's batches, with the matrix g' or without it.

    `inside` projects g' and ∇f where they are kept.
    """
    a, a_prime, b = three_batches(oracle)
    if jacobian == "free":
        inner, pull = oracle.values_and_pullback(point, a, a_prime)
        outer = oracle.outer_gradient(inner, b)
        return Refreshed(inner, outer, None, pull(outer))
    inner, matrix = oracle.values_and_jacobian(point, a, a_prime)
    outer = oracle.outer_gradient(inner, b)
    if inside is not None:
        matrix, outer = inside(matrix), inside(outer)
    return Refreshed(inner, outer, matrix, oracle.pull(matrix, outer))


def batch_names(two_level: bool, jacobian: str) -> tuple[str, ...]:
    """The draws of an estimator that keeps the Jacobian, or only its product with ∇f.

    With one outer function A' = A, as in Algorithm 1, if the matrix is kept. Matrix-free, A' is
    drawn separately: g'_Aᵀ∇f(g̃), where g̃ contains g_A, is biased, and the bias adds up.
    """
    if two_level:
        return "values", "jacobians", "outer"
    return ("values", "jacobians") if jacobian == "free" else ("values",)
