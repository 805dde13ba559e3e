"""Portfolios: mean against variance, semideviation, CVaR, entropic risk or EVaR."""

from mvrc.applications.portfolio.limits import Limits as Limits
from mvrc.applications.portfolio.problems import mean_cvar as mean_cvar
from mvrc.applications.portfolio.problems import mean_entropic as mean_entropic
from mvrc.applications.portfolio.problems import mean_evar as mean_evar
from mvrc.applications.portfolio.problems import mean_semideviation as mean_semideviation
from mvrc.applications.portfolio.problems import mean_variance as mean_variance
from mvrc.applications.portfolio.reference import exact_mean_variance as exact_mean_variance
