"""A hook of MkDocs: pages that are made when the site is.

Each notebook of docs/gallery becomes a page, with its pictures beside it; the files of the
project's root that belong to the site become pages, too.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

FOLDER = "gallery"
FROM_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_files(files: Files, config: Any) -> Files:
    """Adds what is made, as if it lay in docs/."""
    for path in sorted(Path(config["docs_dir"], FOLDER).glob("*.ipynb")):
        text, pictures = page(json.loads(path.read_text(encoding="utf-8")), path.stem)
        files.append(File.generated(config, f"{FOLDER}/{path.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"{FOLDER}/{name}", content=content))
    for name, source in FROM_ROOT.items():
        text = (Path(config["docs_dir"]).parent / source).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](")
        for page_name, other in FROM_ROOT.items():
            text = text.replace(f"]({other}", f"]({page_name}")
        files.append(File.generated(config, name, content=text))
    return files


def page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by name."""
    parts, pictures = [], {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}-{len(pictures) + 1}.png"
                pictures[picture] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![What the code above draws]({picture})")
            elif "text/html" in data:
                parts.append('<div class="output">' + "".join(data["text/html"]) + "</div>")
            else:
                text = "".join(output.get("text", data.get("text/plain", "")))
                parts.append(f"```text\n{text.rstrip()}\n```")
    parts.append(f"[This page as a notebook]({name}.ipynb)")
    return "\n\n".join(parts) + "\n", pictures
