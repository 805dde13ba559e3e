"""The problem as a user states it, checked."""

from mvrc.problem.composition import Composition as Composition
