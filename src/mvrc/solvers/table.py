"""describe(name) and the table of all methods, both from what the recipes say of themselves."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

from mvrc.methods import NamedRecipe
from mvrc.methods.recipe import About
from mvrc.solvers.auto import Auto
from mvrc.solvers.catalogue import COUPLED, METHODS
from mvrc.support import checks


@dataclasses.dataclass(frozen=True)
class Description:
    """The description of a method; print it."""

    name: str
    recipe: str  # its class
    rule: str
    about: About
    arguments: tuple[str, ...]

    def __repr__(self) -> str:
        about = self.about
        return "\n".join(
            (
                f"{about.title}: method={self.name!r}, {self.recipe}({', '.join(self.arguments)})",
                "",
                self.rule,
                "",
                f"reference    {about.reference}",
                f"problems     {about.problems}",
                f"regularizer  {about.regularizer}",
                f"an epoch     {about.epoch} evaluations of g",
                f"memory       {about.memory} numbers besides the data",
                f"complexity   {about.complexity}",
            )
        )


def describe(name: str) -> Description:
    """Rule, reference, cost of an epoch, memory and needs of "auto", a method of `METHODS`, or one
    for coupled problems.

    Examples:
        >>> mvrc.describe("civr").about.epoch
        'n + 2S(τ−1)'
    """
    known: dict[str, type[NamedRecipe]] = {"auto": Auto, **METHODS, **COUPLED}
    recipe = known[checks.choice("name", name, known)]
    arguments = [p for p in inspect.signature(recipe).parameters if p != "self"]
    rule = (inspect.getdoc(recipe) or "").partition("\n\nExamples:")[0]
    return Description(name, recipe.__name__, rule, recipe.about, tuple(arguments))


def markdown_table() -> str:
    """All methods, one row each, for docs/methods.md."""
    heads = ("method", "name", "problems", "regulariser", "evaluations of g per epoch",
             "numbers kept", "complexity")  # fmt: skip
    rows = [heads, ("---",) * len(heads)]
    for name, recipe in (METHODS | COUPLED).items():
        about = recipe.about
        row = (about.title, f"`{name}`", about.problems, about.regularizer, about.epoch,
               about.memory, about.complexity)  # fmt: skip
        rows.append(tuple(cell.replace("|", "\\|") for cell in row))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def write(path: str) -> None:
    """Put the table into a page, between its two markers."""
    page = Path(path)
    text = page.read_text(encoding="utf-8")
    pattern = r"(?<=<!-- methods: written by make docs -->\n).*?(?=<!-- end -->)"
    page.write_text(re.sub(pattern, markdown_table(), text, flags=re.S), encoding="utf-8")
