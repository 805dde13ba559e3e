"""Verdicts on the theory: its sentences, each with what was measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from mvrc.experiments.complexity.fit import Estimate
from mvrc.report.claims import MUCH, Claim, Table
from mvrc.report.complexity import Record, Series, estimate, mean_text, series

NEAR = 0.1  # an exponent is the theory's within this
WIDE = 0.5  # half an interval that is wider decides nothing
STRAIGHT = 0.98  # R² of a line


def claims(records: list[Record]) -> list[Claim]:
    """The sentences of the theory that the runs can speak to."""
    return [*_rates(records), *_dominance(records), *_rest(records)]


_RATES = (  # sweep, methods, exponent, whether it is a bound from above, sentence
    ("sum1-n", ("mvrc-constant", "mvrc-diminishing", "civr"), 0.5, False,
     "Σ¹: samples grow like √n (n + √n ε⁻², T ≫ √n)"),
    ("sum1-n", ("c-saga", "vrsc-pg"), 2 / 3, False, "Σ¹: samples of C-SAGA grow like n^⅔"),
    ("sum1-n-loose", ("mvrc-constant", "civr"), 1.0, False, "Σ¹: and like n where T < √n"),
    ("sum1-n-best", ("mvrc-constant", "civr"), 0.5, False,
     "Σ¹: √n remains where S, τ and the step are chosen for every n"),
    ("sum1-n-best-quiet", ("mvrc-constant",), 0.5, False,
     "Σ¹ with a tenth of the noise: √n remains where S, τ and the step are chosen for every n"),
    ("sum1-epsilon", ("mvrc-constant", "mvrc-diminishing", "civr"), 1.5, False,
     "Σ¹: samples grow like ε^(−(a+2)/(a+1)) on the flat valley, a = 1 (at most ε⁻²)"),
    ("sum1-epsilon-flatter", ("mvrc-constant", "mvrc-diminishing", "civr"), 2.1 / 1.1, False,
     "Σ¹: the same for a = 0.1"),
    ("online1-epsilon", ("mvrc-constant", "mvrc-diminishing", "civr"), 3.0, True,
     "E¹: samples grow at most like ε⁻³"),
    ("sum2-n", ("mvrc-constant", "nested-spider"), 0.5, False,
     "Σ²: samples grow like √max(N, n), along n"),
    ("sum2-N", ("mvrc-constant", "nested-spider"), 0.5, False,
     "Σ²: samples grow like √max(N, n), along N"),
    ("sum2-epsilon", ("mvrc-constant", "nested-spider"), 2.0, True,
     "Σ²: samples grow at most like ε⁻²"),
    ("online2-epsilon", ("mvrc-constant", "nested-spider", "sarah-c", "spider-admm"), 3.0, True,
     "E²: samples grow at most like ε⁻³"),
    ("online2-single", ("asc-pg",), 4.5, True, "E²: samples of ASC-PG grow at most like ε⁻⁴·⁵"),
    ("dominance-online", ("mvrc-constant", "civr"), 1.0, True,
     "E¹, gradient dominant: samples grow at most like ε⁻¹ (times log ε⁻¹)"),
)  # fmt: skip


def _rates(records: list[Record]) -> Iterator[Claim]:
    found = series(records)
    for name, methods, value, bound, sentence in _RATES:
        own = [found[name, m] for m in methods if (name, m) in found]
        if not own:
            continue
        made = [one.exponent() for one in own]
        holds = all(
            e.value <= value + NEAR if bound else abs(e.value - value) <= NEAR for e in made
        )
        rows = tuple((one.label, e.text()) for one, e in zip(own, made, strict=True))
        where = own[0].record["spec"]["title"]
        claim = _claim(name, where, sentence, holds, (("", "exponent"), *rows))
        wide = any(not e.half <= WIDE for e in made)
        yield dataclasses.replace(claim, assessment="undecided") if wide else claim


def _dominance(records: list[Record]) -> Iterator[Claim]:
    own = [Series(r) for r in records if r["kind"] == "sweeps" and r["id"] == "dominance"]
    own = [one for one in own if one.method != "c-saga"]
    if not own:
        return
    where = own[0].record["spec"]["title"]
    straight = [min(p["straight"][0] for p in one.record["points"]) for one in own]
    table = (("", "least R²"), *((o.label, f"{r:.3f}") for o, r in zip(own, straight, strict=True)))
    sentence = "Under gradient dominance log of the gap is a line (R² ≥ 0.98)"
    yield _claim("dominance", where, sentence,
                 min(straight) >= STRAIGHT, table)  # fmt: skip
    root = math.sqrt(own[0].record["spec"]["problem"]["n"])
    ends = [(one.exponent(high=root), one.exponent(low=4 * root)) for one in own]
    rows = tuple((o.label, a.text(), b.text()) for o, (a, b) in zip(own, ends, strict=True))
    head = ("", "exponent of v < √n", "exponent of v > 4√n")
    beyond = all(abs(b.value - 1) <= NEAR for _, b in ends)
    yield _claim("dominance", where, "(n + √n v) log(1/ε): proportional to v where v ≫ √n", beyond,
                 (head, *rows))  # fmt: skip
    below = all(abs(a.value) <= NEAR for a, _ in ends)
    yield _claim("dominance", where, "(n + √n v) log(1/ε): independent of v where v < √n", below,
                 (head, *rows))  # fmt: skip


def _rest(records: list[Record]) -> Iterator[Claim]:
    rows = [r for r in records if r["kind"] == "guarantees"]
    if rows:
        holds = all(r["measured"] + r["half"] <= r["bound"] for r in rows)
        said = [r for r in rows if not r["vacuous"]]
        counts = (("", "rows"), ("all", str(len(rows))), ("bound below the start", str(len(said))))
        yield _claim("guarantees", "Theorems 1 to 7 with their own parameters",
                     "The guarantees hold", holds, counts)  # fmt: skip
    for r in (r for r in records if r["kind"] == "proxes"):
        made = {p["method"]: p["runs"] for p in r["points"]}
        if not {"mvrc-constant", "katyusha"} <= made.keys():
            continue
        ratios = [_ratio(made, k) for k in ("prox", "seconds")]
        cells = [("prox", f"{ratios[0]:.2f}"), ("seconds", f"{ratios[1]:.2f}")]
        yield _claim(r["id"], f"One prox or two: {r['spec']['title']}",
                     "One prox per step saves much computation time", ratios[1] >= MUCH,
                     (("Katyusha / MVRC", ""), *cells))  # fmt: skip
    for r in (r for r in records if r["kind"] == "momenta"):
        none = [p for p in r["points"] if p["at"] == 1.0]
        some = [p for p in r["points"] if 0 < p["at"] < 1]
        if not none or not some:
            continue
        for key, what in (("equal", "equal λ"), ("samples", "the best λ of each α")):
            without = estimate(none[0][key])
            best = min(some, key=lambda p, key=key: _order(estimate(p[key])))  # type: ignore[misc]
            own = estimate(best[key])
            rows_of = (
                (f"α = {best['at']:g}", mean_text(best[key])),
                ("α = 1", mean_text(none[0][key])),
            )
            yield _claim(r["id"], f"Momentum or step: {r['spec']['title']}",
                         f"Momentum accelerates, at {what}",
                         own.value * MUCH <= without.value,
                         (("", "samples"), *rows_of))  # fmt: skip


def _order(estimate: Estimate) -> float:
    return math.inf if math.isnan(estimate.value) else estimate.value


def _ratio(made: dict[str, list[Record]], key: str) -> float:
    both = [[run[key] for run in made[name]] for name in ("katyusha", "mvrc-constant")]
    if any(v is None for values in both for v in values):
        return math.nan
    return float(np.median(both[0]) / np.median(both[1]))


def _claim(name: str, where: str, sentence: str, holds: bool, measured: Table) -> Claim:
    return Claim(name, where, sentence, "holds" if holds else "does not hold", measured)
