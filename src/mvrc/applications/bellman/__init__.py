"""Linear value functions: minimise the mean squared Bellman residual of a Markov chain."""

from mvrc.applications.bellman.coupled import bellman_coupled as bellman_coupled
from mvrc.applications.bellman.coupled import bellman_simulator as bellman_simulator
from mvrc.applications.bellman.problems import bellman as bellman
from mvrc.applications.bellman.problems import bellman_projected as bellman_projected
from mvrc.applications.bellman.problems import bellman_stream as bellman_stream
from mvrc.applications.bellman.problems import bellman_transitions as bellman_transitions
from mvrc.applications.bellman.problems import table_simulator as table_simulator
from mvrc.applications.bellman.reference import exact_values as exact_values
from mvrc.applications.bellman.reference import least_squares as least_squares
from mvrc.applications.bellman.reference import lstd as lstd
from mvrc.applications.bellman.reference import lstd_transitions as lstd_transitions
