"""Returns and their weights, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from mvrc.datasets.returns import Returns
from mvrc.support import checks

SMOOTHING = 0.05  # default width of a smoothed kink, as a share of a typical standard deviation


def check_returns(returns: Any, names: Any = None) -> np.ndarray:
    """Days × assets as an array of floats, or a sentence.

    Args:
        returns: an array, a DataFrame or `mvrc.datasets.Returns`.
        names: of the assets, when returns does not have them.
    """
    if isinstance(returns, Returns):
        return check_returns(returns.values, returns.assets)
    names = getattr(returns, "columns", None) if names is None else names
    values = _plain(returns)
    if values.dtype.kind not in "iuf" or values.ndim != 2:
        raise ValueError(
            f"returns must be a table of numbers, days × assets, not an array of dtype "
            f"{values.dtype} and shape {values.shape}."
        )
    days, assets = values.shape
    if days < 2:
        raise ValueError(f"returns must have at least two days, and has n_samples = {days}.")
    if assets < 2:
        raise ValueError(f"returns must have at least two assets, and has n_features = {assets}.")
    values = values if values.dtype in (np.float32, np.float64) else values.astype(float)
    broken = ~np.isfinite(values)
    if broken.any():
        raise ValueError(
            f"returns has {broken.sum()} missing values (NaN or inf) on {broken.any(1).sum()} "
            f"of {days} days, in {_columns(names, broken.any(0))}; drop those days or assets, "
            f"or fill them."
        )
    constant = np.ptp(values, axis=0) == 0
    if constant.any():
        raise ValueError(
            f"returns has {_columns(names, constant)} with the same return every day, an asset "
            f"without risk; remove it."
        )
    return values


def _plain(returns: Any) -> np.ndarray:
    """An array of numbers where one can be made: of objects, bools and pandas' nullable columns."""
    values = np.asarray(returns)
    if values.dtype.kind not in "Ob":
        return values
    try:
        missing = returns.isna() if hasattr(returns, "isna") else False  # None and pandas.NA too
        return np.where(missing, np.nan, values).astype(float)
    except (TypeError, ValueError):
        return values  # refused by its dtype


def _columns(names: Any, chosen: np.ndarray) -> str:
    """'column 3' or 'columns Oil, Coal, …' by name where there are names."""
    every = range(len(chosen)) if names is None else names
    listed = [str(name) for name, is_one in zip(every, chosen, strict=True) if is_one]
    more = ", …" if len(listed) > 5 else ""
    return f"column{'s' if len(listed) > 1 else ''} {', '.join(listed[:5])}{more}"


def scenarios(returns: Any, weights: Any, names: Any = None) -> tuple[np.ndarray, Any]:
    """Returns and weights of mean 1, without the scenarios of weight 0; None for equal ones."""
    values = check_returns(returns, names)
    if weights is None:
        return values, None
    given = np.asarray(weights)
    if given.ndim == 0 and given.dtype.kind in "iuf":
        given = np.full(len(values), given)  # as scikit-learn understands one number
    real = given.dtype.kind in "iuf" and given.shape == (len(values),)
    if not real or not np.all(np.isfinite(given)) or given.min() < 0 or (given > 0).sum() < 2:
        raise ValueError(
            f"sample_weight must be {len(values)} numbers of at least 0, one for each day, at "
            f"least two of them above 0, not {checks.shown(weights)}."
        )
    kept = given > 0
    values, given = check_returns(values[kept], names), given[kept]
    return values, (given / given.mean()).astype(values.dtype)


def kink_width(smoothing: Any, returns: np.ndarray, weights: Any = None) -> float:
    """μ: what was given, or a share of the median asset's standard deviation."""
    if smoothing is not None:
        return checks.positive("smoothing", smoothing)
    mean = np.average(returns, axis=0, weights=weights)
    return SMOOTHING * float(
        np.median(np.sqrt(np.average((returns - mean) ** 2, axis=0, weights=weights)))
    )
