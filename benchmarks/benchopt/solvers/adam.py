"""Adam (Kingma & Ba 2015) on plug-in gradients: those of f(mean of g over a batch), biased."""

import numpy as np

from benchopt import BaseSolver


class Solver(BaseSolver):
    name = "adam"
    sampling_strategy = "iteration"
    parameters = {"step_size": [1e-3, 1e-2], "batch_size": [256]}

    def set_objective(self, returns, risk_aversion, l1):
        self.returns, self.kappa, self.l1 = returns, risk_aversion, l1

    def run(self, n_iter):
        """An iteration is a pass over the data."""
        rng = np.random.default_rng(0)
        days, d = self.returns.shape
        x, first, second, k = np.zeros(d), np.zeros(d), np.zeros(d), 0
        for _ in range(n_iter):
            for start in range(0, days, self.batch_size):
                if start == 0:
                    order = rng.permutation(days)
                batch = self.returns[order[start : start + self.batch_size]]
                mean = batch.mean(axis=0)
                centred = batch - mean
                gradient = 2 * self.kappa * centred.T @ (centred @ x) / len(batch) - mean
                gradient = gradient + self.l1 * np.sign(x)
                k += 1
                first = 0.9 * first + 0.1 * gradient
                second = 0.999 * second + 0.001 * gradient**2
                scaled = np.sqrt(second / (1 - 0.999**k)) + 1e-8
                x = x - self.step_size * first / (1 - 0.9**k) / scaled
        self.x = x

    def get_result(self):
        return {"x": self.x}
