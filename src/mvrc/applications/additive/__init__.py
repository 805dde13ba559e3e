"""Sparse additive models (SpAM): the paper's nonconvex form and the convex one with splines."""

from __future__ import annotations

from typing import Any

from mvrc.applications.additive.problems import (
    largest_penalty,
    modified_root,
    sparse_additive,
    sparse_additive_convex,
)

__all__ = [
    "largest_penalty",
    "modified_root",
    "sparse_additive",
    "sparse_additive_convex",
]


def __getattr__(name: str) -> Any:
    if name != "SparseAdditiveRegressor":  # needs scikit-learn, so it is imported when used
        raise AttributeError(f"module 'mvrc.applications.additive' has no attribute {name!r}")
    from mvrc.applications.additive.estimator import SparseAdditiveRegressor

    return SparseAdditiveRegressor
