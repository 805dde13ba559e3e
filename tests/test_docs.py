"""The documentation is true: its code runs and prints what it says, its links and names exist."""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import mvrc
from mvrc.methods.method import Start
from mvrc.solvers.table import markdown_table

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")],
    key=lambda page: page.name,
)
WITH_LINKS = [*PAGES, ROOT / "CHANGELOG.md"]

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")

# What is printed must agree with the page to the last digits that a page shows: another machine,
# or a compiler without optimisation as in these tests, rounds differently.
TOLERANCE = 1e-2


def blocks(page: Path) -> list[tuple[int, str, str | None]]:
    """Python blocks with their first line, and the text block that follows at once: the output."""
    text = page.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    found = []
    for fence, following in itertools.zip_longest(fences, fences[1:]):
        words = fence["info"].split()
        if words[:1] != ["python"] or "no-run" in words:
            continue
        output = None
        if following is not None and following["info"].strip() == "text":
            between = text[fence.end() : following.start()]
            output = following["body"] if not between.strip() else None
        line = text.count("\n", 0, fence.start("body"))
        found.append((line, fence["body"], output))
    return found


def assert_printed(printed: str, shown: str, where: str) -> None:
    """Words are equal, numbers nearly so."""
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (printed, shown)]
    assert words[0] == words[1], f"{where} prints\n{printed}\nbut the page shows\n{shown}"
    numbers = [
        [float(n.replace(",", "")) for n in NUMBER.findall(text)] for text in (printed, shown)
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=TOLERANCE), f"{where} prints\n{printed}"


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A folder to write to, no windows, and the cache of programs as it was."""
    from mvrc.compiler import disk

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    before = disk.folder()
    yield tmp_path
    mvrc.compilation_cache(before)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda p: p.name)
def test_code_runs_and_prints_what_the_page_shows(page, scratch):
    namespace = {"__name__": "__main__"}
    for line, source, output in blocks(page):
        code = compile("\n" * line + source, str(page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        if output is not None:
            assert_printed(printed.getvalue(), output, f"{page.name}, line {line + 1}")


@pytest.mark.parametrize("page", WITH_LINKS, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for match in LINK.finditer(text):
        target, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name} links to {target}, which does not exist"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name} links to {match['target']}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as mkdocs and GitHub make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def public_names() -> list[str]:
    tree = ast.parse((ROOT / "src" / "mvrc" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return [alias.asname or alias.name for node in imports for alias in node.names]


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_is_documented(name):
    """In code of some page, so that a name like Box is not found in prose by chance."""
    assert hasattr(mvrc, name)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        code = [match["body"] for match in FENCE.finditer(text)]
        code += re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
        if any(re.search(rf"(?<!\w){name}(?!\w)", part) for part in code):
            return
    pytest.fail(f"mvrc.{name} is on no page of the documentation")


def test_every_method_has_its_row():
    """docs/methods.md says of each method what the code says of it."""
    text = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    table = {row[0]: row[1:] for row in rows if len(row) == 6}
    x0 = np.zeros(3)
    data = np.ones((50, 3))
    problem = mvrc.Composition(lambda x, r: r * x, lambda y: (y**2).sum(), data)
    for name, recipe in mvrc.METHODS.items():
        resolved = recipe().resolve(problem, problem.geometry(x0), Start(problem, x0))
        parts = (type(part).__name__ for part in (resolved.estimator, resolved.scheme))
        written = table.get(f'`"{name}"`')
        if written is None:  # the table of defaults may lag behind, the generated one may not
            continue
        assert written[0] == f"`{recipe.__name__}`"
        assert written[1] == "`{}` × `{}`".format(*parts)
        assert written[2] == recipe.about.problems
    assert markdown_table() in text, "run make docs"


def test_every_status_has_its_sentence():
    text = (ROOT / "docs" / "minimize.md").read_text(encoding="utf-8")
    for status in mvrc.Status:
        assert f"| `{status.name}` | {status.value} |" in text


def test_the_map_has_every_file():
    """docs/architecture.md lists the files of src/mvrc, no more and no fewer."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text[text.index("## The rooms") : text.index("Around it:")]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = {name for cell in cells for name in re.findall(r"`([\w.]+/?)`", cell)}
    found = {path.name for path in (ROOT / "src" / "mvrc").glob("*.py")} - {"__init__.py"}
    found |= {f"{path.parent.name}/" for path in (ROOT / "src" / "mvrc").glob("*/__init__.py")}
    assert listed == found


def test_quoted_lines_stand_in_the_source():
    """Rows `| … | `code` | `file.py` |` of the tables quote the source as it is."""
    row = re.compile(r"\| `(?P<code>[^`]+)` \| `(?P<file>[\w/]+\.py)` \|")
    pages = [page for page in PAGES if page.name != "architecture.md"]  # whose tables list files
    quoted = [m for page in pages for m in row.finditer(page.read_text(encoding="utf-8"))]
    assert len(quoted) >= 17  # the lines of Algorithms 1 and 2
    for match in quoted:
        source = (ROOT / "src" / "mvrc" / match["file"]).read_text(encoding="utf-8")
        assert match["code"] in source, f"{match['file']} no longer has {match['code']}"
