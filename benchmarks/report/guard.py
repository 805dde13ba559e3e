"""The guard against regressions: speeds relative to the plain NumPy twin, kept in baseline.json.

A ratio is stored twice, of the best times and of the medians. The best times are the more stable
where a machine has quiet moments, the medians where it has none; so a ratio has fallen when both
have, and the sentence gives the smaller fall and says whose it is.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from benchmarks import paths
from benchmarks.row import Ratio

BASELINE = paths.RESULTS / "baseline.json"
FALL = 0.20
WORDS = {"best": "best times", "median": "medians"}

Ratios = Mapping[str, Mapping[str, float]]  # by name: the ratio of the best times, of the medians


def falls(before: Ratios, now: Ratios, limit: float = FALL) -> list[str]:
    """A sentence for each ratio that fell by more than the limit."""
    sentences = []
    for name, old in before.items():
        if name not in now:
            continue
        new = now[name]
        fallen = {word: 1 - new[word] / old[word] for word in WORDS}
        word = min(fallen, key=lambda word: fallen[word])
        if fallen[word] > limit:
            sentences.append(
                f"{name}: was {old[word]:.1f} times the speed of the NumPy twin, is now "
                f"{new[word]:.1f}: {100 * fallen[word]:.0f} % slower (by the {WORDS[word]})."
            )
    return sentences


def compare(ratios: list[Ratio], facts: dict[str, Any]) -> list[str]:
    """Print what a reader must know of the comparison; return the sentences of `falls`."""
    if not BASELINE.exists():
        print("There is no baseline; `python -m benchmarks --accept` makes this run one.")
        return []
    stored = json.loads(BASELINE.read_text(encoding="utf-8"))
    changed = _changed(stored["machine"], facts)
    if changed:
        print(f"The baseline was made elsewhere: {changed}.")
    now = as_ratios(ratios)
    missing = [name for name in stored["ratios"] if name not in now]
    if missing:
        print(f"Not measured in this run, so not compared: {'; '.join(missing)}.")
    slower = falls(stored["ratios"], now)
    if not slower:
        print(f"No speed fell by more than {100 * FALL:.0f} % against the baseline.")
    return slower


def as_ratios(ratios: list[Ratio]) -> dict[str, dict[str, float]]:
    """By name."""
    return {r.name: {"best": r.best, "median": r.median} for r in ratios}


def accept(section: dict[str, Any]) -> None:
    """Store the ratios of a recorded run as the baseline."""
    keys = ("date", "cpu", "cores", "memory_gb", "system", "versions")
    kept = {
        "machine": {key: section["machine"][key] for key in keys},
        "ratios": {ratio["name"]: _without_name(ratio) for ratio in section["ratios"]},
    }
    BASELINE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _without_name(ratio: dict[str, Any]) -> dict[str, float]:
    fields = [field.name for field in dataclasses.fields(Ratio) if field.name != "name"]
    return {name: round(ratio[name], 3) for name in fields}


def _changed(stored: dict[str, Any], facts: dict[str, Any]) -> str:
    """In which words machine and versions differ."""
    old = {key: stored[key] for key in ("cpu", "cores", "system")} | stored["versions"]
    new = {key: facts[key] for key in ("cpu", "cores", "system")} | facts["versions"]
    return "; ".join(
        f"{key} was {old.get(key, 'absent')}, is {new.get(key, 'absent')}"
        for key in {**old, **new}
        if old.get(key) != new.get(key)
    )
