"""A regulariser for each part of x."""

from __future__ import annotations

import typing
from typing import Any

import numpy as np

from mvrc.regularizers.base import Regularizer, flat_numpy, shapes
from mvrc.regularizers.penalties import Zero
from mvrc.support import checks


class Parts(Regularizer):
    """r(x) = Σ r_name(x[name]) for a dictionary x; parts without a regulariser are free.

    The prox is that of each part, as the sum has no terms in common:
    `Parts(weights=Simplex())` holds x["weights"] on the simplex and leaves x["threshold"] alone.

    Examples:
        >>> r = mvrc.Parts(w=mvrc.L1(0.5))
        >>> r.prox({"w": np.array([2.0, -0.3]), "b": np.array([1.0])}, 1.0)
        {'w': array([1.5, 0. ]), 'b': array([1.])}
    """

    each: dict[str, Regularizer]

    @typing.no_type_check  # its own sentence says what a part may be
    def __init__(self, **each: Regularizer) -> None:
        for name, r in each.items():
            if not isinstance(r, Regularizer):
                raise TypeError(
                    f"{name} of Parts must be a Regularizer such as mvrc.L1(0.01), not "
                    f"{checks.shown(r)}."
                )
        self.each = each

    def check(self, x: Any) -> None:
        if not isinstance(x, dict) or not set(self.each) <= set(x):
            raise ValueError(
                f"x of Parts must be a dictionary that has {', '.join(map(repr, self.each))}, not "
                f"{shapes(x)}."
            )
        for name, r in self.each.items():
            r.check(x[name])

    def value(self, x: Any) -> Any:
        return sum(r.value(x[name]) for name, r in self.each.items())

    def prox(self, x: Any, step: Any) -> Any:
        steps = step if isinstance(step, dict) else dict.fromkeys(x, step)
        return {
            **x,
            **{name: type(r).prox(r, x[name], steps[name]) for name, r in self.each.items()},
        }

    def prox_derivative(self, image: Any) -> np.ndarray | None:
        size, start = flat_numpy(image).size, 0
        found = np.zeros((size, size))
        for name in sorted(image):  # the order of the leaves
            block = self.each.get(name, Zero()).prox_derivative(image[name])
            if block is None:
                return None
            part = slice(start, start + len(block))
            found[part, part], start = block, part.stop
        return found

    def groups(self, x: Any) -> np.ndarray:
        labels: list[np.ndarray] = []
        for name in sorted(x):  # the order of the leaves
            own = self.each.get(name, Zero()).groups(x[name])
            labels.append(own + sum(part.max() + 1 for part in labels))
        return np.concatenate(labels)

    @property
    def numpy(self) -> bool:
        return all(r.numpy for r in self.each.values())
