"""The sentences of the paper's experiments section, each with what was measured."""

from __future__ import annotations

import dataclasses
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
    def claim(sentence: str, holds: bool, numbers: str) -> Claim:
        where = f"{column.title} ({column.size}, {'real' if column.real else 'simulated'})"
        verdict = "holds" if holds else "does not hold"
        return Claim(column.id, where, sentence, verdict, numbers)

    spam = column.id.startswith("spam")
    others = [curve.method for curve in column.curves if curve.method != CONSTANT]
    first = _ranks(column, CONSTANT)
    fastest = all(rank == 1 for rank in first.values())
    if spam:  # "significantly"
        fastest &= all(_speed(column, CONSTANT, other)["gap"] >= MUCH for other in others)
    yield claim(SPAM_FASTEST if spam else FASTEST, fastest, _values(column, [CONSTANT, *others]))
    speed = _speed(column, CONSTANT, "katyusha")
    more = " and ".join(f"{_times(ratio)} ({METRICS[m]})" for m, ratio in speed.items())
    yield claim(
        FASTER_THAN_KATYUSHA,
        speed["gap"] >= MUCH,
        f"Katyusha's last values are reached with a share of its samples: {more} faster",
    )
    peers = ["civr", "vrsc-pg", "katyusha"] if spam else ["civr", "vrsc-pg"]
    ratio = {
        m: max(_last(column, DECAY, m) / _last(column, peer, m) for peer in peers) for m in METRICS
    }
    yield claim(
        SPAM_COMPARABLE if spam else COMPARABLE,
        all(value <= 1 + NEAR for value in ratio.values()),
        "at most "
        + " and ".join(f"{value:.2f} times theirs ({METRICS[m]})" for m, value in ratio.items()),
    )
    if not spam:
        ahead = {m: _last(column, DECAY, m) / _last(column, "asc-pg", m) for m in METRICS}
        yield claim(
            FASTER_THAN_ASC,
            all(value < 1 for value in ahead.values()),
            " and ".join(
                f"{value:.2g} times ASC-PG's ({METRICS[m]})" for m, value in ahead.items()
            ),
        )
    table = best_steps(column)
    if table:
        own = min(
            (row.passes[1e-6] for row in table if row.method == CONSTANT), default=float("inf")
        )
        rest = {
            row.label: row.passes[1e-6]
            for row in table
            if row.method not in (CONSTANT, DECAY, "fista")
        }
        label = min(rest, key=lambda name: rest[name])
        shown = "" if rest[label] == float("inf") else f", {label} {rest[label]:.0f}"
        made = "never" if own == float("inf") else f"{own:.0f} passes"
        yield claim(
            f"{ACCELERATION}: with the best step size of each method",
            own * MUCH <= rest[label],
            f"relative gap 1e-6: MVRC-constant {made}{shown or ', the others never'}",
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
