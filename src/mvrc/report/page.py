"""The page: one HTML file with everything in it, and the tables as text."""

from __future__ import annotations

import html
import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from mvrc.experiments import runner
from mvrc.experiments.complexity import plan
from mvrc.experiments.spec import PAPER
from mvrc.report import complexity_claims, complexity_figure, complexity_page, figures
from mvrc.report.claims import CONTROL, Claim, Table, claims
from mvrc.report.summary import METRICS, Column, columns
from mvrc.report.tuning import LEVELS, best_steps, passes
from mvrc.support import extras

BIBTEX = """@misc{chen2020momentum,
  title  = {Momentum with Variance Reduction for Nonconvex Composition Optimization},
  author = {Chen, Ziyi and Zhou, Yi},
  year   = {2020}
}"""


def write(output: Path) -> dict[str, Path]:
    """page.html, the figures as PNG and PDF and claims.json in `output`, from its saved runs.

    The theory's runs are those of the folder, or those that come with the library.
    """
    theory, own = plan.records(output)
    records = _records(output, own)
    table = columns(records)
    assessed = claims(table)
    page, written = output / "page.html", {}
    if table:
        png, pdf = figures.draw(table, output / "figure1")
        written = {"figure": png, "pdf": pdf, "rows": output / "rows.csv"}
    if theory:
        png, pdf = complexity_figure.draw(theory, output / "complexity")
        written |= {"complexity": png, "complexity_pdf": pdf}
    made = (records or theory)[0]["made_with"]
    text = _page(table, assessed, made, (theory, own, plan.expected(output)))
    page.write_text(_titled(text, output), "utf-8")
    plain = [claim.__dict__ for claim in (*assessed, *complexity_claims.claims(theory))]
    (output / "claims.json").write_text(json.dumps(plain, indent=1, ensure_ascii=False), "utf-8")
    return {"page": page, "claims": output / "claims.json", **written}


def _records(output: Path, theory: bool) -> list[dict[str, Any]]:
    """The runs of the paper's experiments; there may be none where the theory's are."""
    if theory and not (output / "jobs.json").exists():
        return []
    return runner.records(output)


def write_so_far(output: Path, keys: list[str], left: int) -> Path:
    """page.html of the runs of these keys, while others are still to be done."""
    records = runner.records(output, keys)
    table = columns(records)
    more = f"{left} runs are still to be done: load the page again to see more. "
    page, new = output / "page.html", output / "page.html.new"
    theory = (*plan.records(output), plan.expected(output))
    text = _page(table, claims(table), records[0]["made_with"], theory, more)
    new.write_text(_titled(text, output), "utf-8")
    return new.replace(page)  # a browser finds a whole page at any time


def _titled(text: str, output: Path) -> str:
    """With the title that the runs were made under."""
    file = output / "title.txt"
    title = file.read_text("utf-8") if file.exists() else PAPER
    return text.replace("<!--TITLE-->", html.escape(title))


def summary(output: Path) -> tuple[list[Column], list[Claim]]:
    """What a terminal shows of saved runs."""
    theory, own = plan.records(output)
    table = columns(_records(output, own))
    return table, [*claims(table), *complexity_claims.claims(theory)]


def _page(
    table: list[Column],
    assessed: list[Claim],
    made_with: dict[str, str],
    theory: tuple[list[dict[str, Any]], bool, int | None],
    more: str = "",
) -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise extras.missing("The page needs plotly", "report") from error
    folder = resources.files("mvrc.report")
    text = (folder / "page.html").read_text("utf-8")
    parts = {
        "STYLE": (folder / "page.css").read_text("utf-8"),
        "SCRIPT": (folder / "page.js").read_text("utf-8"),
        "PLOTLY": get_plotlyjs(),
        "DATA": json.dumps([_panel_data(c) for c in table]).replace("<", "\\u003c"),
        "COMPLEXITY-DATA": json.dumps(complexity_page.data(theory[0])).replace("<", "\\u003c"),
        "COMPLEXITY": complexity_page.section(*theory),
        "INTRO": more + _intro(table, assessed),
        "PANELS": "\n".join(_panels(c) for c in table),
        "CLAIMS": _claims_table([*assessed, *complexity_claims.claims(theory[0])]),
        "TUNING": "\n".join(_tuning_table(c) for c in table if c.tuned),
        "RUNS": "\n".join(_run(c) for c in table),
        "VERSIONS": html.escape(", ".join(f"{k} {v}" for k, v in made_with.items())),
        "BIBTEX": html.escape(BIBTEX),
    }
    for name, part in parts.items():
        text = text.replace(f"<!--{name}-->", part)
    return text


