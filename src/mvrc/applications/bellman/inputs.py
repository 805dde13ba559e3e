"""What a user gives of a Markov chain, checked or refused in a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from mvrc.support import checks

# Rows of probabilities may miss one by the rounding of float32 sums.
_ROUNDING = 1e-5


def discount(value: Any) -> float:
    """γ in [0, 1)."""
    gamma = checks.nonnegative("gamma", value)
    if gamma >= 1:
        raise ValueError(f"gamma must lie in [0, 1), not {checks.shown(value)}.")
    return gamma


def chain(transition: Any) -> np.ndarray:
    """P, S × S with rows that are probabilities."""
    matrix = numbers("transition", transition)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
        raise ValueError(
            f"transition must be an S × S matrix with S of at least 2, not of shape {matrix.shape}."
        )
    if matrix.min() < 0:
        row, column = np.unravel_index(matrix.argmin(), matrix.shape)
        raise ValueError(
            f"transition has the negative entry {matrix.min():g} in row {row}, column {column}; "
            f"probabilities must be at least 0."
        )
    sums = matrix.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > _ROUNDING:
        raise ValueError(
            f"transition has a row that does not sum to one (row {worst}: {sums[worst]:.6g}); "
            f"every row must be the probabilities of the next states."
        )
    return matrix


def reward_matrix(name: str, rewards: Any, states: int) -> np.ndarray:
    """R, S × S; expected rewards of length S count as R_{ij} = r_i."""
    given = numbers(name, rewards)
    if given.shape not in ((states,), (states, states)):
        raise ValueError(
            f"{name} must have the shape ({states},), expected rewards, or ({states}, {states}), "
            f"as transition has {states} states, not {given.shape}."
        )
    if given.ndim == 2:
        return given
    return np.broadcast_to(given[:, None], (states, states))


def feature_table(features: Any, states: int | None = None, name: str = "features") -> np.ndarray:
    """Φ, S × d with a row of features for each state."""
    table = numbers(name, features)
    if table.ndim != 2 or table.shape[0] != (table.shape[0] if states is None else states):
        wanted = "S × d" if states is None else f"{states} × d, a row for each state,"
        raise ValueError(f"{name} must be {wanted} not of shape {table.shape}.")
    if table.size == 0:
        raise ValueError(f"{name} must not be empty, and has the shape {table.shape}.")
    return table


def transitions(
    features: Any, rewards: Any, next_features: Any, gamma: Any, terminal: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """φ, φ − γφ' (φ where the transition is terminal) in float64, and r."""
    left = feature_table(features)
    following = feature_table(next_features, name="next_features")
    if following.shape != left.shape:
        raise ValueError(
            f"next_features must have the shape of features, {left.shape}, not {following.shape}."
        )
    gains = column("rewards", rewards, len(left), "features")
    going = ~flags("terminal", terminal, len(left), "features")
    after = (discount(gamma) * going)[:, None] * following  # float64, as the first factor is
    return left, left - after, gains


def column(name: str, values: Any, rows: int, owner: str) -> np.ndarray:
    """One number for each row."""
    given = numbers(name, values)
    if given.shape != (rows,):
        raise ValueError(
            f"{name} must have the shape ({rows},), one number for each row of {owner}, not "
            f"{given.shape}."
        )
    return given


def flags(name: str, values: Any, rows: int, owner: str) -> np.ndarray:
    """One boolean for each row; False everywhere when not given."""
    if values is None:
        return np.zeros(rows, bool)
    given = np.asarray(values)
    if given.shape != (rows,) or not np.isin(given, (0, 1)).all():
        raise ValueError(
            f"{name} must be {rows} booleans, one for each row of {owner}, not "
            f"{checks.shown(values)}."
        )
    return given.astype(bool)


def state_numbers(name: str, values: Any, states: int) -> np.ndarray:
    """Rows of the feature table, as integers."""
    given = np.asarray(values)
    if given.ndim != 1 or given.dtype.kind not in "iu" or given.size == 0:
        raise ValueError(
            f"{name} must be a list of integers, rows of features, not {checks.shown(values)}."
        )
    if given.min() < 0 or given.max() >= states:
        raise ValueError(
            f"{name} must be rows of features, from 0 to {states - 1}; they go from "
            f"{given.min()} to {given.max()}."
        )
    return given


def pick(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, not {checks.shown(value)}.")
    return bool(value)


def numbers(name: str, values: Any) -> np.ndarray:
    """An array of finite floating-point numbers; integers become float64."""
    if hasattr(values, "toarray"):
        raise ValueError(f"{name} is a sparse matrix; give it as an array, by .toarray().")
    try:
        array = np.asarray(values)
        array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array of numbers, not {checks.shown(values)}."
        ) from error
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinite values; all must be finite.")
    return array
