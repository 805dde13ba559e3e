"""What the scikit-learn estimators share: they minimise, warn, and keep the result."""

from __future__ import annotations

import warnings
from typing import Any

from mvrc.problem import Composition
from mvrc.run.minimize import minimize
from mvrc.solvers.result import Result, Status
from mvrc.support import checks, extras

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
except ImportError as error:
    raise extras.missing("The estimators need scikit-learn", "sklearn") from error


class Minimizer(BaseEstimator):
    """An estimator whose fit is one call of `mvrc.minimize`.

    A subclass has the parameters `method`, `tol`, `max_epochs`, `random_state` and `verbose`, and
    calls `_minimize`, which sets `result_`, `objective_` and `n_iter_`.
    """

    method: Any  # recipe, name of `mvrc.METHODS`, or None for `mvrc.Auto`
    tol: float  # the gradient mapping's share of its value at the start at which the fit ends
    max_epochs: int
    random_state: Any  # as everywhere in scikit-learn
    verbose: bool  # show a progress bar

    def _minimize(self, problem: Composition, x0: Any, output: str = "last") -> Result:
        """Solve from x0; the arguments are those of `mvrc.minimize`."""
        result = minimize(
            problem,
            x0,
            self.method,
            epochs=checks.integer("max_epochs", self.max_epochs, least=0),
            rtol=checks.positive("tol", self.tol),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            output=output,
            progress=bool(self.verbose),
        )
        if not _reached(result, self.tol):
            warnings.warn(
                f"{type(self).__name__} did not converge to tol={self.tol:g} in "
                f"max_epochs={self.max_epochs}: {result.message}",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.result_ = result
        self.objective_ = result.objective
        self.n_iter_ = result.epochs
        return result


def _reached(result: Result, tol: float) -> bool:
    """Whether a run converged, or ended so near that rounding may be why it did not."""
    mapping = result.history["gradient_mapping"]
    near = result.status is Status.PRECISION and mapping[-1] <= 100 * tol * mapping[0]
    return result.status is Status.CONVERGED or bool(near)