def _panel_data(column: Column) -> dict[str, Any]:
    curves = []
    for curve in (*column.curves, *column.controls):
        style = figures.style(curve.method)
        values = {}
        for metric in METRICS:
            low, high = curve.quartiles(metric)
            values[metric] = [_list(curve.median(metric)), _list(low), _list(high)]
        curves.append(
            {
                "label": curve.label,
                "colour": style.colour,
                "symbol": style.symbol,
                "dash": [4 * part for part in style.dash],
                "control": curve.control,
                "samples": _list(curve.samples / 1e6),
                "seconds": _list(curve.seconds),
                "values": values,
            }
        )
    return {"id": column.id, "curves": curves, "budget": column.budget / 1e6}


def _list(values: np.ndarray) -> list[float | None]:
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in values]


def _intro(table: list[Column], assessed: list[Claim]) -> str:
    assessed = [claim for claim in assessed if claim.sentence != CONTROL]
    held = sum(claim.assessment == "holds" for claim in assessed)
    real = [column for column in table if column.real]
    kind = (
        "real data" if len(real) == len(table)
        else "simulated data" if not real else "real and simulated data"
    )  # fmt: skip
    return (
        f"{held} of {len(assessed)} checks of the paper's sentences hold, on {kind}. "
        f"Lines are medians over the seeds, bands the quartiles."
    )


def _panels(column: Column) -> str:
    title = html.escape(column.title)
    what = html.escape(f"{column.size}, {column.kind}: {column.data_title}")
    plots = "".join(
        f'<figure><figcaption>{html.escape(METRICS[metric])}</figcaption>'
        f'<div class="plot" id="{html.escape(column.id)}-{metric}" role="img" '
        f'aria-label="{html.escape(METRICS[metric])}, {title}"></div></figure>'
        for metric in ("gradient_mapping", "gap")
    )  # fmt: skip
    return f'<section class="column"><h3>{title}</h3><p class="what">{what}</p>{plots}</section>'


def _claims_table(assessed: list[Claim]) -> str:
    rows = "".join(
        f'<tr class="{claim.assessment.replace(" ", "-")}"><td>{html.escape(claim.where)}</td>'
        f"<td>{html.escape(claim.sentence)}</td>"
        f'<td class="assessment">{claim.assessment}</td>'
        f"<td>{_small_table(claim.measured)}</td></tr>"
        for claim in assessed
    )
    head = "<tr><th>experiment</th><th>the paper says</th><th>assessment</th><th>measured</th></tr>"
    return f'<table class="claims"><thead>{head}</thead><tbody>{rows}</tbody></table>'


def _small_table(table: Table) -> str:
    """What was measured: a table inside a cell."""
    heads, *rows = (tuple(html.escape(cell) for cell in row) for row in table)
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    body = "".join(
        f"<tr><th>{row[0]}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    return f'<table class="measured"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _tuning_table(column: Column) -> str:
    rows = ""
    for row in best_steps(column):
        cells = "".join(f"<td>{passes(row.passes[level])}</td>" for level in LEVELS)
        step, tried = "chooses by itself", "–"
        if row.step_size is not None:
            edge = " (edge of the grid)" if row.at_edge else ""
            step, tried = f"{row.step_size:.3g}{edge}", f"{row.tried}, {row.diverged}"
        rows += f"<tr><td>{html.escape(row.label)}</td><td>{step}</td>{cells}<td>{tried}</td></tr>"
    head = "".join(f"<th>gap {level:g}</th>" for level in LEVELS)
    title = html.escape(f"{column.title}: {column.size}, {column.kind}")
    return (
        f"<h3>{title}</h3><table><thead><tr><th>method</th><th>best step</th>"
        f"{head}<th>steps tried, diverged</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _run(column: Column) -> str:
    p = {name: html.escape(str(value)) for name, value in column.parameters.items()}
    outer = (
        f", outer batch {p['outer_batch_size']}" if column.parameters["outer_batch_size"] else ""
    )
    best = "Φ* exact" if column.exact else "Φ* the lowest value found in any run"
    asc = ""
    if column.parameters["asc_pg"]:
        own = {name: html.escape(str(v)) for name, v in column.parameters["asc_pg"].items()}
        asc = (
            f"; ASC-PG α<sub>k</sub> = {own['step_size']}·k<sup>−5/9</sup>, "
            f"β<sub>k</sub> = {own['average']}·k<sup>−4/9</sup>"
        )
    return (
        f"<li><b>{html.escape(column.title)}</b>: {html.escape(column.data_title)}, "
        f"{html.escape(column.size)}. "
        f"Step size {p['step_size']}, batch {p['batch_size']}{outer}, period {p['period']}, "
        f"{p['epochs']} epochs, {p['seeds']} seeds, θ ≡ 1{asc}; {column.kind}; "
        f"{best} = {column.best:.8g}.</li>"
    )
