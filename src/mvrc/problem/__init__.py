"""The problem as a user states it, checked."""

from mvrc.problem.composition import Composition as Composition
from mvrc.problem.coupled import Coupled as Coupled
