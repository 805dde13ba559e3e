"""Every estimator with every scheme: it runs, or `Method.resolve` says in a sentence why not."""

from __future__ import annotations

import numpy as np
import optax
import pytest

import mvrc
from cases import ONE, TWO
from mvrc import estimators, schemes
from mvrc.schedules import Constant, Power

ESTIMATORS = {
    "spider": estimators.Spider(),
    "spider, free": estimators.Spider("free"),
    "storm": estimators.Storm(Power(0.5)),
    "svrg": estimators.Svrg(),
    "saga": estimators.Saga(),
    "saga, points": estimators.Saga("points"),
    "sarah": estimators.Sarah(),
    "ema": estimators.Ema(Power(0.5)),
    "extrapolated ema": estimators.ExtrapolatedEma(Power(0.5)),
    "scsc": estimators.Scsc(Power(0.5)),
    "nasa": estimators.Nasa(Power(0.5), 1.0, 1.0),
    "exact": estimators.Exact(),
}
STEP = 0.01
SCHEMES = {
    "proximal": schemes.ProximalScheme(STEP),
    "normalised": schemes.ProximalScheme(STEP, 0.1),
    "momentum": schemes.MomentumScheme(STEP, Constant(0.8)),
    "averaging": schemes.AveragingScheme(STEP, Power(0.5)),
    "fista": schemes.FistaScheme(STEP),
    "katyusha": schemes.KatyushaScheme(STEP, 0.1),
    "admm": schemes.AdmmScheme(STEP, None, 1.0),
    "schedule-free": schemes.ScheduleFreeScheme(STEP, 1.0, False, False),
    "online Adam": schemes.OnlineAdamScheme(STEP, 1.0, False),
    "optax": mvrc.OptaxScheme(optax.adam(STEP), STEP),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", [ONE, TWO], ids=lambda c: c.name)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_product_runs_or_is_refused(scheme, estimator, case):
    method = mvrc.Method(ESTIMATORS[estimator], SCHEMES[scheme], period=3)
    result = mvrc.minimize(case.problem, case.x0, method, epochs=2)
    assert np.isfinite(result.objective)
    assert result.epochs == 2 or result.status is not mvrc.Status.EPOCHS
