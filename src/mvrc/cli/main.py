"""The entry point of the command."""

from __future__ import annotations

import sys

from mvrc.support import extras


def main() -> None:
    """typer and rich are imported here, as the library does without them."""
    try:
        from mvrc.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "click", "pydantic"):
            raise
        print(extras.missing(f"The command mvrc needs {error.name}", "cli"), file=sys.stderr)
        sys.exit(2)
    app(prog_name="mvrc")
