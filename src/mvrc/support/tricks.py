"""Which tricks are on: each has an environment variable that switches it off, and one for all.

MVRC_TRICKS=0 switches every trick off, MVRC_CSE=0 one of them. They are read when a program is
traced; a program that was compiled before stays as it is.
"""

from __future__ import annotations

import os

# compiler/README.md says what each does.
TRICKS = ("cse", "fused_loop", "prefetch", "runs", "branch", "quick")


def on(trick: str) -> bool:
    """Whether a trick may be used."""
    names = ("MVRC_TRICKS", f"MVRC_{trick.upper()}")
    return all(os.environ.get(name) != "0" for name in names)


def state() -> tuple[bool, ...]:
    """All switches, for the key of what is compiled."""
    return tuple(on(trick) for trick in TRICKS)
