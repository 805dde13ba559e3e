"""Networks on scikit-learn's digits, and far starts in float32: is what `Auto` says true?

The 1,797 digits are repeated with noise to n = 33,000. After CONVERGED SciPy's L-BFGS goes on from
the answer on all rows in float64; the status is false where that gains more than four times the
tolerance that docs/auto.md states.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree
from sklearn.datasets import load_digits

import mvrc
from benchmarks import paths
from benchmarks.report import machine

RESULTS, PAGE = paths.RESULTS / "networks.json", paths.DOCS / "auto.md"
MARK = "<!-- networks -->"
ROWS, SECONDS = 33_000, 30.0
SLACK = 4.0  # of a gain against the tolerance, as no model is exact
ITERATIONS = 2000  # of L-BFGS


class Case(NamedTuple):
    """A problem in any dtype, and a start."""

    inner: Callable[..., Any]
    outer: Callable[..., Any]
    data: Any
    x0: Any

    def at(self, dtype: Any) -> tuple[mvrc.Composition, Any]:
        def cast(a: Any) -> Any:
            return a.astype(dtype) if a.dtype.kind == "f" else a

        data, x0 = jax.tree_util.tree_map(cast, (self.data, self.x0))
        return mvrc.Composition(self.inner, self.outer, data), x0


def digits(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    images, labels = load_digits(return_X_y=True)
    drawn = rng.integers(0, len(images), rows)
    noise = 0.3 * rng.standard_normal((rows, images.shape[1]))
    return {"a": images[drawn] / 16 + noise, "label": labels[drawn].astype(np.int32)}


def network(sizes: tuple[int, ...], seed: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases as PyTorch and Equinox draw them."""
    rng = np.random.default_rng(seed)
    return [
        (rng.uniform(-1, 1, (m, k)) / np.sqrt(k), rng.uniform(-1, 1, m) / np.sqrt(k))
        for k, m in itertools.pairwise(sizes)
    ]


def scores(x: Any, a: Any) -> Any:
    for weights, bias in x[:-1]:
        a = jax.nn.relu(weights @ a + bias)
    return x[-1][0] @ a + x[-1][1]


def cross_entropy(x: Any, s: Any) -> Any:
    z = scores(x, s["a"])
    return (jax.nn.logsumexp(z) - z[s["label"]])[None]


def moments(x: Any, s: Any) -> Any:
    """First and second moments of the score, and the number, of eights and of the others."""
    z = scores(x, s["a"])[0]
    eight = (s["label"] == 8).astype(z.dtype)
    each = jnp.stack([jnp.ones_like(z), z, z**2])
    return jnp.concatenate([eight * each, (1 - eight) * each])


def margin(y: Any) -> Any:
    """Both variances of the score, and how far its two means are from 1 apart."""
    up, down = y[1] / y[0], y[4] / y[3]
    spread = y[2] / y[0] - up**2 + y[5] / y[3] - down**2
    return spread + jnp.maximum(1 + down - up, 0) ** 2


def _residual(x: Any, s: Any) -> Any:
    return s["a"] @ x - s["b"]


def _fourth(x: Any, s: Any) -> Any:
    return (_residual(x, s) ** 4)[None]


def _log_cosh(x: Any, s: Any) -> Any:
    size = jnp.abs(_residual(x, s))
    return (size + jnp.log1p(jnp.exp(-2 * size)))[None]


def networks(rows: int = ROWS, wide: int = 64, auc: int = 76) -> dict[str, Case]:
    data, x0 = digits(rows), network((64, wide, 10))
    return {
        "cross-entropy": Case(cross_entropy, lambda y: y[0], data, x0),
        "tilted": Case(
            lambda x, s: jnp.exp(cross_entropy(x, s)), lambda y: jnp.log(y[0]), data, x0
        ),
        "AUC margin": Case(moments, margin, data, network((64, auc, 1))),
    }


def far_starts() -> dict[str, Case]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((200, 3))
    data = {"a": a, "b": a @ [1.0, 2.0, 3.0] + 0.1 * rng.standard_normal(200)}
    way = rng.standard_normal(3)
    return {
        "fourth powers from 10⁴": Case(_fourth, lambda y: y[0], data, 1e4 * way),
        "log cosh from 10⁶": Case(_log_cosh, lambda y: y[0], data, 1e6 * way),
    }


