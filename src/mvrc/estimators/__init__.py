"""Estimators of ∇F(z): a file each."""

from mvrc.estimators.base import JACOBIANS as JACOBIANS
from mvrc.estimators.base import Estimator as Estimator
from mvrc.estimators.base import chosen as chosen
from mvrc.estimators.ema import Ema as Ema
from mvrc.estimators.ema import ExtrapolatedEma as ExtrapolatedEma
from mvrc.estimators.exact import Exact as Exact
from mvrc.estimators.nasa import Nasa as Nasa
from mvrc.estimators.saga import Saga as Saga
from mvrc.estimators.sarah import Sarah as Sarah
from mvrc.estimators.scsc import Scsc as Scsc
from mvrc.estimators.spider import Spider as Spider
from mvrc.estimators.storm import Storm as Storm
from mvrc.estimators.svrg import Svrg as Svrg
