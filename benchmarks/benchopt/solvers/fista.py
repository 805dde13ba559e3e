"""FISTA on the whole data in NumPy (Beck & Teboulle 2009), step 1/L."""

import numpy as np

from benchopt import BaseSolver


class Solver(BaseSolver):
    name = "fista-numpy"
    sampling_strategy = "iteration"

    def set_objective(self, returns, risk_aversion, l1):
        self.mean, self.l1 = returns.mean(axis=0), l1
        self.centred, self.kappa = returns - self.mean, risk_aversion

    def run(self, n_iter):
        days = len(self.centred)
        step = days / (2 * self.kappa * np.linalg.norm(self.centred, 2) ** 2)
        x = y = np.zeros(self.centred.shape[1])
        t = 1.0
        for _ in range(n_iter):
            gradient = 2 * self.kappa * self.centred.T @ (self.centred @ y) / days - self.mean
            u = y - step * gradient
            new = np.sign(u) * np.maximum(np.abs(u) - step * self.l1, 0)
            after = (1 + np.sqrt(1 + 4 * t * t)) / 2
            x, y, t = new, new + (t - 1) / after * (new - x), after
        self.x = x

    def get_result(self):
        return {"x": self.x}
