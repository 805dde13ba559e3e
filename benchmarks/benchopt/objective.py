"""The mean–variance portfolio with an ℓ₁ penalty, the paper's first problem."""

import numpy as np

from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "Composition: mean-variance portfolio"
    min_benchopt_version = "1.5"
    requirements = ["numpy"]
    parameters = {"risk_aversion, l1": [(0.2, 0.01)]}

    def set_data(self, returns):
        self.returns = returns
        self.mean = returns.mean(axis=0)
        self.centred = returns - self.mean

    def evaluate_result(self, x):
        """Φ(x), and the norm of its prox-gradient mapping at λ = 1/L."""
        risk = self.centred @ x
        gradient = 2 * self.risk_aversion * self.centred.T @ risk / len(risk) - self.mean
        step = 1 / (2 * self.risk_aversion * np.linalg.norm(self.centred, 2) ** 2 / len(risk))
        u = x - step * gradient
        moved = np.sign(u) * np.maximum(np.abs(u) - step * self.l1, 0)
        value = -self.mean @ x + self.risk_aversion * np.mean(risk**2) + self.l1 * np.abs(x).sum()
        return {"value": float(value), "mapping": float(np.linalg.norm(x - moved) / step)}

    def get_one_result(self):
        return {"x": np.zeros(self.returns.shape[1])}

    def get_objective(self):
        return {"returns": self.returns, "risk_aversion": self.risk_aversion, "l1": self.l1}
