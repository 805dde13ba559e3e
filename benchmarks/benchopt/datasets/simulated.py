"""Returns like those of industry portfolios, in percent."""

from benchopt import BaseDataset
from mvrc.datasets import simulate_industry


class Dataset(BaseDataset):
    name = "simulated"
    parameters = {"n, d": [(2000, 10), (24452, 30)], "seed": [0]}

    def get_data(self):
        return {"returns": simulate_industry(n=self.n, d=self.d, seed=self.seed).values}
