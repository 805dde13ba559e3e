"""mvrc: minimise a function of an expectation, f(E g(x)) + r(x)."""

import importlib
import typing

from mvrc.support import logs as logs  # isort: skip  (before JAX)
from mvrc.support import releases as releases  # isort: skip  (refuses wrong ones)
from mvrc.compiler.disk import compilation_cache as compilation_cache
from mvrc.methods import ASCGD as ASCGD
from mvrc.methods import ASCPG as ASCPG
from mvrc.methods import BSGD as BSGD
from mvrc.methods import CIVR as CIVR
from mvrc.methods import CSAGA as CSAGA
from mvrc.methods import CSVRG1 as CSVRG1
from mvrc.methods import CSVRG2 as CSVRG2
from mvrc.methods import FISTA as FISTA
from mvrc.methods import MSVR as MSVR
from mvrc.methods import MVRC as MVRC
from mvrc.methods import NASA as NASA
from mvrc.methods import SARAHC as SARAHC
from mvrc.methods import SCGD as SCGD
from mvrc.methods import SCSC as SCSC
from mvrc.methods import SMVR as SMVR
from mvrc.methods import SOX as SOX
from mvrc.methods import STORM as STORM
from mvrc.methods import VRSCPG as VRSCPG
from mvrc.methods import BSpiderBoost as BSpiderBoost
from mvrc.methods import Katyusha as Katyusha
from mvrc.methods import Method as Method
from mvrc.methods import NestedSpider as NestedSpider
from mvrc.methods import ProximalGradient as ProximalGradient
from mvrc.methods import RandomLevels as RandomLevels
from mvrc.methods import SpiderADMM as SpiderADMM
from mvrc.problem import Composition as Composition
from mvrc.problem import Coupled as Coupled
from mvrc.regularizers import L1 as L1
from mvrc.regularizers import L2 as L2
from mvrc.regularizers import Box as Box
from mvrc.regularizers import Composed as Composed
from mvrc.regularizers import Custom as Custom
from mvrc.regularizers import ElasticNet as ElasticNet
from mvrc.regularizers import GroupL2 as GroupL2
from mvrc.regularizers import L1Ball as L1Ball
from mvrc.regularizers import L2Ball as L2Ball
from mvrc.regularizers import LinearConstraint as LinearConstraint
from mvrc.regularizers import LinearOperator as LinearOperator
from mvrc.regularizers import NonNegative as NonNegative
from mvrc.regularizers import Nuclear as Nuclear
from mvrc.regularizers import Parts as Parts
from mvrc.regularizers import Simplex as Simplex
from mvrc.regularizers import TotalVariation1D as TotalVariation1D
from mvrc.regularizers import Zero as Zero
from mvrc.run.minimize import minimize as minimize
from mvrc.run.minimize import minimize_many as minimize_many
from mvrc.run.solver import Solver as Solver
from mvrc.sampling import Batches as Batches
from mvrc.sampling import File as File
from mvrc.sampling import Host as Host
from mvrc.sampling import Sharded as Sharded
from mvrc.sampling import Simulator as Simulator
from mvrc.sampling import Sizes as Sizes
from mvrc.sampling import Stream as Stream
from mvrc.sampling import shard as shard
from mvrc.schedules import Constant as Constant
from mvrc.schedules import Diminishing as Diminishing
from mvrc.schedules import Momentum as Momentum
from mvrc.schedules import Power as Power
from mvrc.schemes import OptaxScheme as OptaxScheme
from mvrc.solvers.auto import Auto as Auto
from mvrc.solvers.catalogue import METHODS as METHODS
from mvrc.solvers.plotting import plot_many as plot_many
from mvrc.solvers.result import History as History
from mvrc.solvers.result import Result as Result
from mvrc.solvers.result import Status as Status
from mvrc.solvers.table import describe as describe
from mvrc.theory import Constants as Constants
from mvrc.theory.estimation import estimate_constants as estimate_constants
from mvrc.trackers import Tracker as Tracker
from mvrc.trackers import tracker as tracker

__version__ = "0.1.0"


def __getattr__(name: str) -> typing.Any:
    """`mvrc.datasets` and the like, imported when first asked for."""
    if name in ("applications", "datasets", "estimators", "losses", "schemes", "theory", "torch"):
        return importlib.import_module(f"mvrc.{name}")
    raise AttributeError(f"module 'mvrc' has no attribute {name!r}")
