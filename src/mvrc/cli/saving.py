"""What `mvrc solve` leaves: x, the history and a summary, each file written whole or not at all."""

from __future__ import annotations

import io
import json
import math
import os
import platform
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

import mvrc

STATE = "state"  # the folder of the checkpoint


def summary(result: mvrc.Result, method: str, options: dict[str, Any]) -> dict[str, Any]:
    """The run in one JSON object, x apart."""
    return {
        "status": result.status.name,
        "message": result.message,
        "objective": result.objective,
        "gradient_mapping": result.gradient_mapping,
        "epochs": result.epochs,
        "counts": result.counts._asdict(),
        "seconds": result.seconds,
        "wall_seconds": result.wall_seconds,
        "step_size": result.step_size,
        "notes": list(result.notes),
        "method": method,
        "options": options,
        "versions": {
            "mvrc": mvrc.__version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "device": jax.devices()[0].device_kind,
    }


def save(folder: Path, result: mvrc.Result, summed: dict[str, Any]) -> list[str]:
    """Write the files into the folder; their names."""
    solution = io.BytesIO()
    if isinstance(result.x, np.ndarray):
        name = "x.npy"
        np.save(solution, result.x)
    else:
        name = "x.npz"
        with zipfile.ZipFile(solution, "w") as archive:  # np.savez refuses an array named "file"
            for path, leaf in leaves(result.x).items():
                with archive.open(f"{path}.npy", "w") as entry:
                    np.lib.format.write_array(entry, leaf)
    files = {
        name: solution.getvalue(),
        "history.csv": result.history.to_csv().encode(),
        "result.json": f"{dumps(summed, indent=2)}\n".encode(),
    }
    for file, content in files.items():
        temporary = folder / f".{file}.tmp"
        temporary.write_bytes(content)
        os.replace(temporary, folder / file)
    return [*files, f"{STATE}/"]


def leaves(x: Any) -> dict[str, np.ndarray]:
    """The arrays of a pytree by their paths, such as `weights` or `layers.0`."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(x)
    }


def listed(x: Any) -> Any:
    """x as lists of numbers; a pytree as an object of them."""
    if isinstance(x, np.ndarray):
        return x.tolist()
    return {path: leaf.tolist() for path, leaf in leaves(x).items()}


def dumps(value: Any, indent: int | None) -> str:
    """JSON as the standard has it, where a number that is not finite is null."""
    return json.dumps(
        _finite(value), ensure_ascii=False, indent=indent, allow_nan=False, default=str
    )


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
