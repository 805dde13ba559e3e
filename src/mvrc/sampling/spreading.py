"""Data spread over devices and processes: `shard`, for arrays, and `Sharded`, for a reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mvrc.sampling.exchange import Holders, added_up
from mvrc.sampling.shards import MOST, ShardedSource
from mvrc.support import checks, precision

SHARDS = 64  # enough for 64 processes; their sums of g and g' are kept side by side for a moment
_AXIS = "shards"
_MOST_ROWS = 2**31 - 2**12  # numbers of rows have 32 bits


@checks.explain_keywords
def shard(
    data: Any, mesh: Mesh | None = None, axis: str | None = None, shards: int = SHARDS
) -> Any:
    """Arrays over all devices of this process, to be given as `inner_data` or `outer_data`.

    The rows are cut into so many shards, in their order. Sums are made shard by shard and added in
    their order, so a run gives the same bits on any number of devices. Arrays that lie on several
    devices already are taken as they are.

    Args:
        data: a pytree of arrays with one leading axis.
        mesh, axis: the devices, along an axis of a mesh; by default all of this process, or those
            on which the data are.
        shards: K.

    Examples:
        >>> spread = mvrc.shard(returns)  # over the devices of this process
        >>> problem_on_devices = mvrc.Composition(problem.inner, problem.outer, spread)
        >>> round(mvrc.minimize(problem_on_devices, x0).objective, 2)
        -0.08
    """
    shards = checks.integer("shards", shards)
    leaves = jax.tree_util.tree_leaves(data)
    lying = [a for a in leaves if lies_on_many(a)]
    if lying and mesh is None:
        return _as_they_are(data, lying[0].sharding, shards)
    chosen = _mesh(mesh, axis, jax.local_devices())
    if any(device.process_index != jax.process_index() for device in chosen[0].devices.flat):
        raise ValueError(
            "mesh has devices of other processes, which do not have the same arrays; use "
            "mvrc.Sharded(read_shard), where each process reads its own rows."
        )
    if not leaves or any(np.ndim(a) == 0 for a in leaves):
        raise ValueError("data must be a pytree of arrays whose first axis is the samples.")
    data = jax.tree_util.tree_map(np.asarray, data)
    counts = sorted({len(a) for a in jax.tree_util.tree_leaves(data)})
    if len(counts) > 1 or counts[0] == 0:
        raise ValueError(f"data has arrays with {counts} rows; all must have the same number.")
    K = min(shards, counts[0])
    starts = [counts[0] * k // K for k in range(K + 1)]

    def read(k: int) -> Any:
        return jax.tree_util.tree_map(lambda a: a[starts[k] : starts[k + 1]], data)

    return _spread("data", read, K, *chosen)


@checks.explain_keywords
def Sharded(
    read_shard: Callable[[int], Any],
    shards: int = SHARDS,
    mesh: Mesh | None = None,
    axis: str | None = None,
) -> Any:
    """Rows that each process reads for itself, to be given as `inner_data` or `outer_data`.

    K shards are shared out among the devices of all processes, each of which calls `read_shard` for
    its own alone. How many processes there are changes no bit of a run, and it may be resumed on
    another number of them; K is part of the problem.

    Args:
        read_shard: `read_shard(k)` gives the rows of shard k = 0, …, K − 1, a pytree of arrays with
            one leading axis. Shards may differ in size.
        shards: K.
        mesh, axis: the devices, along an axis of a mesh; by default all of all processes.

    Examples:
        >>> rows = mvrc.Sharded(lambda k: returns[50 * k : 50 * (k + 1)], shards=4)
        >>> shared = mvrc.Composition(problem.inner, problem.outer, rows)
        >>> round(mvrc.minimize(shared, x0).objective, 2)
        -0.08
    """
    if not callable(read_shard):
        raise TypeError(
            f"read_shard must be a function read_shard(k), not {checks.shown(read_shard)}."
        )
    shards = checks.integer("shards", shards)
    return _spread("read_shard", read_shard, shards, *_mesh(mesh, axis, jax.devices()))


def lies_on_many(array: Any) -> bool:
    """Whether an array is shared out among devices."""
    return isinstance(array, jax.Array) and len(array.sharding.device_set) > 1


def _mesh(mesh: Mesh | None, axis: str | None, devices: list[Any]) -> tuple[Mesh, str]:
    if mesh is None:
        if axis is not None:
            raise ValueError("axis is given without the mesh that it is an axis of; give mesh=.")
        return Mesh(np.array(devices), (_AXIS,)), _AXIS
    checks.instance("mesh", mesh, Mesh)
    if axis is None and len(mesh.axis_names) == 1:
        axis = mesh.axis_names[0]
    if axis is None or axis not in mesh.axis_names:
        names = ", ".join(repr(name) for name in mesh.axis_names)
        raise ValueError(f"axis must be one of the mesh's, {names}, not {axis!r}.")
    return mesh, axis


def _as_they_are(data: Any, sharding: Any, shards: int) -> ShardedSource:
    """Arrays whose rows lie on the devices of one axis of a mesh, in equal parts."""
    leaves = jax.tree_util.tree_leaves(data)
    same = all(
        lies_on_many(a) and isinstance(a.sharding, NamedSharding)
        and a.sharding.mesh == sharding.mesh
        and len([name for name in a.sharding.spec if name is not None]) == 1
        and isinstance(a.sharding.spec[0], str) and a.sharding.spec[0] == sharding.spec[0]
        and len(a) == len(leaves[0])
        for a in leaves
    )  # fmt: skip
    if not same:
        raise ValueError(
            "data lies on several devices, but not as rows along one axis of one mesh; give arrays "
            "with NamedSharding(mesh, PartitionSpec(axis)), or arrays of one device."
        )
    n, D = len(leaves[0]), sharding.mesh.shape[sharding.spec[0]]
    K = -(-min(shards, n) // D) * D
    if n // K < MOST:
        K = max(1, n // (MOST * D)) * D
    starts = tuple(n * k // K for k in range(K + 1))
    holders = Holders(sharding.mesh, sharding.spec[0], starts)
    if n // K < MOST:  # a piece would reach beyond the rows of a device
        if not all(a.is_fully_addressable for a in leaves):
            raise ValueError(
                f"data has {n:,} rows on {D} devices of several processes; that is too few to "
                f"share out, so give all of them to each process."
            )
        return shard(jax.tree_util.tree_map(np.asarray, data), sharding.mesh, sharding.spec[0])
    if not all(bool(_finite(a)) for a in leaves):
        raise ValueError("data contains NaN or infinite values; remove or fill them first.")
    return _source(holders, data)


@jax.jit
def _finite(array: Any) -> Any:
    return jax.numpy.all(jax.numpy.isfinite(array))


def _spread(name: str, read: Callable[[int], Any], K: int, mesh: Mesh, axis: str) -> ShardedSource:
    """The rows of all shards that this process has, on its devices."""
    blank = Holders(mesh, axis, tuple(range(K + 1)))
    firsts = blank.firsts()
    places = np.moveaxis(mesh.devices, mesh.axis_names.index(axis), 0).reshape(len(firsts) - 1, -1)
    here = jax.process_index()
    ours = [d for d, row in enumerate(places) if any(a.process_index == here for a in row)]
    read_ = {k: _checked(name, k, read(k)) for d in ours for k in range(firsts[d], firsts[d + 1])}
    sizes, shapes = np.zeros(K, np.int64), None
    for d in ours:  # replicas of another process have the same rows
        for k in range(firsts[d], firsts[d + 1]):
            leaf = jax.tree_util.tree_leaves(read_[k])[0]
            sizes[k] = len(leaf) if places[d][0].process_index == here else 0
            shape = (
                jax.tree_util.tree_structure(read_[k]),
                *((a.shape[1:], a.dtype) for a in jax.tree_util.tree_leaves(read_[k])),
            )
            if shapes not in (None, shape):
                raise ValueError(
                    f"{name}({k}) has rows unlike those of another shard: {_words(shape)} against "
                    f"{_words(shapes)}."
                )
            shapes = shape
    sizes = added_up(sizes)
    if sizes.sum() == 0:
        raise ValueError(f"{name} gives no rows at all.")
    if sizes.sum() > _MOST_ROWS:
        raise ValueError(
            f"{name} gives {sizes.sum():,} rows, and there may be {_MOST_ROWS:,} at most; put "
            f"several of them into one sample."
        )
    holders = Holders(mesh, axis, (0, *np.cumsum(sizes).tolist()))
    if not read_:
        raise ValueError(
            f"shards is {K}, fewer than the {len(places)} devices; each needs one shard at least."
        )
    return _placed(holders, read_, places)


def _checked(name: str, k: int, given: Any) -> Any:
    """The rows of a shard as NumPy arrays."""
    rows = jax.tree_util.tree_map(np.asarray, given)
    leaves = jax.tree_util.tree_leaves(rows)
    if not leaves or any(a.ndim == 0 or a.dtype.kind not in "fiub" for a in leaves):
        raise TypeError(
            f"{name}({k}) returned {checks.shown(given)}; it must return a pytree of numeric "
            f"arrays whose first axis is the samples."
        )
    if len({len(a) for a in leaves}) > 1:
        raise ValueError(
            f"{name}({k}) has arrays with {sorted({len(a) for a in leaves})} rows; all must have "
            f"the same number."
        )
    for a in leaves:
        good = np.isfinite(a).all(axis=tuple(range(1, a.ndim)))
        if not good.all():
            raise ValueError(
                f"{name}({k}) has NaN or infinite values in row {int(np.argmin(good))}; remove or "
                f"fill them first."
            )
    return rows


def _placed(holders: Holders, read_: dict[int, Any], places: np.ndarray) -> ShardedSource:
    """One buffer for each device of ours: its shards, and rows that no piece reads beyond."""
    first_rows, firsts = holders.first_rows(), holders.firsts()
    sizes = np.diff(holders.starts)
    length = max(
        int(np.max(np.maximum(holders.starts[k + 1], holders.starts[k] + MOST)) - first_rows[d])
        for d in range(holders.devices)
        for k in range(firsts[d], firsts[d + 1])
        if sizes[k]
    )
    example = next(iter(read_.values()))
    sharding = NamedSharding(holders.mesh, PartitionSpec(holders.axis))
    leaves, tree = jax.tree_util.tree_flatten(example)
    arrays = []
    with precision.follow(leaves):
        for i, like in enumerate(leaves):
            copies = []
            for d, row in enumerate(places):
                own = [a for a in row if a.process_index == jax.process_index()]
                if not own:
                    continue
                buffer = np.zeros((length, *like.shape[1:]), like.dtype)
                for k in range(firsts[d], firsts[d + 1]):
                    rows = jax.tree_util.tree_leaves(read_[k])[i]
                    start = holders.starts[k] - first_rows[d]
                    buffer[start : start + len(rows)] = rows
                used = int(first_rows[d + 1] - first_rows[d])
                buffer[used:] = buffer[0]  # real rows, as what is computed of them must be finite
                copies += [jax.device_put(buffer, device) for device in own]
            shape = (length * holders.devices, *like.shape[1:])
            arrays.append(jax.make_array_from_single_device_arrays(shape, sharding, copies))
    return _source(holders, jax.tree_util.tree_unflatten(tree, arrays))


def _source(holders: Holders, data: Any) -> ShardedSource:
    sharding = NamedSharding(holders.mesh, PartitionSpec(holders.axis))
    tables = np.concatenate([holders.table(d) for d in range(holders.devices)])
    own = np.array([holders.owned(d) for d in range(holders.devices)], np.int32)

    def put(array: np.ndarray) -> Any:
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    return ShardedSource(data, put(tables), put(own), holders)


def _words(shape: Any) -> str:
    return ", ".join(f"{dtype}{list(size)}" for size, dtype in shape[1:])
