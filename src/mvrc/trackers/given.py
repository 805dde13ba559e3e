"""A batch that the user hands over, as estimators see it."""

from __future__ import annotations

from typing import Any

import jax

from mvrc.sampling import Batch


class Given(Batch):
    """Samples along the leading axis of some arrays.

    Args:
        name: of the argument, for messages.
        rows: the arrays.
        axis_name: of the devices among which the batch is shared out; None for one.
        most: samples that are evaluated at once; None: as many as memory allows.
    """

    def __init__(
        self, name: str, rows: Any, axis_name: Any = None, most: int | None = None
    ) -> None:
        leaves = jax.tree_util.tree_leaves(rows)
        lengths = {leaf.shape[0] if getattr(leaf, "ndim", 0) else None for leaf in leaves}
        if len(lengths) != 1 or None in lengths or 0 in lengths:
            shapes = [getattr(leaf, "shape", ()) for leaf in leaves]
            raise ValueError(
                f"{name} has arrays of shapes {shapes}; all must have one leading axis, of the "
                f"samples."
            )
        self.rows, self.axis_name = rows, axis_name
        self.size = lengths.pop()
        self._most = self.size if most is None else most

    def piece(self, start: Any, length: int) -> Any:
        if length == self.size:
            return self.rows
        cut = lambda a: jax.lax.dynamic_slice_in_dim(a, start, length)  # noqa: E731
        return jax.tree_util.tree_map(cut, self.rows)

    def piece_limit(self) -> int:
        return min(self.size, self._most)

    def at_once(self, most: int) -> bool:
        return self.size <= min(most, self._most)

    def sum(self, part: Any, most: int) -> Any:
        return super().sum(part, min(most, self._most))

    def joined(self, mean: Any) -> Any:
        return mean if self.axis_name is None else jax.lax.pmean(mean, self.axis_name)

    def half(self, second: bool) -> Given:
        """One of its two halves, of an even number of samples."""
        middle = self.size // 2
        own = slice(middle, None) if second else slice(middle)
        rows = jax.tree_util.tree_map(lambda a: a[own], self.rows)
        return Given("batch", rows, self.axis_name, self._most)

    def first(self, count: int) -> Given:
        """The first so many samples."""
        rows = jax.tree_util.tree_map(lambda a: a[:count], self.rows)
        return Given("batch", rows, self.axis_name, self._most)
