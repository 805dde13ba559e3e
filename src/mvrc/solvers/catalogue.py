"""All methods by name: a new one is one line here."""

from __future__ import annotations

from typing import Any

from mvrc import methods
from mvrc.methods import NamedRecipe, Recipe
from mvrc.methods.optimizer import Optimizer
from mvrc.schemes import is_optimizer
from mvrc.solvers.auto import Auto
from mvrc.support import checks

METHODS: dict[str, type[NamedRecipe]] = {
    "mvrc": methods.MVRC,
    "civr": methods.CIVR,
    "vrsc-pg": methods.VRSCPG,
    "c-svrg-1": methods.CSVRG1,
    "c-svrg-2": methods.CSVRG2,
    "c-saga": methods.CSAGA,
    "sarah-c": methods.SARAHC,
    "nested-spider": methods.NestedSpider,
    "spider-admm": methods.SpiderADMM,
    "katyusha": methods.Katyusha,
    "scgd": methods.SCGD,
    "ascgd": methods.ASCGD,
    "asc-pg": methods.ASCPG,
    "scsc": methods.SCSC,
    "storm": methods.STORM,
    "smvr": methods.SMVR,
    "nasa": methods.NASA,
    "proximal-gradient": methods.ProximalGradient,
    "fista": methods.FISTA,
}
"""The named methods, for `minimize(problem, x0, "civr")`; `Auto` and those for `Coupled` apart.

Examples:
    >>> mvrc.METHODS["mvrc"].__name__
    'MVRC'
"""

# For problems of the class `Coupled` alone.
COUPLED: dict[str, type[NamedRecipe]] = {
    "bsgd": methods.BSGD,
    "sox": methods.SOX,
    "msvr": methods.MSVR,
    "bspiderboost": methods.BSpiderBoost,
    "rt-mlmc": methods.RandomLevels,
}


def find(method: Any) -> Recipe:
    """A recipe from what a user passes as `method`: a recipe, a name, an optimiser, None: Auto."""
    if method is None or (isinstance(method, str) and method == "auto"):
        return Auto()
    if isinstance(method, Recipe):
        return method
    if isinstance(method, str):
        known = METHODS | COUPLED
        if method not in known:
            raise ValueError(
                f"method {method!r} is unknown{checks.nearest(method, known)}; "
                f"the methods are auto, {', '.join(METHODS)}, and of Coupled problems "
                f"{', '.join(COUPLED)}."
            )
        return known[method]()
    if is_optimizer(method):
        return Optimizer(method)
    if isinstance(method, type) and issubclass(method, Recipe):
        raise TypeError(
            f"method is the class {method.__name__}; give a recipe made from it, "
            f"{method.__name__}() or with arguments."
        )
    raise TypeError(
        f"method must be a recipe such as MVRC(step_size=1e-3), a name of mvrc.METHODS or an "
        f"optimiser of Optax, not {checks.shown(method)}."
    )
