"""`mvrc report`: the page again, from saved runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mvrc.cli.shown import print_tables


def report(
    output: Annotated[Path, typer.Option(help="Folder of mvrc reproduce.")] = Path("reproduce"),
    embed: Annotated[
        Path | None, typer.Option(help="A Markdown file whose generated part is rewritten.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Rebuild the page, the figures and the claims from saved runs; nothing is run.

    Examples:

      mvrc report
      mvrc report --output results --json
    """
    from mvrc.report.markdown import update
    from mvrc.report.page import write

    written = write(output)
    if embed is not None:
        update(embed, output)
    if as_json:
        claims = json.loads(written["claims"].read_text("utf-8"))
        files = {name: str(path) for name, path in written.items()}
        typer.echo(json.dumps({"files": files, "claims": claims}))
        return
    print_tables(output)
    typer.echo(f"Page: {written['page'].resolve()}")
