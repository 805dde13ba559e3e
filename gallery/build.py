"""`python -m gallery.build [NAME …]`: run the examples of this folder as notebooks.

Each file NAME.py is a notebook in the percent format; it is executed in a kernel of its own, in a
folder of its own, and written with its outputs to docs/gallery/NAME.ipynb.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
TARGET = HERE.parent / "docs" / "gallery"
EXAMPLES = sorted(p for p in HERE.glob("*.py") if p.read_text("utf-8").startswith("# %%"))


def run(example: Path) -> nbformat.NotebookNode:
    """The executed notebook; an exception in a cell is raised."""
    notebook = jupytext.read(example)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # not drawn at random: equal runs are equal files
        cell.metadata = {}
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output.data.pop("text/plain", None)
    return notebook


def main(names: list[str]) -> None:
    TARGET.mkdir(exist_ok=True)
    for example in EXAMPLES:
        if names and example.stem not in names:
            continue
        start = time.perf_counter()
        nbformat.write(run(example), TARGET / f"{example.stem}.ipynb")
        print(f"{example.stem}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
