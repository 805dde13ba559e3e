"""The sentences of the paper's experiments section, each with what was measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from mvrc.report.summary import METRICS, Column
from mvrc.report.tuning import best_steps

CONSTANT, DECAY = "mvrc-constant", "mvrc-decay-restart"
NEAR = 0.25  # "comparable": at most so much worse
MUCH = 1.5  # "significantly": so many times the samples

FASTEST = (
    "MVRC with constant momentum achieves the fastest convergence among all the algorithms"
)  # fmt: skip
FASTER_THAN_KATYUSHA = "… and is significantly faster than the Katyusha algorithm"
COMPARABLE = "MVRC with diminishing momentum and restart is comparable to CIVR and VRSC-PG"
FASTER_THAN_ASC = "… and is faster than ASC-PG"
SPAM_FASTEST = (
    "MVRC with constant momentum converges significantly faster than the other algorithms"
)
SPAM_COMPARABLE = (
    "MVRC with diminishing momentum and restart is comparable to CIVR, VRSC-PG and Katyusha"
)
ACCELERATION = "MVRC provides significant practical acceleration"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence on one experiment."""

    column: str  # id of the experiment
    where: str  # experiment and data, in words
    sentence: str
    verdict: str  # "holds" or "does not hold"
    numbers: str  # what was measured


def claims(columns: list[Column]) -> list[Claim]:
    """All sentences that the runs can speak to."""
    return [claim for column in columns for claim in _of(column)]


def _of(column: Column) -> Iterator[Claim]:
    """The sentences whose methods were run; of a spec of one's own that may be none."""
    run = {curve.method for curve in column.curves}
    spam = column.id.startswith("spam")
    if CONSTANT in run and len(run) > 1:
        yield _fastest(column, significantly=spam)
    if {CONSTANT, "katyusha"} <= run:
        yield _faster_than_katyusha(column)
    peers = ["civr", "vrsc-pg", "katyusha"] if spam else ["civr", "vrsc-pg"]
    if {DECAY, *peers} <= run:
        yield _comparable(column, SPAM_COMPARABLE if spam else COMPARABLE, peers)
    if {DECAY, "asc-pg"} <= run and not spam:
        yield _faster_than_asc(column)
    yield from _acceleration(column)


def _claim(column: Column, sentence: str, holds: bool, numbers: str) -> Claim:
    where = f"{column.title} ({column.size}, {'real' if column.real else 'simulated'})"
    return Claim(column.id, where, sentence, "holds" if holds else "does not hold", numbers)


def _fastest(column: Column, significantly: bool) -> Claim:
    others = [curve.method for curve in column.curves if curve.method != CONSTANT]
    first = all(rank == 1 for rank in _ranks(column, CONSTANT).values())
    if significantly:
        first &= all(_speed(column, CONSTANT, other)["gap"] >= MUCH for other in others)
    sentence = SPAM_FASTEST if significantly else FASTEST
    return _claim(column, sentence, first, _values(column, [CONSTANT, *others]))


def _faster_than_katyusha(column: Column) -> Claim:
    speed = _speed(column, CONSTANT, "katyusha")
    more = " and ".join(f"{_times(ratio)} ({METRICS[m]})" for m, ratio in speed.items())
    numbers = f"Katyusha's last values are reached with a share of its samples: {more} faster"
    return _claim(column, FASTER_THAN_KATYUSHA, speed["gap"] >= MUCH, numbers)


def _comparable(column: Column, sentence: str, peers: list[str]) -> Claim:
    ratio = {
        m: max(_last(column, DECAY, m) / _last(column, peer, m) for peer in peers) for m in METRICS
    }
    shown = " and ".join(f"{value:.2f} times theirs ({METRICS[m]})" for m, value in ratio.items())
    near = all(value <= 1 + NEAR for value in ratio.values())
    return _claim(column, sentence, near, f"at most {shown}")


def _faster_than_asc(column: Column) -> Claim:
    ratio = {m: _last(column, DECAY, m) / _last(column, "asc-pg", m) for m in METRICS}
    shown = " and ".join(f"{value:.2g} times ASC-PG's ({METRICS[m]})" for m, value in ratio.items())
    return _claim(column, FASTER_THAN_ASC, all(value < 1 for value in ratio.values()), shown)


def _acceleration(column: Column) -> Iterator[Claim]:
    """At the best step of each: MVRC-constant against the fastest of the paper's other methods."""
    made = {row.method: row for row in best_steps(column)}
    own = made.get(CONSTANT)
    rest = [row for name, row in made.items() if name not in (CONSTANT, DECAY, "fista")]
    if own is None or not rest:
        return
    best = min(rest, key=lambda row: row.passes[1e-6])
    shown = ", ".join(
        f"{row.label} {'never' if math.isinf(row.passes[1e-6]) else f'{row.passes[1e-6]:.0f}'}"
        for row in (own, best)
    )
    yield _claim(
        column,
        f"{ACCELERATION}: with the best step size of each method",
        own.passes[1e-6] * MUCH <= best.passes[1e-6] and math.isfinite(own.passes[1e-6]),
        f"passes to a relative gap of 1e-6: {shown}",
    )


def _last(column: Column, method: str, metric: str) -> float:
    return column.curve(method).at(metric, column.budget)


def _ranks(column: Column, method: str) -> dict[str, int]:
    """1 is the lowest median after the samples that all have made."""
    own = {m: _last(column, method, m) for m in METRICS}
    return {m: 1 + sum(_last(column, c.method, m) < own[m] for c in column.curves) for m in METRICS}


def _speed(column: Column, method: str, other: str) -> dict[str, float]:
    """How many times fewer samples reach the other's last value; at least one epoch is made."""
    curve = column.curve(method)
    return {
        m: column.budget / max(curve.samples_to(m, _last(column, other, m)), curve.samples[1])
        for m in METRICS
    }


def _values(column: Column, methods: list[str]) -> str:
    parts = []
    for m, name in METRICS.items():
        shown = ", ".join(f"{column.curve(o).label} {_last(column, o, m):.2e}" for o in methods)
        parts.append(f"{name}: {shown}")
    return "; ".join(parts)


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio > 0 else "never reached, not"
