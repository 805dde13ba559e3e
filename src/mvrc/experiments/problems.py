"""The problem of an experiment: composition, starting point, smoothness and best value."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

import mvrc
from mvrc.applications import mean_variance, sparse_additive
from mvrc.applications.portfolio import exact_mean_variance
from mvrc.estimators import Spider
from mvrc.experiments import loading
from mvrc.experiments.sources import Source, is_own
from mvrc.experiments.spec import RESTARTED, Experiment, MethodSpec
from mvrc.methods import Start
from mvrc.schemes import ProximalScheme
from mvrc.support import checks
from mvrc.theory.smoothness import default_step_size


class Task(NamedTuple):
    """What the methods are given, and what they are measured by."""

    problem: mvrc.Composition
    x0: np.ndarray
    best: float  # Φ*, or the lowest value known
    exact: bool  # whether it is Φ*
    smoothness: float  # L of F


def task(experiment: Experiment, source: Source) -> Task:
    """The task of an experiment on a source."""
    return _task(experiment.problem, source)


@functools.lru_cache(maxsize=8)
def _task(problem: str, source: Source) -> Task:
    if is_own(problem):
        return _own(problem, source)
    return {"portfolio": _portfolio, "spam": _spam}[problem](source)


def refuse_unfit(experiment: Experiment, source: Source) -> None:
    """A sentence for a method that cannot be run on the problem, before anything is run."""
    problem, x0 = _composition(experiment.problem, source)
    tuned = () if experiment.tuning is None else experiment.tuning.methods
    with problem.precision(x0):
        geometry = problem.geometry(x0)
        for spec in dict.fromkeys((*experiment.methods, *experiment.controls, *tuned)):
            if spec.recipe in ("auto", "fista"):  # which fit, and would first look for a step
                continue
            try:
                recipe = method(spec, experiment, source.n)
                recipe.resolve(problem, geometry, Start(problem, x0))
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"{experiment.where} cannot run its method {spec.id!r}: {error}"
                ) from error


def _composition(problem: str, source: Source) -> tuple[mvrc.Composition, np.ndarray]:
    """Risk aversion 0.2, 0.01‖x‖₁, x₀ = 0; or λ = 1, μ = 0.001, x₀ = 0.01 everywhere."""
    if is_own(problem):
        return loading.load(problem, *(source.arrays if source.name != problem else ()))
    if problem == "portfolio":
        (returns,) = source.arrays
        return mean_variance(returns, 0.2, 0.01), np.zeros(returns.shape[1])
    X, y = source.arrays
    return sparse_additive(X, y, 1.0, 0.001), np.full(X.shape[1], 0.01)


def _portfolio(source: Source) -> Task:
    """Φ* from the covariance."""
    problem, x0 = _composition("portfolio", source)
    (returns,) = source.arrays
    _, best = exact_mean_variance(returns, 0.2, 0.01)
    smoothness = 0.4 * np.linalg.eigvalsh(np.cov(returns.T, bias=True))[-1]
    return Task(problem, x0, best, True, float(smoothness))


def _spam(source: Source) -> Task:
    """Nonconvex, so the best value is one that was met."""
    problem, x0 = _composition("spam", source)
    step = default_step_size(problem, x0)
    # Full passes with a short step find the same minimum from this start as every other method.
    result = mvrc.minimize(problem, x0, mvrc.FISTA(step, period=10), epochs=200, rtol=1e-10)
    return Task(problem, x0, result.objective, False, 1 / (4 * step))


def _own(target: str, source: Source) -> Task:
    """The best value is the lowest that `Auto` meets; L is estimated at x0."""
    problem, x0 = _composition(target, source)
    result = mvrc.minimize(problem, x0, epochs=1000)
    return Task(problem, x0, result.objective, False, 1 / (4 * default_step_size(problem, x0)))


def method(spec: MethodSpec, experiment: Experiment, n: int, step_size: float | None = None) -> Any:
    """The recipe with the experiment's sizes; `step_size` in place of the paper's."""
    if spec.recipe == "auto":
        return mvrc.Auto()
    if spec.recipe == "fista":
        return mvrc.FISTA(step_size)
    step = (experiment.step_size if step_size is None else step_size) * spec.step_factor
    if is_own(spec.recipe):
        made = loading.find(spec.recipe)[1](step)
        return made if hasattr(made, "resolve") else checks.instance(spec.recipe, made, mvrc.Method)
    batch, outer = experiment.batch_size, experiment.outer_batch_size
    sizes: dict[str, Any] = {"batch_size": batch, "period": experiment.steps(n)}
    if outer is not None:
        sizes["outer_batch_size"] = outer
    if spec.recipe == "asc-pg":
        assert experiment.asc_pg is not None
        own = experiment.asc_pg.step_size if step_size is None else step_size
        average = mvrc.Power(experiment.asc_pg.average, 4 / 9)
        return mvrc.ASCPG(own, average=average, **sizes)
    if spec.recipe == "civr" and outer is not None:  # its two-level form, which has no name
        small = mvrc.Sizes(batch, None, outer)
        return mvrc.Method(
            Spider(), ProximalScheme(step), small, period=experiment.steps(n), name="civr"
        )
    if spec.recipe == "mvrc":
        momentum: Any
        if spec.momentum is None:
            momentum = mvrc.Constant()
        else:
            restarted = spec.momentum == RESTARTED
            momentum = mvrc.Diminishing(restart=True) if restarted else spec.momentum
        # θ ≡ 1: the paper states no ε for its experiments.
        return mvrc.MVRC(step, momentum, epsilon=None, **sizes)
    return mvrc.METHODS[spec.recipe](step, **sizes)
