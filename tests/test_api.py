"""Every public name is on a page of the reference, and the example of its docstring is true."""

from __future__ import annotations

import ast
import doctest
import inspect
import itertools
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import mvrc
import mvrc.applications
import mvrc.datasets
import mvrc.losses

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?")
SKIP = doctest.OPTIONFLAGS_BY_NAME["SKIP"]
ROOMS = (mvrc, mvrc.applications, mvrc.losses, mvrc.datasets)


def names(module) -> list[str]:
    """What a module's __init__ imports under the same name, and what it imports when asked."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    shown = {alias.name for node in imports for alias in node.names if alias.asname == alias.name}
    return sorted(name for name in shown if not inspect.ismodule(getattr(module, name)))


PUBLIC = [(module, name) for module in ROOMS for name in names(module)]
IDS = [f"{module.__name__}.{name}" for module, name in PUBLIC]


def docstring(module, name: str) -> str:
    value = getattr(module, name)
    if inspect.isclass(value) or callable(value):
        return inspect.getdoc(value) or ""
    # A table has its docstring below it.
    text = (ROOT / "src" / "mvrc" / "solvers" / "catalogue.py").read_text(encoding="utf-8")
    body = ast.parse(text).body
    for node, following in itertools.pairwise(body):
        if isinstance(node, ast.AnnAssign) and node.target.id == name:
            return inspect.cleandoc(following.value.value)
    return ""


def setup() -> dict:
    """What docs/api/index.md says that all examples begin with."""
    page = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    code = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    namespace: dict = {}
    exec(code, namespace)
    return namespace


class Nearly(doctest.OutputChecker):
    """Words are equal, numbers to one in the last digit that is shown, or to 1 %."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        words = [" ".join(NUMBER.sub("#", text).split()) for text in (want, got)]
        if words[0] != words[1]:
            return False
        for shown, found in zip(NUMBER.findall(want), NUMBER.findall(got), strict=True):
            digits = len(shown.partition(".")[2]) if "e" not in shown else 12
            here, there = (float(text.replace(",", "")) for text in (shown, found))
            slack = 0.01 * abs(here) + (1.001 * 10.0**-digits if "." in shown else 0)
            if abs(here - there) > slack:
                return False
        return True


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=IDS)
def test_the_example_of_its_docstring_is_true(module, name, tmp_path, monkeypatch):
    text = docstring(module, name)
    examples = doctest.DocTestParser().get_examples(text)
    assert text, f"{name} has no docstring"
    assert examples, f"the docstring of {name} has no example"
    assert "Examples:" in text, "the reference shows a section of this name"
    if all(example.options.get(SKIP) for example in examples):
        assert module is mvrc.datasets, "only a file that is not shipped may be in the way"
        return
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTest(examples, setup(), name, None, 0, text)
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = doctest.DocTestRunner(Nearly(), verbose=False).run(test, out=said.append)
    assert outcome.failed == 0, "".join(said)


def test_every_public_name_is_on_one_page_of_the_reference():
    pages = (ROOT / "docs" / "api").glob("*.md")
    listed = [n for p in pages for n in re.findall(r"^::: ([\w.]+)$", p.read_text("utf-8"), re.M)]
    assert sorted(listed) == sorted(IDS)


def test_nearly_tells_numbers_apart():
    check = Nearly().check_output
    assert check("0.25 x", "0.251 x", 0) and not check("0.25 x", "0.27 x", 0)
    assert not check("True", "False", 0) and not check("3", "4", 0)
    assert np.isfinite(float("1e3")) and check("1e3", "1e3", 0)
