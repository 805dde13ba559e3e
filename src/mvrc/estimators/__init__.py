"""Estimators of ∇F(z): a file each."""

from mvrc.estimators.base import Estimator as Estimator
from mvrc.estimators.spider import Spider as Spider
