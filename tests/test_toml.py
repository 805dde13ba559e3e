"""Wrong experiment files: each gets one sentence with the file and the line or key."""

from __future__ import annotations

import datetime
import json
import random
import re
import tomllib
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from mvrc.cli import reproduce as command
from mvrc.cli.app import app
from mvrc.experiments import sources, spec
from mvrc.experiments.sources import Source

PAPER = (resources.files("mvrc.experiments") / "paper.toml").read_text("utf-8")
PAGE = (Path(__file__).parents[1] / "docs" / "experiments.md").read_text("utf-8")
MINE = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1]

OPTIONAL = {
    "seeds", "asc_pg", "outer_batch_size", "tuning", "together", "instead_of", "besides",
    "controls", "beside", "spacing", "momentum", "step_factor",
}  # fmt: skip
# Wrong wherever they stand: nothing is a date, empty, a list of lists or so far below zero.
NEVER = (datetime.date(1979, 5, 27), float("nan"), [[1]], {"zzz": 1}, "", -13)
# What Python says by itself.
BARE = re.compile(
    r"Traceback|Error\b|Errno|NoneType|has no attribute|object|unpack|unexpected keyword|"
    r"positional|invalid literal|codec|iterable|subscriptable|validation|pydantic|Input should"
)


PLACE = re.compile(
    r', line \d+: this is not |: (the file|seeds|methods|experiments)(\.[\w-]+|\.".*"|\[\d+\])* '
)


class Accepted(Exception):  # noqa: N818
    """In the place of the runs."""


@pytest.fixture
def said(monkeypatch, tmp_path):
    """What `mvrc reproduce` says of a file; None if it would run it."""
    monkeypatch.chdir(tmp_path)  # where its folder is made
    rng = np.random.default_rng(0)
    returns, X = rng.standard_normal((600, 3)), rng.uniform(size=(600, 12))

    def find(names, folder, problem):
        houses = "housing" in names[0]
        return Source(names[0], "", False, (X, X.sum(axis=1)) if houses else (returns,))

    def run(*args, **kwargs):
        raise Accepted

    monkeypatch.setattr(sources, "find", find)
    monkeypatch.setattr(command, "_run", run)
    file = tmp_path / "mine.toml"

    def say(text):
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        result = CliRunner().invoke(app, ["reproduce", "--experiments", str(file)])
        if isinstance(result.exception, Accepted):
            return None
        assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result.exception
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"mvrc: {file}") and line.endswith("."), line
        sentence = line.removeprefix(f"mvrc: {file}")
        assert PLACE.match(sentence), line
        assert not BARE.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", sentence)), line
        return sentence

    return say


# --- sentences ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [PAPER, MINE, "\ufeff" + MINE, MINE.replace("\n", "\r\n")])
def test_right_files_are_run(said, text):
    assert said(text) is None


