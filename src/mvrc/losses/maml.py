"""Meta-learning on a fixed set of tasks: parameters that are good after one gradient step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mvrc.problem import Composition
from mvrc.regularizers import Regularizer
from mvrc.support import calls, checks


def maml(
    loss: Callable[[Any, Any], Any], support: Any, query: Any, step: float,
    regularizer: Regularizer | None = None,
) -> Composition:  # fmt: skip
    """min over x of the mean over tasks m of L_m^query(x − α∇L_m(x)) (Finn et al., 2017).

    The gradients are means over support samples, so g = (x − α∇ℓ(x; sₘ))ₘ has M·d numbers and f is
    the mean query loss. With tasks from a stream and exact support gradients there is no inner
    expectation, and plain SGD will do.

    Args:
        loss: `ℓ(x, sample)`, a number, of one sample of a task.
        support: arrays of shape (n, M, …): sample i of every task.
        query: arrays of shape (M, q, …).
        step: α.
        regularizer: r of the problem.

    Examples:
        >>> from mvrc import losses
        >>> loss = lambda x, s: (s[:2] @ x - s[2]) ** 2 / 2
        >>> tasks = returns.reshape(10, 20, 3)  # samples × tasks × columns
        >>> meta = losses.maml(loss, tasks[:5], tasks[5:].swapaxes(0, 1), step=0.1)
        >>> mvrc.minimize(meta, np.zeros(2)).status.name
        'CONVERGED'
    """
    calls.check_function("loss(x, sample)", loss)
    step = checks.positive("step", step)
    tasks = {a.shape[1] for a in jax.tree_util.tree_leaves(support)}
    tasks |= {a.shape[0] for a in jax.tree_util.tree_leaves(query)}
    if len(tasks) != 1:
        raise ValueError(
            f"support must have shapes (n, M, …) and query (M, q, …) with one number M of tasks; "
            f"they have {sorted(tasks)}."
        )
    held = jax.tree_util.tree_map(np.asarray, query)  # JAX's would be cut to 32 bits

    def inner(x: Any, sample: Any) -> Any:
        slopes = jax.vmap(jax.grad(loss), (None, 0))(x, sample)
        return jax.tree_util.tree_map(lambda a, s: a[None] - step * s, x, slopes)

    def outer(y: Any) -> Any:
        each = jax.vmap(lambda x, rows: jnp.mean(jax.vmap(loss, (None, 0))(x, rows)))
        return jnp.mean(each(y, held))

    return Composition(inner, outer, support, regularizer=regularizer)


def maml_value(
    loss: Callable[[Any, Any], Any], support: Any, query: Any, step: float, x: Any
) -> Any:
    """The same by plain JAX, all support samples at once.

    Examples:
        >>> from mvrc import losses
        >>> loss = lambda x, s: (s[:2] @ x - s[2]) ** 2 / 2
        >>> tasks = returns.reshape(10, 20, 3)
        >>> support, query = tasks[:5], tasks[5:].swapaxes(0, 1)
        >>> round(float(losses.maml_value(loss, support, query, 0.1, np.zeros(2))), 3)
        0.18
    """
    swapped = jax.tree_util.tree_map(lambda a: jnp.swapaxes(jnp.asarray(a), 0, 1), support)
    mean = lambda x, rows: jnp.mean(jax.vmap(loss, (None, 0))(x, rows))  # noqa: E731

    def one(support: Any, query: Any) -> Any:
        slope = jax.grad(mean)(x, support)
        adapted = jax.tree_util.tree_map(lambda a, s: a - step * s, x, slope)
        return mean(adapted, query)

    return jnp.mean(jax.vmap(one)(swapped, jax.tree_util.tree_map(jnp.asarray, query)))
