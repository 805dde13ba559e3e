"""What a practitioner asks of weights: bounds, a budget, groups, a least return, costs, cash."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from mvrc.regularizers import L1, Box, LinearConstraint, Regularizer
from mvrc.support import checks


@dataclasses.dataclass(frozen=True, eq=False)
class Limits:
    """Weights w with lower ≤ w ≤ upper and Σw = budget, and what else is asked of them.

    Without an argument: long only, all of the money. Assets are named by their columns, or by
    their positions; numbers per asset are one number, an array, or a dictionary by name, in which
    those left out have the default.

    Args:
        lower, upper: bounds of each weight; negative ones allow short sales.
        budget: the sum of the weights; or a pair (least, most).
        groups: by a name of the group (assets, least, most): bounds of the sum of their weights;
            None for no bound.
        least_return: of the mean portfolio return a day, in the unit of X.
        previous: the present weights.
        costs: of a trade, as a share of its size: Σ costs |w − previous| counts against the mean
            return. With a cost for each day held, divide by the days to the next trade. In the
            unit of X.
        cash: the return of money that is not invested, in the unit of X; the budget is then the
            most that is invested.

    Examples:
        >>> from mvrc.applications import Limits, MeanVariancePortfolio
        >>> limits = Limits(upper=0.5, previous=[0.4, 0.3, 0.3], costs=0.001)
        >>> weights = MeanVariancePortfolio(constraint=limits).fit(returns).weights_
        >>> bool(weights.max() < 0.5 + 1e-9)
        True
    """

    lower: Any = 0.0
    upper: Any = np.inf
    budget: Any = 1.0
    groups: Mapping[str, Any] | None = None
    least_return: float | None = None
    previous: Any = None
    costs: Any = 0.0
    cash: float | None = None

    @property
    def long_only(self) -> bool:
        """Whether ‖w‖₁ = Σw is given."""
        given = self.lower.values() if isinstance(self.lower, Mapping) else self.lower
        lower = np.asarray(list(given) if isinstance(self.lower, Mapping) else given)
        return np.ndim(self.budget) == 0 and self.cash is None and bool(np.all(lower >= 0))

    @property
    def most(self) -> float:
        """The largest sum of weights."""
        return float(np.max(self.budget))

    def regularizer(self, names: Any, mean: np.ndarray, factor: float = 1.0) -> Regularizer:
        """The constraints and costs as one regulariser.

        Args:
            names: of the assets; None: positions alone.
            mean: mean returns, less cash, in the unit that is minimised.
            factor: by which numbers in the unit of X become such.
        """
        d = len(mean)
        lower = self._each("lower", self.lower, 0.0, names, d)
        upper = self._each("upper", self.upper, np.inf, names, d)
        if np.any(lower > upper):
            i = int(np.argmax(lower > upper))
            raise ValueError(
                f"lower of Limits must be at most upper, and for {_called(names, i)} they are "
                f"{lower[i]:g} and {upper[i]:g}."
            )
        rows, least, most = [np.ones(d)], [self._budget()[0]], [self._budget()[1]]
        words = ["budget"]
        for name, group in (self.groups or {}).items():
            row, low, high = self._group(name, group, names, d)
            rows, least, most = [*rows, row], [*least, low], [*most, high]
            words.append(f"groups[{name!r}]")
        if self.least_return is not None:
            floor = factor * checks.finite("least_return of Limits", self.least_return)
            rate = factor * (self.cash or 0)
            rows, least, most = [*rows, mean], [*least, floor - self.most * rate], [*most, np.inf]
            words.append(f"least_return (less cash, times {factor:g})")
        found: Regularizer = Box(lower, upper) + LinearConstraint(
            np.stack(rows), np.array(least), np.array(most)
        )
        _refuse_impossible(found, words)
        costs = factor * self._each("costs", self.costs, 0.0, names, d)
        if np.any(costs < 0):
            raise ValueError(f"costs of Limits must be at least 0, not {checks.shown(self.costs)}.")
        if self.previous is None and np.any(costs > 0):
            raise ValueError("costs of Limits need previous, the weights from which is traded.")
        if self.previous is not None and np.any(costs > 0):
            found = found + L1(costs, self._each("previous", self.previous, 0.0, names, d))
        return found

    def _budget(self) -> tuple[float, float]:
        if np.ndim(self.budget) == 0:
            most = checks.finite("budget of Limits", self.budget)
            return (-np.inf if self.cash is not None else most), most
        pair = np.asarray(self.budget)
        if pair.shape != (2,) or pair.dtype.kind not in "iuf" or not pair[0] <= pair[1]:
            raise ValueError(
                f"budget of Limits must be a number or a pair (least, most), not "
                f"{checks.shown(self.budget)}."
            )
        return float(pair[0]), float(pair[1])

    def _each(self, word: str, given: Any, default: float, names: Any, d: int) -> np.ndarray:
        """A number for each asset."""
        if isinstance(given, Mapping):
            values = np.full(d, default)
            for name, value in given.items():
                values[_position(f"{word} of Limits", name, names, d)] = value
            return values
        try:
            values = np.asarray(given, float)
        except (TypeError, ValueError):
            values = np.asarray(np.nan)
        if values.shape not in ((), (d,)) or np.isnan(values).any():
            raise ValueError(
                f"{word} of Limits must be a number, {d} numbers (one for each asset) or a "
                f"dictionary by asset, not {checks.shown(given)}."
            )
        return np.broadcast_to(values, (d,)).copy()

    def _group(self, name: str, group: Any, names: Any, d: int) -> tuple[np.ndarray, float, float]:
        try:
            members, least, most = group
            ends = [-np.inf if least is None else least, np.inf if most is None else most]
            low, high = (float(end) for end in ends)
        except (TypeError, ValueError):
            low, high = np.nan, np.nan
        if not low <= high:
            raise ValueError(
                f"groups[{name!r}] of Limits must be (assets, least, most), with None for no "
                f"bound, not {checks.shown(group)}."
            )
        row = np.zeros(d)
        for member in [members] if isinstance(members, str) else members:
            row[_position(f"groups[{name!r}] of Limits", member, names, d)] = 1
        return row, low, high


def _refuse_impossible(r: Any, words: list[str]) -> None:
    """A sentence with the first of the rows that cannot be met beside those before it."""
    box, rows = r.terms
    for k, word in enumerate(words):
        first = LinearConstraint(rows.matrix[: k + 1], rows.lower[: k + 1], rows.upper[: k + 1])
        try:
            (box + first).check(box.lower)
        except ValueError:
            met = ", ".join(["lower and upper", *words[:k]])
            raise ValueError(
                f"{word} of Limits, in [{rows.lower[k]:.4g}, {rows.upper[k]:.4g}], cannot be met "
                f"together with {met}."
            ) from None


def _position(word: str, name: Any, names: Any, d: int) -> int:
    if names is not None and name in list(names):
        return list(names).index(name)
    whole = isinstance(name, int | np.integer) and not isinstance(name, bool)
    if whole and -d <= int(name) < d and (names is None or not isinstance(name, str)):
        return int(name)
    known = "positions 0 to " + str(d - 1) if names is None else ", ".join(map(str, names))
    near = "" if names is None else checks.nearest(name, map(str, names))
    raise ValueError(f"{word} names {name!r}{near}; the assets are {checks.cut(known)}.")


def _called(names: Any, i: int) -> str:
    return f"asset {i}" if names is None else str(names[i])
