"""The paper's applications: problems for optimisers, scikit-learn estimators for everyone else.

Problem factories need nothing but JAX; the estimators need scikit-learn, which is imported when
one of them is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

# name: module; the estimators, imported when used
_ESTIMATORS: dict[str, str] = {}


def __getattr__(name: str) -> Any:
    if name not in _ESTIMATORS:
        raise AttributeError(f"module 'mvrc.applications' has no attribute {name!r}")
    return getattr(importlib.import_module(f"mvrc.applications.{_ESTIMATORS[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_ESTIMATORS])
