"""The sentences of the paper's experiments section, each with what was measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from mvrc.report.summary import METRICS, Column, Spread
from mvrc.report.tuning import best_steps, passes

CONSTANT, DECAY = "mvrc-constant", "mvrc-decay-restart"
NEAR = 1.25  # "comparable": within this factor, either way
MUCH = 1.5  # "significantly": so many times the samples
MARGIN = 1.02  # "faster": a median that is lower by less is the same

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
CONTROL = (
    "Control, not in the paper: MVRC with constant momentum is also faster than CIVR, VRSC-PG and "
    "Katyusha at MVRC's own step of 1.8 η"
)

Table = tuple[tuple[str, ...], ...]  # the first row has the heads


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence on one experiment."""

    column: str  # id of the experiment
    where: str  # experiment and data, in words
    sentence: str
    assessment: str  # "holds" or "does not hold"
    measured: Table


def claims(columns: list[Column]) -> list[Claim]:
    """All sentences that the runs can speak to."""
    return [claim for column in columns for claim in _of(column)]


def _of(column: Column) -> Iterator[Claim]:
    """The sentences whose methods were run; of a spec of one's own that may be none."""
    run = {curve.method for curve in column.curves}
    spam = column.id.startswith("spam")
    if CONSTANT in run and len(run) > 1:
        yield _significantly_fastest(column) if spam else _fastest(column)
    if {CONSTANT, "katyusha"} <= run:
        yield _faster_than_katyusha(column)
    if CONSTANT in run and column.controls:
        yield _control(column)
    peers = ["civr", "vrsc-pg", "katyusha"] if spam else ["civr", "vrsc-pg"]
    if {DECAY, *peers} <= run:
        yield _comparable(column, SPAM_COMPARABLE if spam else COMPARABLE, peers)
    if {DECAY, "asc-pg"} <= run and not spam:
        yield _faster_than_asc(column)
    yield from _acceleration(column)


def _claim(column: Column, sentence: str, holds: bool, measured: Table) -> Claim:
    where = f"{column.title} ({column.size}, {'real' if column.real else 'simulated'})"
    return Claim(column.id, where, sentence, "holds" if holds else "does not hold", measured)


def _fastest(column: Column) -> Claim:
    others = [curve.method for curve in column.curves if curve.method != CONSTANT]
    holds = all(_below(column, CONSTANT, other) for other in others)
    return _claim(column, FASTEST, holds, _values(column, [CONSTANT, *others]))


def _control(column: Column) -> Claim:
    others = [curve.method for curve in column.controls]
    holds = all(_below(column, CONSTANT, other) for other in others)
    return _claim(column, CONTROL, holds, _values(column, [CONSTANT, *others], ".4g"))


def _significantly_fastest(column: Column) -> Claim:
    others = [curve.method for curve in column.curves if curve.method != CONSTANT]
    return _much_faster(column, SPAM_FASTEST, others)


def _faster_than_katyusha(column: Column) -> Claim:
    return _much_faster(column, FASTER_THAN_KATYUSHA, ["katyusha"])


def _much_faster(column: Column, sentence: str, others: list[str]) -> Claim:
    """By both measures, also at the slower quartile of the seeds."""
    speeds = {other: _speed(column, CONSTANT, other) for other in others}
    holds = all(s.low >= MUCH for speed in speeds.values() for s in speed.values())
    rows = [
        (column.curve(other).label, *(speed[m].text(".1f") for m in METRICS))
        for other, speed in speeds.items()
    ]
    return _claim(column, sentence, holds, (_heads("times faster than"), *rows))


def _comparable(column: Column, sentence: str, peers: list[str]) -> Claim:
    rows, holds = [], True
    for peer in peers:
        ratio = {m: _last(column, DECAY, m).median / _last(column, peer, m).median for m in METRICS}
        holds &= all(1 / NEAR <= value <= NEAR for value in ratio.values())
        rows.append((column.curve(peer).label, *(f"{ratio[m]:.2f}" for m in METRICS)))
    return _claim(column, sentence, holds, (_heads("its last value / that of"), *rows))


def _faster_than_asc(column: Column) -> Claim:
    holds = _below(column, DECAY, "asc-pg")
    return _claim(column, FASTER_THAN_ASC, holds, _values(column, [DECAY, "asc-pg"]))


def _acceleration(column: Column) -> Iterator[Claim]:
    """At the best step of each: MVRC-constant against the fastest of the paper's other methods."""
    made = {row.method: row for row in best_steps(column)}
    own = made.get(CONSTANT)
    rest = [row for name, row in made.items() if name not in (CONSTANT, DECAY, "fista", "auto")]
    if own is None or not rest:
        return
    best = min(rest, key=lambda row: row.passes[1e-6].median)
    holds = own.passes[1e-6].high * MUCH <= best.passes[1e-6].low
    rows = tuple((row.label, passes(row.passes[1e-6])) for row in (own, best))
    yield _claim(
        column,
        f"{ACCELERATION}: with the best step size of each method",
        bool(holds and np.isfinite(own.passes[1e-6].high)),
        (("", "passes to a relative gap of 1e-6"), *rows),
    )


def _last(column: Column, method: str, metric: str) -> Spread:
    return column.curve(method).at(metric, column.budget)


def _below(column: Column, method: str, other: str) -> bool:
    """Whether one is below the other in both measures, quartiles apart and by a margin."""
    for metric in METRICS:
        own, theirs = _last(column, method, metric), _last(column, other, metric)
        if not (own.high < theirs.low and own.median * MARGIN < theirs.median):
            return False
    return True


def _speed(column: Column, method: str, other: str) -> dict[str, Spread]:
    """How many times fewer samples reach the other's last value, over the seeds.

    The other's samples are those of the row that has the value; at least one epoch is made.
    """
    curve, slower = column.curve(method), column.curve(other)
    made = slower.samples[slower.row(column.budget)]
    found = {}
    for m in METRICS:
        samples = curve.samples_to(m, _last(column, other, m).median)
        found[m] = Spread.of(made / np.maximum(samples, curve.samples[1]))
    return found


def _heads(first: str) -> tuple[str, ...]:
    return (first, *METRICS.values())


def _values(column: Column, methods: list[str], digits: str = ".3g") -> Table:
    """The last values, medians with their quartiles."""
    rows = [
        (column.curve(o).label, *(_last(column, o, m).text(digits) for m in METRICS))
        for o in methods
    ]
    return (_heads(""), *rows)
