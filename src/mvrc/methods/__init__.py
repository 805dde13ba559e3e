"""The named recipes: a file each, a line each in METHODS."""

from __future__ import annotations

from typing import Any

from mvrc import checks
from mvrc.methods.auto import Auto as Auto
from mvrc.methods.base import MOST_RESTARTS as MOST_RESTARTS
from mvrc.methods.base import SHORTER as SHORTER
from mvrc.methods.base import Method as Method
from mvrc.methods.base import NamedRecipe as NamedRecipe
from mvrc.methods.base import Recipe as Recipe
from mvrc.methods.base import Start as Start
from mvrc.methods.c_saga import CSAGA as CSAGA
from mvrc.methods.c_svrg import CSVRG1 as CSVRG1
from mvrc.methods.c_svrg import CSVRG2 as CSVRG2
from mvrc.methods.civr import CIVR as CIVR
from mvrc.methods.deterministic import FISTA as FISTA
from mvrc.methods.deterministic import ProximalGradient as ProximalGradient
from mvrc.methods.katyusha import Katyusha as Katyusha
from mvrc.methods.mvrc import MVRC as MVRC
from mvrc.methods.nasa import NASA as NASA
from mvrc.methods.nested_spider import NestedSpider as NestedSpider
from mvrc.methods.sarah_c import SARAHC as SARAHC
from mvrc.methods.scgd import ASCGD as ASCGD
from mvrc.methods.scgd import ASCPG as ASCPG
from mvrc.methods.scgd import SCGD as SCGD
from mvrc.methods.scsc import SCSC as SCSC
from mvrc.methods.spider_admm import SpiderADMM as SpiderADMM
from mvrc.methods.storm import SMVR as SMVR
from mvrc.methods.storm import STORM as STORM
from mvrc.methods.vrsc_pg import VRSCPG as VRSCPG

METHODS: dict[str, type[NamedRecipe]] = {
    "mvrc": MVRC,
    "civr": CIVR,
    "vrsc-pg": VRSCPG,
    "c-svrg-1": CSVRG1,
    "c-svrg-2": CSVRG2,
    "c-saga": CSAGA,
    "sarah-c": SARAHC,
    "nested-spider": NestedSpider,
    "spider-admm": SpiderADMM,
    "katyusha": Katyusha,
    "scgd": SCGD,
    "ascgd": ASCGD,
    "asc-pg": ASCPG,
    "scsc": SCSC,
    "storm": STORM,
    "smvr": SMVR,
    "nasa": NASA,
    "proximal-gradient": ProximalGradient,
    "fista": FISTA,
}


def find(method: Any) -> Recipe:
    """A recipe from what a user passes as `method`: a recipe, a name of METHODS, or None: Auto."""
    if method is None or (isinstance(method, str) and method == "auto"):
        return Auto()
    if isinstance(method, Recipe):
        return method
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(
                f"method {method!r} is unknown{checks.nearest(method, METHODS)}; "
                f"the methods are auto, {', '.join(METHODS)}."
            )
        return METHODS[method]()
    if isinstance(method, type) and issubclass(method, Recipe):
        raise TypeError(
            f"method is the class {method.__name__}; give a recipe made from it, "
            f"{method.__name__}() or with arguments."
        )
    raise TypeError(
        f"method must be a recipe such as MVRC(step_size=1e-3) or a name of mvrc.METHODS, "
        f"not {checks.shown(method)}."
    )
