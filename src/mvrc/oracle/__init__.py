"""What is evaluated at a point: f, g and their derivatives on batches, counted."""

from mvrc.oracle.functions import Functions as Functions
from mvrc.oracle.functions import Geometry as Geometry
from mvrc.oracle.functions import Problem as Problem
from mvrc.oracle.functions import Vector as Vector
from mvrc.oracle.functions import jacobian_matrix as jacobian_matrix
from mvrc.oracle.layout import Layout as Layout
from mvrc.oracle.oracle import Counts as Counts
from mvrc.oracle.oracle import Oracle as Oracle
from mvrc.oracle.oracle import add_counts as add_counts
