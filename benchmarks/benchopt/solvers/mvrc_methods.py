"""Methods of mvrc at their default steps; an iteration is an epoch."""

import numpy as np

import mvrc
from benchopt import BaseSolver
from mvrc.applications import mean_variance


class Solver(BaseSolver):
    name = "mvrc"
    sampling_strategy = "iteration"
    parameters = {"method": ["auto", "mvrc", "civr", "vrsc-pg", "c-saga", "storm", "fista"]}

    def set_objective(self, returns, risk_aversion, l1):
        self.problem = mean_variance(returns, risk_aversion, l1)
        self.x0 = np.zeros(returns.shape[1])

    def warm_up(self):
        self.run(1)  # compiles

    def run(self, n_iter):
        # No measuring inside: the benchmark measures.
        epochs = {"epochs": max(n_iter, 0), "record_every": max(n_iter, 1)}
        self.x = mvrc.minimize(self.problem, self.x0, self.method, **epochs).x

    def get_result(self):
        return {"x": self.x}
