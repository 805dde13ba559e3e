"""Runs on shards in processes of their own: `python -m tests.sharded P rank port folder names…`.

The rows of shard k come from k alone, so that each process makes its own.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

K, D = 6, 4
SIZES = (300, 40, 0, 301, 7, 500)  # of the shards: unequal, one empty, most no multiple of a piece


def rows_of(k, dtype):
    import numpy as np

    rng = np.random.default_rng(k)
    return (rng.standard_normal((SIZES[k], D)) + 0.3).astype(dtype)


def outer_of(k, dtype):
    import numpy as np

    return (1 + np.random.default_rng(100 + k).random(9 + k)).astype(dtype)


def problem(dtype, two_level, whole=False, shards=K):
    """The same in shards, or as arrays."""
    import jax.numpy as jnp
    import numpy as np

    import mvrc

    def utility(x, row):
        u = row @ x["w"] + 0.1 * x["b"]
        return {"u": u, "v": jnp.stack([u**2, jnp.tanh(u)])}

    def risk(y, weight=1.0):
        return -y["u"] + weight * (y["v"][0] - 0.9 * y["u"] ** 2) + 0.1 * y["v"][1] ** 2

    def given(of, K):
        if whole:
            return np.concatenate([of(k, dtype) for k in range(K)])
        return mvrc.Sharded(lambda k: of(k, dtype), K)

    inner = given(rows_of, shards)
    outer = given(outer_of, 5) if two_level else None
    return mvrc.Composition(utility, risk, inner, outer, mvrc.L1(0.01))


def start(dtype):
    import numpy as np

    return {"w": np.full(D, 0.3, dtype), "b": np.zeros((), dtype)}


def methods():
    import mvrc

    step = {"step_size": 0.05}
    return {
        "mvrc": ("float64", False, mvrc.MVRC(**step)),
        "two-level": ("float32", True, mvrc.MVRC(jacobian="free", **step)),
        "civr": ("float64", False, mvrc.CIVR(**step)),
        "storm": ("float64", True, mvrc.STORM(period=20, **step)),
        "saga": ("float64", True, mvrc.CSAGA(period=30, **step)),
        "newton": ("float64", True, mvrc.Auto(steps="newton")),
        "secant": ("float32", False, mvrc.Auto(steps="secant")),
        "averaged": ("float64", False, mvrc.Auto(steps="averaged")),
        "few": ("float64", False, mvrc.MVRC(batch_size=3, period=6, **step)),
        "default": ("float64", False, mvrc.MVRC(refresh_size=400, batch_size=300)),
    }


def made(name, **options):
    """The numbers of a run."""
    import numpy as np

    import mvrc

    dtype, two_level, method = methods()[name]
    dtype = np.dtype(dtype)
    options = {"epochs": 3, "seed": 1} | options
    found = mvrc.minimize(problem(dtype, two_level), start(dtype), method=method, **options)
    bits = np.concatenate([np.ravel(a) for a in (found.x["w"], found.x["b"])]).tobytes().hex()
    return {
        "x": bits, "objective": found.objective.hex(), "mapping": found.gradient_mapping.hex(),
        "counts": list(found.counts), "epochs": len(found.history), "status": found.status.name,
    }  # fmt: skip


def many(name):
    """The numbers of two seeds in one program, and of a run that a callback ends."""
    import numpy as np

    import mvrc

    dtype, two_level, method = methods()[name]
    problem_, x0 = problem(np.dtype(dtype), two_level), start(np.dtype(dtype))
    two = mvrc.minimize_many(problem_, x0, method=method, epochs=2, seeds=[1, 2])
    asked = []
    ended = mvrc.minimize(
        problem_,
        x0,
        method=method,
        epochs=9,
        callback=lambda info: asked.append(1) or info.epoch > 2,
    )
    return [r.x["w"].tolist() for r in two], ended.status.name, len(ended.history), len(asked)


def collectives(name):
    """Of each program of a run, the sizes of what its collectives give, in numbers."""
    import re

    from mvrc.compiler import disk

    texts, compile = [], disk.compile

    def noted(lowered, *more):
        texts.append(lowered.as_text())
        return compile(lowered, *more)

    disk.compile = noted
    made(name, epochs=1)
    found = []
    for text in texts:
        shapes = re.findall(r'"stablehlo.all_gather"[^\n]*-> tensor<([0-9x]*)x\w+>', text)
        others = re.findall(r"stablehlo\.(all_reduce|reduce_scatter|all_to_all|collective)", text)
        assert not others, others
        found.append([int(eval(shape.replace("x", "*"))) for shape in shapes])
    return found


def processes(count, *words, devices=1, seconds=240.0, expected=0):
    """What process 0 of so many prints; all are ended in any case."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = f"--xla_force_host_platform_device_count={devices}"
    known = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    known.pop("JAX_ENABLE_X64", None)
    root = Path(__file__).parent.parent
    begun = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.sharded", str(count), str(rank), str(port), *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root, env=known,
        )
        for rank in range(count)
    ]  # fmt: skip
    until, said = time.monotonic() + seconds, []
    try:
        for process in begun:
            said.append(process.communicate(timeout=max(1.0, until - time.monotonic())))
    finally:
        for process in begun:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(begun, said, strict=True):
        assert process.returncode == expected, errors[-4000:]
    lines = said[0][0].splitlines()  # gloo writes there, too, and at any time
    return json.loads(next(line for line in lines if line.startswith("{")))


def main():
    count, rank, port, task, *names = sys.argv[1:]
    import jax

    if int(count) > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        where = f"127.0.0.1:{port}"
        jax.distributed.initialize(where, int(count), int(rank), initialization_timeout=120)
    task, _, folder = task.partition(":")
    if task == "run":
        found = {name: made(name) for name in names}
    elif task == "save":
        found = {name: made(name, epochs=2, checkpoint=f"{folder}/{name}") for name in names}
    elif task == "resume":
        found = {name: made(name, epochs=4, checkpoint=f"{folder}/{name}") for name in names}
    elif task == "straight":
        found = {name: made(name, epochs=4) for name in names}
    elif task == "many":
        found = {name: many(name) for name in names}
    elif task == "collectives":
        found = {name: collectives(name) for name in names}
    else:
        raise ValueError(task)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
