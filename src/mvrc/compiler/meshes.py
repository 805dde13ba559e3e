"""Programs on all devices of a mesh, each with its part of what is shared out among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from mvrc.support.partition import spread_over


def everywhere(function: Callable[..., Any], specs: Any) -> tuple[Any, Callable[..., Any], Any]:
    """The mesh, if an argument is shared out along an axis of one, and the function on all devices.

    Other arguments, and what it returns, are the same on each. Without such an argument the mesh is
    None, and the function as it was.
    """
    leaves = jax.tree_util.tree_leaves(specs)
    meshes = {s.sharding.mesh for s in leaves if spread_over(s) is not None}
    if not meshes:
        return None, function, specs
    if len(meshes) > 1:
        raise ValueError("inner_data and outer_data are on two meshes; put both on one.")
    mesh = meshes.pop()
    axes = [PartitionSpec() if spread_over(s) is None else s.sharding.spec for s in leaves]
    tree = jax.tree_util.tree_structure(specs)
    inside = jax.tree_util.tree_unflatten(tree, axes)
    each = jax.shard_map(
        function, mesh=mesh, in_specs=inside, out_specs=PartitionSpec(), check_vma=False
    )
    placed = [
        jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=NamedSharding(mesh, own))
        for s, own in zip(leaves, axes, strict=True)
    ]
    return mesh, each, jax.tree_util.tree_unflatten(tree, placed)


def shapes(function: Callable[..., Any], specs: Any) -> Any:
    """Shapes and dtypes of what the function returns, as `jax.eval_shape`."""
    _, function, specs = everywhere(function, specs)
    found = jax.eval_shape(function, *specs)
    return jax.tree_util.tree_map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), found)


def placed(tree: Any, mesh: Any) -> Any:
    """What is not on the mesh yet is put on each of its devices."""
    return jax.tree_util.tree_map(lambda a: _placed(a, mesh), tree)


def _placed(array: Any, mesh: Any) -> Any:
    if isinstance(array, jax.Array) and isinstance(array.sharding, NamedSharding):
        return array
    array = np.asarray(array)
    # Not `device_put`, which compares the arrays of all processes.
    copies = [jax.device_put(array, device) for device in mesh.local_devices]
    whole = NamedSharding(mesh, PartitionSpec())
    return jax.make_array_from_single_device_arrays(array.shape, whole, copies)
