"""What the scikit-learn estimators share: they minimise, warn, and keep the result."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from mvrc import checks
from mvrc.problem import Composition
from mvrc.result import Result, Status
from mvrc.solve import minimize

try:
    from scipy.sparse.linalg import svds  # scikit-learn brings scipy
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
        self,
        problem: Composition,
        x0: Any,
        method: Any = None,
        record_every: int = 1,
        output: str = "last",
        fallback: Callable[[], Any] | None = None,
    ) -> Result:
        """Solve from x0.

        Args:
            problem, x0, record_every, output: as for `mvrc.minimize`.
            method: what None of the parameter means.
            fallback: gives the method that is tried after that one, if it has not converged or
                ended above the start; the run with the lower objective is kept.
        """
        tol = checks.positive("tol", self.tol)
        epochs = checks.whole("max_epochs", self.max_epochs, least=0)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))

        def solve(method: Any) -> Result:
            return minimize(
                problem,
                x0,
                method,
                epochs=epochs,
                rtol=tol,
                seed=seed,
                record_every=record_every,
                output=output,
                progress=bool(self.verbose),
            )

        result = solve(method if self.method is None else self.method)
        if fallback is not None and self.method is None and not _descended(result):
            again = solve(fallback())
            result = again if again.objective <= result.objective else result
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


def _descended(result: Result) -> bool:
    """Whether a run converged, and not above its start."""
    objective = result.history["objective"]
    return result.status is Status.CONVERGED and bool(objective[-1] <= objective[0])


def largest_square(rows: np.ndarray) -> float:
    """The largest eigenvalue of rowsᵀrows/n, or a little more: the curvature of squares."""
    small = min(rows.shape)
    if small < 100:
        largest = np.linalg.norm(rows, 2)
    else:
        start = np.random.default_rng(0).standard_normal(small)
        largest = svds(rows, k=1, tol=1e-3, v0=start, return_singular_vectors=False)[0]
    return float(1.01 * largest**2 / len(rows)) or 1.0  # all may be zero
