"""The site: it builds, opens from the disk, is searched there, and fits a small screen."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted(
    path for path in (ROOT / "gallery").glob("*.py") if path.read_text("utf-8").startswith("# %%")
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return folder


def test_nothing_is_fetched_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]* src=\"?(https?:[^\" >]+)", text)
        loaded += re.findall(r"<link[^>]*stylesheet[^>]* href=\"?(https?:[^\" >]+)", text)
        assert not loaded, f"{page.name} loads {loaded}"


def test_the_reference_has_arguments_and_examples(site):
    text = (site / "api" / "methods.html").read_text(encoding="utf-8")
    assert "Momentum with variance reduction" in text and "step_size" in text
    assert "Parameters" in text and "Examples" in text


def test_formulas_are_set_without_a_network(site):
    assert "<math" in (site / "index.html").read_text(encoding="utf-8")


def test_search_works_from_the_disk(browser, site):
    tab = browser.new_context(offline=True).new_page()
    tab.goto((site / "index.html").as_uri())
    tab.keyboard.press("/")
    tab.keyboard.type("prox", delay=20)
    found = tab.locator(".md-search-result__item a").first
    found.wait_for(timeout=60_000)
    assert ".html" in found.get_attribute("href")
    tab.context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_scrolls_sideways(browser, site, width):
    tab = browser.new_context(viewport={"width": width, "height": 900}, offline=True).new_page()
    wide = {}
    for page in sorted(site.rglob("*.html")):
        tab.goto(page.as_uri(), wait_until="domcontentloaded")
        extra = tab.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
        if extra > 0:
            wide[str(page.relative_to(site))] = extra
    tab.context.close()
    assert not wide


def cells(notebook: Path) -> list[str]:
    parts = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]).strip() for cell in parts]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_is_its_python_file_with_a_picture(example):
    """What is shown was made from the file as it is."""
    shown = ROOT / "docs" / "gallery" / f"{example.stem}.ipynb"
    assert shown.exists(), "run make gallery"
    text = example.read_text(encoding="utf-8")
    written = []
    for part in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        if "[markdown]" in head:
            body = re.sub(r"^# ?", "", body, flags=re.MULTILINE)
        written.append(body.strip())
    assert cells(shown) == written, "run make gallery"
    assert "image/png" in shown.read_text(encoding="utf-8")
    assert "](" + example.stem + ".md)" in (ROOT / "docs/gallery/index.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_runs(example):
    build = pytest.importorskip("gallery.build", reason="notebooks need jupytext and nbclient")
    notebook = build.run(example)
    assert any("image/png" in out.get("data", {}) for c in notebook.cells
               for out in c.get("outputs", []))  # fmt: skip
