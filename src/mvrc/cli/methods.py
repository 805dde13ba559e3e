"""`mvrc methods`: the table of all methods, or one in full."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

import mvrc
from mvrc.solvers.catalogue import COUPLED

ALL = ("auto", *mvrc.METHODS, *COUPLED)


def methods(
    name: Annotated[str | None, typer.Argument(help="One method, in full.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the methods, or say how one works, where it is from and what it costs.

    Problems are finite sums (Σ) or expectations (E), with one outer function (¹) or many (²).

    Examples:

      mvrc methods
      mvrc methods civr
      mvrc methods --json
    """
    if as_json:
        described: Any = _entry(name) if name else {"methods": [_entry(n) for n in ALL]}
        typer.echo(json.dumps(described, ensure_ascii=False, indent=2))
    elif name:
        typer.echo(repr(mvrc.describe(name)))
    else:
        Console().print(_table())


def _entry(name: str) -> dict[str, Any]:
    described = mvrc.describe(name)
    return {
        "name": name,
        "class": described.recipe,
        "arguments": list(described.arguments),
        **dataclasses.asdict(described.about),
    }


def _table() -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("method", no_wrap=True)
    table.add_column("problems")
    table.add_column("regulariser")
    for name in ALL:
        about = mvrc.describe(name).about
        table.add_row(name, about.title, about.problems, about.regularizer)
    return table
