"""Streams: endless samples from a function of the user's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mvrc.sampling.draws import Words
from mvrc.sampling.sizes import Amount
from mvrc.sampling.source import Batch, Source, key_bits
from mvrc.support import checks


class Stream(Source):
    """An endless source of samples, for the online classes E¹ and E².

    The expectation itself is never known, so what is *measured* (objective, gradient mapping) is
    the mean over one fixed evaluation batch, the same for every run and every method.

    Args:
        draw: `draw(key, size)` gives a pytree of arrays with leading axis `size`; JAX-traceable.
            It is asked for one sample at a time, each with a key of its own.
        evaluation_size: number of samples in the evaluation batch.
        seed: seed of the evaluation batch alone; a run's own draws come from `minimize(seed=)`.

    Examples:
        >>> stream = mvrc.Stream(lambda key, m: 0.2 + jax.random.normal(key, (m, 3)))
        >>> online = mvrc.Composition(problem.inner, problem.outer, stream)
        >>> mvrc.minimize(online, x0, mvrc.SCGD(step_size=0.1, period=100), epochs=2).status.name
        'EPOCHS'
    """

    draw: Callable[[Any, int], Any] = eqx.field(static=True)
    evaluation_size: int = eqx.field(static=True)
    seed: int = eqx.field(static=True)

    @checks.explain_keywords
    def __init__(
        self, draw: Callable[[Any, int], Any], evaluation_size: int = 10_000, seed: int = 0
    ) -> None:
        if not callable(draw):
            raise TypeError(f"draw must be a function draw(key, size), not {checks.shown(draw)}.")
        self.draw = draw
        self.evaluation_size = checks.integer("evaluation_size", evaluation_size, least=2)
        self.seed = checks.seed("seed", seed)

    @property
    def count(self) -> None:
        return None

    def given(self) -> Stream:
        return self

    def spec(self) -> Any:
        batch = jax.eval_shape(lambda: self.draw(jax.random.key(0), 1))
        return jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), batch)

    def fingerprint(self) -> tuple[str, Any]:
        words = f"Stream(evaluation_size={self.evaluation_size}, seed={self.seed})"
        return words, lambda key: self.draw(key, 2)

    def everything(self) -> Batch:
        """The fixed batch on which objective and gradient mapping are measured."""
        key = jax.random.wrap_key_data(key_bits(self.seed))
        return Drawn(self.draw, key, self.evaluation_size)

    def part(self, most: int | None) -> Batch:
        size = self.evaluation_size if most is None else min(most, self.evaluation_size)
        return dataclasses.replace(self.everything(), size=size)  # type: ignore[type-var]

    def refresh_ticket(self, words: Words, size: int | None) -> Any:
        return words.bits(1)[0]

    def refresh(self, ticket: Any, size: int | None) -> Batch:
        assert size is not None, "a refresh from a stream has a size"
        return Drawn(self.draw, jax.random.wrap_key_data(ticket), size)

    def subsample(self, bits: Any, size: int, i: Any) -> Batch:
        key = jax.random.fold_in(jax.random.wrap_key_data(bits), i)
        return Drawn(self.draw, key, size)

    def spread(self, size: Any, shift: Any = 0) -> Batch:
        raise AssertionError("an endless source has no order")

    def thinned(self, rows: int) -> Stream:
        raise AssertionError("an endless source has no part")

    def tickets(self, words: Words, steps: int, size: int) -> Any:
        return words.bits(steps)

    def small(self, ticket: Any, size: int) -> Batch:
        return Drawn(self.draw, jax.random.wrap_key_data(ticket), size)

    def stage(self, bits: Any, rows: int) -> Stage:
        return Stage(self.draw, np.asarray(bits), np.int32(rows))


class Stage(Source):
    """The first `rows` samples that a key draws from a stream, drawn anew at every pass.

    Key and number are arguments of a program, so that one serves all stages.
    """

    drawn: ClassVar[bool] = True

    draw: Callable[[Any, int], Any] = eqx.field(static=True)
    bits: Any  # of a key
    rows: Any

    @property
    def count(self) -> Any:
        return self.rows

    @property
    def capacity(self) -> int:
        return 2**31 - 1

    def given(self) -> Any:
        raise AssertionError("the stream is asked")

    def fingerprint(self) -> tuple[str, Any]:
        raise AssertionError("the stream is asked")

    def thinned(self, rows: int) -> Source:
        raise AssertionError("the stream is asked")

    def spec(self) -> Any:
        return Stream(self.draw).spec()

    def everything(self) -> Batch:
        return self.spread(self.rows)

    def part(self, most: int | None) -> Batch:
        return self.everything() if most is None else self.spread(jnp.minimum(most, self.rows))

    def refresh_ticket(self, words: Words, size: int | None) -> Any:
        raise AssertionError("a stage has full passes alone")

    def refresh(self, ticket: Any, size: int | None) -> Batch:
        raise AssertionError("a stage has full passes alone")

    def subsample(self, bits: Any, size: int, i: Any) -> Batch:
        raise AssertionError("a stage has full passes alone")

    def tickets(self, words: Words, steps: int, size: int) -> Any:
        raise AssertionError("a stage has full passes alone")

    def small(self, ticket: Any, size: int) -> Batch:
        raise AssertionError("a stage has full passes alone")

    def spread(self, size: Any, shift: Any = 0) -> Batch:
        """The first ones, as no order is better than another."""
        return Drawn(self.draw, jax.random.wrap_key_data(self.bits), size, _PIECE)


_PIECE = 1024  # samples of a piece, where their number is traced


@dataclasses.dataclass(frozen=True)
class Drawn(Batch):
    """Fresh samples from a stream: sample i is the one that the i-th key made of `key` draws."""

    draw: Callable[[Any, int], Any]
    key: Any
    size: Any
    length: int | None = None

    def amount(self) -> Any:
        return self.size if self.length is None else Amount()  # whoever knows the number counts

    def piece(self, start: Any, length: int) -> Any:
        keys = jax.vmap(lambda i: jax.random.fold_in(self.key, i))(start + jnp.arange(length))
        drawn = jax.vmap(lambda key: self.draw(key, 1))(keys)
        return jax.tree_util.tree_map(lambda a: a[:, 0], drawn)
