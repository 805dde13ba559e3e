"""Optional packages: the sentence for one that is not there."""

from __future__ import annotations


def install(extra: str) -> str:
    """The command that brings an extra, for who has mvrc from an index or from a checkout."""
    return f"pip install 'mvrc[{extra}]', or in a checkout: pip install '.[{extra}]'"


def missing(what: str, extra: str) -> ImportError:
    """`what` needs a package of that extra."""
    return ImportError(f"{what}: {install(extra)}.")
