"""Theory: constants, and the parameters and guarantees of the theorems."""

from mvrc.theory.constants import Constants as Constants
from mvrc.theory.parameters import Parameters as Parameters
from mvrc.theory.parameters import parameters as parameters
