"""The paper's applications: problems for optimisers, scikit-learn estimators for everyone else.

The problems need nothing but JAX; scikit-learn is imported when an estimator is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mvrc.applications.additive import sparse_additive as sparse_additive
from mvrc.applications.additive import sparse_additive_convex as sparse_additive_convex
from mvrc.applications.additive import sparse_additive_root as sparse_additive_root
from mvrc.applications.bellman import bellman as bellman
from mvrc.applications.bellman import bellman_coupled as bellman_coupled
from mvrc.applications.bellman import bellman_projected as bellman_projected
from mvrc.applications.bellman import bellman_simulator as bellman_simulator
from mvrc.applications.bellman import bellman_stream as bellman_stream
from mvrc.applications.bellman import bellman_transitions as bellman_transitions
from mvrc.applications.embedding import neighbor_embedding as neighbor_embedding
from mvrc.applications.embedding import (
    neighbor_embedding_coupled as neighbor_embedding_coupled,
)
from mvrc.applications.portfolio import Limits as Limits
from mvrc.applications.portfolio import mean_cvar as mean_cvar
from mvrc.applications.portfolio import mean_entropic as mean_entropic
from mvrc.applications.portfolio import mean_evar as mean_evar
from mvrc.applications.portfolio import mean_semideviation as mean_semideviation
from mvrc.applications.portfolio import mean_variance as mean_variance

if TYPE_CHECKING:
    from mvrc.applications.additive.estimator import (
        SparseAdditiveRegressor as SparseAdditiveRegressor,
    )
    from mvrc.applications.bellman.estimator import LinearValueFunction as LinearValueFunction
    from mvrc.applications.embedding.estimator import (
        StochasticNeighborEmbedding as StochasticNeighborEmbedding,
    )
    from mvrc.applications.portfolio.estimator import EntropicPortfolio as EntropicPortfolio
    from mvrc.applications.portfolio.estimator import MeanCVaRPortfolio as MeanCVaRPortfolio
    from mvrc.applications.portfolio.estimator import MeanEVaRPortfolio as MeanEVaRPortfolio
    from mvrc.applications.portfolio.estimator import (
        MeanSemideviationPortfolio as MeanSemideviationPortfolio,
    )
    from mvrc.applications.portfolio.estimator import MeanVariancePortfolio as MeanVariancePortfolio
    from mvrc.applications.portfolio.for_skfolio import ForSkfolio as ForSkfolio
    from mvrc.applications.ranking.estimator import (
        AveragePrecisionClassifier as AveragePrecisionClassifier,
    )

_ESTIMATORS = {  # where each is defined
    "AveragePrecisionClassifier": "ranking.estimator",
    "EntropicPortfolio": "portfolio.estimator",
    "ForSkfolio": "portfolio.for_skfolio",
    "LinearValueFunction": "bellman.estimator",
    "MeanCVaRPortfolio": "portfolio.estimator",
    "MeanEVaRPortfolio": "portfolio.estimator",
    "MeanSemideviationPortfolio": "portfolio.estimator",
    "MeanVariancePortfolio": "portfolio.estimator",
    "SparseAdditiveRegressor": "additive.estimator",
    "StochasticNeighborEmbedding": "embedding.estimator",
}


def __getattr__(name: str) -> Any:
    if name not in _ESTIMATORS:
        raise AttributeError(f"module 'mvrc.applications' has no attribute {name!r}")
    module = importlib.import_module(f"mvrc.applications.{_ESTIMATORS[name]}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_ESTIMATORS])
