"""Applications against what a user would take instead, in turns in one process."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.row import Row


def run(full: bool) -> Iterator[Row]:
    """Some minutes, so only in the full run."""
    if not full:
        return
    warnings.simplefilter("ignore")
    yield from _embedding()
    yield from _portfolios()


def _embedding() -> Iterator[Row]:
    from sklearn.datasets import load_digits
    from sklearn.manifold import TSNE, trustworthiness

    from mvrc.applications import StochasticNeighborEmbedding

    X, _ = load_digits(return_X_y=True)
    first, ours = _time(lambda: StochasticNeighborEmbedding(random_state=0).fit_transform(X))
    again, _ = _time(lambda: StochasticNeighborEmbedding(random_state=0).fit_transform(X))
    other, theirs = _time(lambda: TSNE(random_state=0).fit_transform(X))
    good, best = (trustworthiness(X, E, n_neighbors=5) for E in (ours, theirs))
    yield Row(
        "embedding of 1,797 digits: time by scikit-learn's TSNE", first / other, "x", most=1,
        note=f"{first:.1f} s with compilation ({again:.1f} s again) against {other:.1f} s",
    )  # fmt: skip
    yield Row(
        "embedding of 1,797 digits: trustworthiness below TSNE", best - good, "", most=0.03,
        note=f"{good:.4f} against {best:.4f}, five neighbours",
    )  # fmt: skip


def _portfolios() -> Iterator[Row]:
    from skfolio import RiskMeasure
    from skfolio.optimization import MeanRisk, ObjectiveFunction

    from mvrc.applications import MeanCVaRPortfolio, MeanSemideviationPortfolio
    from mvrc.datasets import simulate_industry, sp500

    data = {"sp500": sp500().values, "14,640 × 30": simulate_industry(n=14640).values}
    models = {
        "mean–CVaR": (MeanCVaRPortfolio, RiskMeasure.CVAR),
        "mean–semideviation": (MeanSemideviationPortfolio, RiskMeasure.SEMI_DEVIATION),
    }
    for title, (kind, measure) in models.items():
        for name, returns in data.items():
            first, model = _time(lambda kind=kind, R=returns: kind().fit(R))
            again, _ = _time(lambda kind=kind, R=returns: kind().fit(R))
            peer = MeanRisk(
                risk_measure=measure,
                objective_function=ObjectiveFunction.MAXIMIZE_UTILITY,
                risk_aversion=1.0,
            )
            other, peer = _time(lambda peer=peer, R=returns: peer.fit(R))
            ours = model.score(returns)
            model.weights_ = np.asarray(peer.weights_)
            best = model.score(returns)
            yield Row(
                f"{title}, {name}: loss of utility against skfolio", (best - ours) / abs(best), "",
                most=1e-3, note="relative, without smoothing, both at their defaults",
            )  # fmt: skip
            yield Row(
                f"{title}, {name}: time by skfolio's", again / other, "x",
                note=f"{again:.2f} s ({first:.2f} s the first time) against {other:.2f} s",
            )  # fmt: skip


def _time(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result
