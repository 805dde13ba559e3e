"""Releases of jaxlib that compute wrong numbers on the CPU: refused when mvrc is imported.

`pyproject.toml` keeps pip from installing them; this is for those who force one. docs/releases.md
has the faults, and tests/test_releases.py a scan for them.
"""

from __future__ import annotations

import re

import jaxlib

LEAST = (0, 8, 2)
GOOD = "0.8.2, 0.8.3, 0.9.0, 0.9.0.1 or 0.12 and later"

_SUMS = "sums of small products are wrong from row 32,768 on"
_RACE = "sums of broadcast arrays are wrong now and then"
WRONG = {
    (0, 9, 1): _SUMS,
    (0, 9, 2): _SUMS,
    (0, 10): f"{_SUMS}, or {_RACE}",
    (0, 11): _RACE,
}


def fault(version: str) -> str | None:
    """What a release of jaxlib computes wrongly; None for a good one."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:4])
    if numbers[:3] < LEAST:
        return "rows gathered from closed-over constants are wrong"
    found = (why for release, why in WRONG.items() if numbers[: len(release)] == release)
    return next(found, None)


def refuse(version: str = jaxlib.__version__) -> None:
    """An ImportError for a release with a known fault."""
    why = fault(version)
    if why is not None:
        raise ImportError(
            f"jaxlib {version} computes wrong numbers on the CPU ({why}), so mvrc refuses it; "
            f"install {GOOD}, for instance by pip install --upgrade mvrc."
        )


refuse()
