"""`--set key=value`: the parameters of a method, as Python values."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import mvrc

SCHEDULES = {
    kind.__name__: kind for kind in (mvrc.Constant, mvrc.Diminishing, mvrc.Momentum, mvrc.Power)
}


def parse(settings: Sequence[str]) -> dict[str, Any]:
    """`step_size=0.01` and so on; refused when there is no `=`, or a key comes twice."""
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = (part.strip() for part in setting.partition("="))
        if not (equals and key and text):
            raise ValueError(
                f"--set takes key=value, such as --set step_size=0.01, not {setting!r}."
            )
        if key in values:
            raise ValueError(f"--set gives {key} twice; give it once.")
        values[key] = value(text)
    return values


def value(text: str) -> Any:
    """A literal, a schedule such as Constant(0.9) or Power(1.0, 0.5), or else the word itself."""
    try:
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Call) and getattr(tree.func, "id", None) in SCHEDULES:
            args = [ast.literal_eval(arg) for arg in tree.args]
            named = {str(word.arg): ast.literal_eval(word.value) for word in tree.keywords}
            kind = SCHEDULES[tree.func.id]  # type: ignore[attr-defined]
        else:
            return ast.literal_eval(tree)
    except (SyntaxError, ValueError):
        return text
    return kind(*args, **named)
