"""The engine: one epoch of estimator × scheme as one compiled function, and its state."""

from mvrc.engine.compile import Epoch as Epoch
from mvrc.engine.compile import compile_epoch as compile_epoch
from mvrc.engine.compile import first_core as first_core
from mvrc.engine.state import Core as Core
