"""Regularisers r of min f(E g(x)) + r(x): the value r(x) and the proximal map, one class each.

    prox(x, step) = argmin_u  r(u) + ‖u − x‖² / (2 step)

x is any pytree of arrays, and the prox keeps its structure and dtypes. Sums whose prox is known
are written with `+`; any other r is a `Custom`.
"""

from mvrc.regularizers.base import Regularizer as Regularizer
from mvrc.regularizers.composed import Composed as Composed
from mvrc.regularizers.composed import LinearOperator as LinearOperator
from mvrc.regularizers.constraints import Box as Box
from mvrc.regularizers.constraints import Constraint as Constraint
from mvrc.regularizers.constraints import L1Ball as L1Ball
from mvrc.regularizers.constraints import L2Ball as L2Ball
from mvrc.regularizers.constraints import NonNegative as NonNegative
from mvrc.regularizers.constraints import Simplex as Simplex
from mvrc.regularizers.custom import Custom as Custom
from mvrc.regularizers.linear import LinearConstraint as LinearConstraint
from mvrc.regularizers.parts import Parts as Parts
from mvrc.regularizers.penalties import L1 as L1
from mvrc.regularizers.penalties import L2 as L2
from mvrc.regularizers.penalties import ElasticNet as ElasticNet
from mvrc.regularizers.penalties import GroupL2 as GroupL2
from mvrc.regularizers.penalties import Nuclear as Nuclear
from mvrc.regularizers.penalties import Zero as Zero
from mvrc.regularizers.sums import Sum as Sum
from mvrc.regularizers.total_variation import TotalVariation1D as TotalVariation1D