CASES = {
    "unknown key": ("epochs =", "epoch =", r"experiments.mine has no key 'epoch' .*'epochs'"),
    "unknown table": ("[methods.civr]", "[method.civr]", r"the file has no key 'method' .*'meth"),
    "ours": ("epochs =", 'id = "a"\nepochs =', r"experiments.mine has no key 'id'"),
    "missing": ("epochs = 10", "", "experiments.mine needs the key epochs"),
    "type": ("= 10\n", '= "ten"\n', "seeds must be an integer of at least 1, not 'ten'"),
    "range": ("batch_size = 64", "batch_size = 0", "mine.batch_size must be an integer of at"),
    "more than samples": ("= 64", "= 601", "mine cannot run its .* batch_size is 601 but there"),
    "infinite": ("step_size = 1e-2", "step_size = inf", "mine.step_size must be a positive num"),
    "not a list": ('["sp500"]', '"sp500"', "mine.data must be a list, not 'sp500'"),
    "empty list": ('["sp500"]', "[]", "mine.data is empty"),
    "no such data": ('"sp500"', '"sp50"', r"data\[0\] must be .* not 'sp50' .*mean 'sp500'"),
    "other data": ('"sp500"', '"housing"', r"mine.data\[0\] must be .*, not 'housing'"),
    "no such method": ('"civr"]', '"cirv"]', r"mine.methods\[1\] must be .* .did you mean 'civr'"),
    "no such recipe": ('= "civr"', '= "cvir"', r"methods.civr.recipe must be .* mean 'civr'"),
    "no such problem": ('"portfolio"', '"portfolo"', r"mine.problem must be .* mean 'portfolio'"),
    "momentum": ("= 0.9", "= 1.9", r"methods.mvrc-constant.momentum must lie in \[0, 1\], not 1.9"),
    "momentum of another": ('"civr"\n', '"civr"\nmomentum = 0.5\n', "methods.civr.momentum is for"),
    "step of its own": ('= "civr"\n', '= "fista"\nstep_factor = 2\n', "step_factor multiplies"),
    "sizes": ('"pass"', '"pass"\nouter_batch_size = 4', "mine cannot run .* outer_batch_size is 4"),
    "recipe without sizes": ('= "civr"', '= "proximal-gradient"', "mine cannot run .*'batch_size'"),
    "asc-pg": ('= "civr"', '= "asc-pg"', "experiments.mine runs ASC-PG and needs asc_pg"),
    "others": ('"pass"', '"pass"\nbesides = ["min"]', r"mine.besides\[0\] must be 'mine', not 'mi"),
    "syntax": ("title = ", "title : ", ", line 13: this is not valid TOML: expected '='"),
    "twice": ("epochs = 10", "epochs = 10\nepochs = 9", ", line 21: this is not valid TOML"),
    "open list": ('["sp500"]', '["sp500"', r", line \d+: this is not valid TOML"),
    "digits": ("epochs = 10", "epochs = " + 5000 * "9", ", line 20: this is not valid TOML: too"),
    "deep": ("epochs = 10", "epochs = " + 9999 * "[", ", line 20: this is not valid TOML: nest"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_wrong_files_in_words(said, case):
    old, new, expected = CASES[case]
    assert old in MINE
    assert re.search(expected, said(MINE.replace(old, new, 1)))


TUNING = """
[experiments.mine.tuning]
methods = ["civr"]
lowest = -1
highest = 1
passes = 2
seeds = 1
"""


def test_wrong_grids(said):
    assert said(MINE + TUNING) is None
    for old, new, expected in (
        ("highest = 1", "highest = -2", "tuning.highest must be at least lowest, -1, not -2"),
        ("highest = 1", "highest = 999", "tuning.highest must be at most 12, not 999"),
        ("seeds = 1\n", "seeds = 1\nspacing = 1e-9", "tuning.spacing must be at least"),
        ("lowest", "lowst", "mine.tuning has no key 'lowst' .did you mean 'lowest'"),
    ):
        assert expected in said(MINE + TUNING.replace(old, new)).replace("(", ".", 1)


def test_files_that_are_none(tmp_path, said):
    assert "line 2: this is not UTF-8 text" in said(b"seeds = 1\n\xff")
    assert "the file needs the key methods" in said("")
    for path, why in ((tmp_path / "none.toml", "No such file"), (tmp_path, "directory")):
        with pytest.raises(ValueError, match=f"{path.name}' cannot be read .*{why}"):
            spec.load(path)


def test_momentum_of_zero_is_zero(tmp_path):
    from mvrc.experiments import problems

    file = tmp_path / "mine.toml"
    file.write_text(MINE.replace("momentum = 0.9", "momentum = 0"), "utf-8")
    (mine,) = spec.load(file).values()
    assert problems.method(mine.methods[0], mine, 600).momentum.weight == 0


# --- the fuzzer ---------------------------------------------------------------------------------


def written(table):
    """TOML of a table; tables inside of it inline."""

    def value(v):
        if isinstance(v, dict):
            return "{" + ", ".join(f"{json.dumps(k)} = {value(w)}" for k, w in v.items()) + "}"
        if isinstance(v, list):
            return "[" + ", ".join(map(value, v)) + "]"
        return json.dumps(v, ensure_ascii=False).replace("NaN", "nan") if _plain(v) else str(v)

    lines = [f"{json.dumps(k)} = {value(v)}" for k, v in table.items() if not isinstance(v, dict)]
    for name, inside in table.items():
        if isinstance(inside, dict):
            for key, fields in inside.items():
                if isinstance(fields, dict):
                    lines.append(f"[{json.dumps(name)}.{json.dumps(key)}]")
                    lines += [f"{json.dumps(k)} = {value(v)}" for k, v in fields.items()]
                else:
                    lines.append(f"[{json.dumps(name)}]\n{json.dumps(key)} = {value(fields)}")
    return "\n".join(lines) + "\n"


def _plain(value):
    return isinstance(value, str | bool | int | float)


def tables(table):
    """Every table with keys of the schema."""
    yield table
    for fields in (*table["methods"].values(), *table["experiments"].values()):
        yield fields
        yield from (v for v in fields.values() if isinstance(v, dict))


def mutated(rng):
    """A file after one to three mistakes, and whether it must be wrong."""
    base = rng.choice((MINE, MINE + TUNING, PAPER))
    if rng.random() < 0.4:
        return _garbled(base, rng), False
    whole = tomllib.loads(base)
    for _ in range(rng.randint(1, 3)):
        place = rng.choice(list(tables(whole)))
        key = rng.choice(list(place))
        kind = rng.choice(("delete", "rename", "retype", "add"))
        if kind == "delete":
            if key in OPTIONAL:
                continue
            del place[key]
        elif kind == "rename":
            i = rng.randrange(len(key))
            place[key[:i] + rng.choice("xyzXÄ_- .\n") + key[i + 1 :] + "q"] = place.pop(key)
        elif kind == "retype":
            place[key] = rng.choice(NEVER)
        else:
            place[f"{key}_more"] = rng.choice((1, "word", True, [1, 2]))
        return written(whole), True
    return written(whole), False


def _garbled(base, rng):
    raw = bytearray(base.encode())
    for _ in range(rng.randint(1, 4)):
        kind, at = (
            rng.choice(("cut", "insert", "replace", "delete", "line")),
            rng.randrange(len(raw)),
        )
        if kind == "cut":
            raw = raw[: max(1, at)]
        elif kind == "insert":
            raw[at:at] = rng.choice((b"[", b"]", b'"', b"=", b"\n", b"\x00", b"\xff", b"9", b"{"))
        elif kind == "replace":
            raw[at] = rng.choice(b'0aZ.-"[]=\n#')
        elif kind == "delete":
            del raw[at : at + rng.randint(1, 20)]
        else:
            lines = raw.split(b"\n")
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
            raw = bytearray(b"\n".join(lines))
        raw = raw or bytearray(b"=")
    return bytes(raw)


def attack(said, seed, count):
    rng = random.Random(seed)
    refused = 0
    for number in range(count):
        text, wrong = mutated(rng)
        try:
            sentence = said(text)
        except Exception as error:
            raise AssertionError(f"seed {seed}, file {number}:\n{text}") from error
        assert sentence is not None or not wrong, f"seed {seed}, file {number} is run:\n{text}"
        refused += sentence is not None
    assert refused > count / 2


def test_mutated_files_get_a_sentence(said):
    attack(said, 0, 300)


@pytest.mark.slow
def test_mutated_files_with_fresh_seeds(said):
    attack(said, random.SystemRandom().randrange(2**32), 1500)


def test_a_right_file_runs_to_its_page(tmp_path, monkeypatch):
    returns = np.random.default_rng(0).standard_normal((200, 3)) + 0.1
    small = Source("sp500", "small", False, (returns,))
    monkeypatch.setattr(sources, "find", lambda names, folder, problem: small)
    file = tmp_path / "mine.toml"
    file.write_text(MINE.replace("epochs = 10", "epochs = 2"), "utf-8")
    asked = ["reproduce", "--experiments", str(file), "--output", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*asked, "--seeds", "1", "--workers", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["runs"] == 2
