"""Data sets: loaders of public files, and seeded generators that need none."""

from mvrc.datasets.french import read_french as read_french
from mvrc.datasets.houses import Housing as Housing
from mvrc.datasets.houses import housing as housing
from mvrc.datasets.houses import simulate_housing as simulate_housing
from mvrc.datasets.industry import industry30 as industry30
from mvrc.datasets.industry import industry38 as industry38
from mvrc.datasets.markov import MarkovChain as MarkovChain
from mvrc.datasets.markov import random_mdp as random_mdp
from mvrc.datasets.returns import Returns as Returns
from mvrc.datasets.simulated import simulate_industry as simulate_industry
from mvrc.datasets.stocks import sp500 as sp500
