"""Portfolios: mean against variance, semideviation or conditional value at risk."""

from mvrc.applications.portfolio.problems import mean_cvar as mean_cvar
from mvrc.applications.portfolio.problems import mean_semideviation as mean_semideviation
from mvrc.applications.portfolio.problems import mean_variance as mean_variance
from mvrc.applications.portfolio.reference import exact_mean_variance as exact_mean_variance
