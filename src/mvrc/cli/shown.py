"""The claims and the tuning table of saved runs, in the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table


def print_tables(output: Path) -> None:
    """Both tables."""
    from mvrc.report.page import summary
    from mvrc.report.tuning import LEVELS, best_steps, passes

    columns, claims = summary(output)
    console = Console()
    table = Table(title="What the paper says", title_justify="left", show_lines=False)
    for name in ("experiment", "sentence", "assessment"):
        table.add_column(name, no_wrap=name != "sentence")
    for claim in claims:
        colour = "green" if claim.assessment == "holds" else "red"
        table.add_row(claim.column, claim.sentence, f"[{colour}]{claim.assessment}[/{colour}]")
    console.print(table)
    for column in columns:
        rows = best_steps(column)
        if not rows:
            continue
        table = Table(
            title=f"{column.id}, {column.data}: passes to a relative gap, best step of each",
            title_justify="left",
        )
        table.add_column("method", no_wrap=True)
        table.add_column("step", justify="right")
        for level in LEVELS:
            table.add_column(f"{level:g}", justify="right")
        for row in rows:
            cells = [passes(row.passes[level]) for level in LEVELS]
            step = "itself" if row.step_size is None else f"{row.step_size:.3g}"
            table.add_row(row.label, step, *cells)
        console.print(table)
