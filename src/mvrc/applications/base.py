"""What the scikit-learn estimators share: they minimise, warn, and keep the result."""

from __future__ import annotations

import warnings
from typing import Any

from mvrc.problem import Composition
from mvrc.result import Result, Status
from mvrc.solve import minimize

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
except ImportError as error:
    raise ImportError("The estimators need scikit-learn: pip install 'mvrc[sklearn]'.") from error


class Minimizer(BaseEstimator):
    """An estimator whose fit is one call of `mvrc.minimize`.

    A subclass has the parameters `method`, `tol`, `max_epochs`, `random_state` and `verbose`, and
    calls `_minimize`, which sets `result_`, `objective_` and `n_iter_`.
    """

    method: Any  # recipe, name of `mvrc.METHODS`, or None for the default
    tol: float  # the gradient mapping's share of its value at the start at which the fit ends
    max_epochs: int
    random_state: Any  # as everywhere in scikit-learn
    verbose: bool  # show a progress bar

    def _minimize(
        self, problem: Composition, x0: Any, method: Any = None, record_every: int = 1
    ) -> Result:
        """Solve from x0; `method` is what None of the parameter means."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        result = minimize(
            problem,
            x0,
            method if self.method is None else self.method,
            epochs=self.max_epochs,
            rtol=self.tol,
            seed=seed,
            record_every=record_every,
            progress=bool(self.verbose),
        )
        if result.status is not Status.CONVERGED:
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
