"""Twenty companies of the S&P 500, daily since 1990, from skfolio's wheel."""

from benchopt import BaseDataset
from mvrc.datasets import sp500


class Dataset(BaseDataset):
    name = "sp500"

    def get_data(self):
        return {"returns": sp500().values}