def tolerance(result: mvrc.Result, dtype: Any) -> float:
    """What CONVERGED allows, as docs/auto.md states it."""
    eps, core = float(np.finfo(dtype).eps), result.state.core
    scale = float(getattr(core, "full_passes", core).scale)
    return max(eps**0.75 * abs(result.objective), 4 * eps * scale)


def gain(case: Case, x: Any, iterations: int = ITERATIONS) -> float:
    """How much lower L-BFGS gets from x, in float64."""
    problem, _ = case.at(np.float64)
    with jax.enable_x64(True):
        data = jax.tree_util.tree_map(jnp.asarray, problem.inner_data)
        flat, tree = ravel_pytree(jax.tree_util.tree_map(lambda a: np.asarray(a, float), x))
        each = jax.vmap(case.inner, (None, 0))
        both = jax.jit(jax.value_and_grad(lambda x: case.outer(each(tree(x), data).mean(axis=0))))

        def numbers(x: Any) -> tuple[float, np.ndarray]:
            value, slope = both(x)
            return float(value), np.asarray(slope)

        ended = scipy.optimize.minimize(
            numbers, np.asarray(flat), jac=True, method="L-BFGS-B",
            options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 0, "gtol": 0},
        )  # fmt: skip
        return numbers(flat)[0] - float(ended.fun)


def run(case: Case, dtype: Any, steps: str, seconds: float = SECONDS) -> dict[str, Any]:
    problem, x0 = case.at(dtype)
    result = mvrc.minimize(problem, x0, mvrc.Auto(steps), seconds=seconds)
    history, n = result.history, problem.n or 1
    row = {
        "status": result.status.name, "objective": float(result.objective),
        "seconds": float(history["wall_seconds"][-1]), "epochs": result.epochs,
        "passes": result.counts.inner_values / n,
        "jacobian passes": result.counts.inner_jacobians / n,
    }  # fmt: skip
    if result.status is mvrc.Status.CONVERGED:
        row |= {"tolerance": tolerance(result, dtype), "gain": gain(case, result.x)}
        row["false"] = row["gain"] > SLACK * row["tolerance"]
    return row


def runs(wanted: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, case in networks().items():
        for dtype in (np.float32, np.float64):
            for steps in ("auto", "secant"):
                key = f"{name}, {np.dtype(dtype).name}, {steps}"
                if wanted in key:
                    yield key, run(case, dtype, steps)
    for name, case in far_starts().items():
        if wanted in (key := f"{name}, float32, auto"):
            yield key, run(case, np.float32, "auto")


def markdown(found: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| problem, dtype, steps | status | Φ | seconds | passes | Jacobians | L-BFGS gains |",
        "|---|---|---|---|---|---|---|",
    ]
    for key, row in found.items():
        gained = "–"
        if "gain" in row:
            gained = f"{row['gain']:.1g} (false)" if row["false"] else f"{row['gain']:.1g}"
        lines.append(
            f"| {key} | `{row['status']}` | {row['objective']:.4g} | {row['seconds']:.1f} "
            f"| {row['passes']:,.0f} | {row['jacobian passes']:,.0f} | {gained} |"
        )
    return "\n".join(["", *lines, ""])


def main() -> None:
    """`python -m benchmarks.networks [part of a name]`: networks.json and docs/auto.md's table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("wanted", nargs="?", default="")
    wanted = parser.parse_args().wanted
    found = json.loads(RESULTS.read_text())["runs"] if wanted and RESULTS.exists() else {}
    start = time.perf_counter()
    for key, row in runs(wanted):
        found[key] = row
        print(key, row, flush=True)
        facts = machine.facts() | {"minutes": (time.perf_counter() - start) / 60}
        RESULTS.write_text(json.dumps({"machine": facts, "runs": found}, indent=1) + "\n")
    text = PAGE.read_text()
    before, after = text.split(MARK)[0], text.split(MARK)[-1]
    PAGE.write_text(before + MARK + "\n" + markdown(found) + "\n" + MARK + after)


if __name__ == "__main__":
    main()
