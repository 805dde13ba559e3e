"""SciPy's L-BFGS-B on x = x⁺ − x⁻ with x⁺, x⁻ ≥ 0, for which ‖x‖₁ is smooth."""

import numpy as np
from scipy.optimize import minimize

from benchopt import BaseSolver


class Solver(BaseSolver):
    name = "l-bfgs"
    sampling_strategy = "iteration"
    requirements = ["scipy"]

    def set_objective(self, returns, risk_aversion, l1):
        self.mean, self.l1 = returns.mean(axis=0), l1
        self.centred, self.kappa = returns - self.mean, risk_aversion

    def run(self, n_iter):
        d, days = self.centred.shape[1], len(self.centred)

        def value(z):
            x = z[:d] - z[d:]
            risk = self.centred @ x
            gradient = 2 * self.kappa * self.centred.T @ risk / days - self.mean
            both = np.concatenate([gradient + self.l1, self.l1 - gradient])
            return -self.mean @ x + self.kappa * np.mean(risk**2) + self.l1 * z.sum(), both

        options = {"maxiter": n_iter, "ftol": 0.0, "gtol": 1e-14}
        z = np.zeros(2 * d)
        if n_iter > 0:
            bounds = [(0, None)] * (2 * d)
            z = minimize(value, z, jac=True, bounds=bounds, method="L-BFGS-B", options=options).x
        self.x = z[:d] - z[d:]

    def get_result(self):
        return {"x": self.x}
