"""Sparse additive models (SpAM): the paper's nonconvex form and the convex one with splines."""

from mvrc.applications.additive.problems import largest_penalty as largest_penalty
from mvrc.applications.additive.problems import modified_root as modified_root
from mvrc.applications.additive.problems import sparse_additive as sparse_additive
from mvrc.applications.additive.problems import sparse_additive_convex as sparse_additive_convex
from mvrc.applications.additive.problems import sparse_additive_root as sparse_additive_root
