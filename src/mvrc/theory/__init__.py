"""Theory: constants, and the parameters and guarantees of the theorems."""

from mvrc.theory.constants import Constants as Constants
from mvrc.theory.prescriptions import DOMINANT_ORDERS as DOMINANT_ORDERS
from mvrc.theory.prescriptions import ORDERS as ORDERS
from mvrc.theory.prescriptions import Parameters as Parameters
from mvrc.theory.prescriptions import complexity as complexity
from mvrc.theory.prescriptions import parameters as parameters
