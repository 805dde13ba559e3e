"""The command `mvrc`: every command, every exit code, resuming, and errors as sentences."""

from __future__ import annotations

import contextlib
import csv
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import mvrc
from mvrc import cli
from mvrc.cli import parameters
from mvrc.cli.app import app
from mvrc.experiments.loading import load, split
from mvrc.solvers.catalogue import COUPLED

PROBLEM = """
import jax.numpy as jnp
import numpy as np
import mvrc

returns = 0.05 + np.random.default_rng(0).standard_normal((60, 3))

def make(risk):
    return mvrc.Composition(
        inner=lambda x, r: jnp.stack([r @ x, (r @ x) ** 2]),
        outer=lambda y: -y[0] + risk * (y[1] - y[0] ** 2),
        inner_data=returns,
        regularizer=mvrc.L1(0.01),
    )

problem = make(0.2)
x0 = np.zeros(3)

def averse():
    return make(2.0)

def tree():
    inner = lambda x, r: jnp.stack([r[:2] @ x["file"] + x["more"][0]])
    return mvrc.Composition(inner, lambda y: (y[0] - 1) ** 2, returns), start()

def start():
    return {"file": np.zeros(2), "more": (np.zeros(()),)}

def broken():
    return 1 / 0

number = 3
"""
SET = ("--method", "mvrc", "--set", "step_size=0.1", "--set", "batch_size=6", "--set", "period=5")
METHOD = mvrc.MVRC(step_size=0.1, batch_size=6, period=5)

# main() in a process of its own; SIGINT is ignored there if it is ignored here, unless it is set.
MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from mvrc.cli import main; main()"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current directory, with a problem in it."""
    (tmp_path / "portfolio.py").write_text(PROBLEM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("portfolio", None)


def run(*args, code=None):
    """The command in this process; without a code it converges, or ends at the limit it has."""
    runner = CliRunner(env={"COLUMNS": "80"})
    done = runner.invoke(app, [str(arg) for arg in args], prog_name="mvrc")
    limited = args and args[0] == "solve" and {"--epochs", "--samples", "--seconds"} & set(args)
    codes = ((0, 3) if limited else (0,)) if code is None else (code,)
    assert done.exit_code in codes, (done.exit_code, done.output, done.exception)
    return done


def refused(*args):
    """The sentence on stderr; nothing on stdout, no traceback."""
    done = run(*args, code=2)
    assert done.stdout == "" and done.stderr.count("\n") == 1
    return done.stderr


def rows(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_version():
    assert run("--version").stdout == f"mvrc {mvrc.__version__}\n"


@pytest.mark.parametrize("command", [None, *(c.callback.__name__ for c in app.registered_commands)])
def test_help_has_an_example(command):
    shown = run(*([] if command is None else [command]), "--help").stdout
    assert f"mvrc {command or 'solve'}" in shown[shown.index("Example") :]


def test_methods_fit_80_columns():
    shown = run("methods").stdout
    assert max(map(len, shown.splitlines())) <= 80 and "…" not in shown
    for name, recipe in mvrc.METHODS.items():
        assert name in shown and recipe.about.title in shown


def test_one_method():
    assert run("methods", "civr").stdout.rstrip("\n") == repr(mvrc.describe("civr"))
    assert "did you mean 'civr'?" in refused("methods", "civvr")


def test_methods_as_json():
    found = json.loads(run("methods", "--json").stdout)["methods"]
    assert [entry["name"] for entry in found][: 1 + len(mvrc.METHODS)] == ["auto", *mvrc.METHODS]
    assert [entry["name"] for entry in found if entry["problems"] == "coupled"] == [*COUPLED]
    one = json.loads(run("methods", "katyusha", "--json").stdout)
    assert one in found and one["class"] == "Katyusha" and "tau1" in one["arguments"]


def test_solve_is_the_library(folder):
    done = run(
        "solve", "portfolio.py", *SET, "--epochs", 4, "--seed", 3, "--output", "run", "--json"
    )
    printed = json.loads(done.stdout)
    problem, x0 = load("portfolio.py")
    expected = mvrc.minimize(problem, x0, METHOD, epochs=4, seed=3)
    np.testing.assert_array_equal(np.load("run/x.npy"), expected.x)
    np.testing.assert_array_equal(printed["x"], expected.x)
    assert printed["status"] == "EPOCHS" and printed["message"] == expected.message
    assert printed["objective"] == expected.objective
    assert printed["counts"] == expected.counts._asdict()
    assert printed["options"]["set"] == {"step_size": 0.1, "batch_size": 6, "period": 5}
    assert printed["options"]["epochs"] == 4 and printed["versions"]["mvrc"] == mvrc.__version__
    printed.pop("x")
    assert json.loads((folder / "run" / "result.json").read_text(encoding="utf-8")) == printed
    saved = rows(folder / "run" / "history.csv")
    for column in ("epoch", "inner_values", "objective", "gradient_mapping"):
        assert [float(row[column]) for row in saved] == list(expected.history[column])


def test_the_same_command_goes_on(folder):
    command = ("solve", "portfolio.py", *SET, "--output", "run")
    run(*command, "--epochs", 3)
    run(*command, "--epochs", 7)
    straight = mvrc.minimize(*load("portfolio.py"), METHOD, epochs=7)
    np.testing.assert_array_equal(np.load("run/x.npy"), straight.x)
    assert [int(row["epoch"]) for row in rows(folder / "run" / "history.csv")] == list(range(8))
    before = (folder / "run" / "x.npy").read_bytes()
    sentence = refused("solve", "portfolio.py:averse", *SET, "--output", "run", "--epochs", 7)
    assert "belongs to another run: outer was" in sentence
    assert (folder / "run" / "x.npy").read_bytes() == before


def test_converged_and_what_is_shown(folder):
    done = run("solve", "portfolio.py", "--rtol", 0.1, "--method", "civr", "--no-cache")
    assert done.stdout.startswith("converged         Converged to the tolerance.")
    assert "civr, step size" in done.stdout and "float64[3]" in done.stdout
    assert done.stderr == ""
    quiet = run("solve", "portfolio.py", "--rtol", 0.1, "--method", "civr", "--quiet").stdout
    assert quiet.count("\n") == 1 and quiet.startswith("Converged to the tolerance.")


def test_diverged_is_1_and_json_stays_json(folder):
    wild = (
        "--method",
        "mvrc",
        "--set",
        "step_size=1e300",
        "--set",
        "batch_size=6",
        "--set",
        "period=5",
        "--json",
    )
    printed = json.loads(run("solve", "portfolio.py", *wild, code=1).stdout)
    assert printed["status"] == "DIVERGED"


@pytest.mark.parametrize("target", ["portfolio", "portfolio:averse", "portfolio.py:averse"])
def test_files_and_modules(folder, target):
    problem, x0 = load(target)
    assert isinstance(problem, mvrc.Composition) and x0.shape == (3,)


def test_targets():
    assert split("a/b.py:make") == ("a/b.py", "make")
    assert split("a.b") == ("a.b", "problem")
    assert split(r"C:\a.py") == (r"C:\a.py", "problem")


def test_a_function_with_its_own_x0_of_many_arrays(folder):
    done = run("solve", "portfolio.py:tree", *SET, "--epochs", 2, "--output", "run", "--json")
    x = json.loads(done.stdout)["x"]
    with np.load("run/x.npz") as saved:
        assert set(saved.files) == set(x) == {"file", "more.0"}
        np.testing.assert_array_equal(saved["file"], x["file"])


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["portfolo.py"], "portfolo.py does not exist (did you mean 'portfolio.py'?)"),
        (["no.such.module"], "there is no file or module 'no.such.module'"),
        (["."], "no file or module '.'"),
        (["./"], "is a folder"),
        (["empty.py"], "empty.py defines no problem, a mvrc.Composition or a function"),
        (["portfolio.py:averze"], "defines no averze (did you mean 'averse'?); it has problem,"),
        (["portfolio.py:number"], "number of portfolio.py must be a mvrc.Composition or a pair"),
        (["portfolio.py:make"], "make() of portfolio.py failed with TypeError: make() missing 1"),
        (["portfolio.py:broken"], "failed (line 30 of portfolio.py) with ZeroDivisionError"),
        (["no_start.py"], "no_start.py defines no x0; write x0 ="),
        (["needs.py"], "needs.py failed (line 1 of needs.py) with ModuleNotFoundError"),
        (["needs"], "needs failed (line 1 of needs.py) with ModuleNotFoundError: No module named"),
        (["wrong.py"], "wrong.py failed with SyntaxError"),
        (["portfolio.py", "--method", "mvcr"], "method 'mvcr' is unknown (did you mean 'mvrc'?)"),
        (["portfolio.py", "--set", "stepsize=1"], "has no argument 'stepsize' (did you mean"),
        (
            ["portfolio.py", "--method", "mvrc", "--set", "step_size=fast"],
            "step_size must be a positive number",
        ),
        (["portfolio.py", "--set", "step_size"], "--set takes key=value, such as"),
        (["portfolio.py", "--set", "period=2", "--set", "period=3"], "--set gives period twice"),
        (["portfolio.py", "--set", "momentum=Constant(2)"], "alpha must lie in [0, 1], not 2"),
        (["portfolio.py", "--epochs", "-1"], "epochs must be an integer of at least 0"),
        (["portfolio.py", "--output", "empty.py"], "cannot be written (Not a directory)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_a_sentence(folder, args, sentence):
    (folder / "empty.py").touch()
    (folder / "no_start.py").write_text("from portfolio import problem", encoding="utf-8")
    (folder / "needs.py").write_text("import no_such_package", encoding="utf-8")
    (folder / "wrong.py").write_text("problem = (", encoding="utf-8")
    assert sentence in refused("solve", *args)


def test_debug_shows_the_traceback(folder):
    done = CliRunner().invoke(app, ["--debug", "solve", "portfolio.py:broken"])
    assert isinstance(done.exception, ValueError)
    assert isinstance(done.exception.__cause__, ZeroDivisionError)


def test_wrong_options():
    run("solve", code=2)
    run("solve", "portfolio.py", "--epochs", "many", code=2)
    run("no-such-command", code=2)


@pytest.mark.parametrize("text", ["0.01", "64", "None", "True", "(1, 2)", "free", "'free'", "1e-3"])
def test_literals(text):
    assert parameters.value(text) == {"free": "free"}.get(text, eval(text, {"free": "free"}))


def test_schedules():
    assert parameters.value("Power(1.0, exponent=0.5)") == mvrc.Power(1.0, 0.5)
    assert isinstance(parameters.value("Diminishing(restart=True)"), mvrc.Diminishing)
    assert parameters.value("open('x')") == "open('x')"  # a word: nothing is called


def test_an_interrupt_outside_of_the_run_is_130(folder):
    (folder / "slow.py").write_text("raise KeyboardInterrupt", encoding="utf-8")
    assert run("solve", "slow.py", code=130).stderr == "Interrupted.\n"


def test_tune_finds_the_best_of_what_it_tried_and_goes_on(folder):
    args = ("tune", "portfolio.py", "--methods", "proximal-gradient", "--seeds", 1, "--passes", 3)
    args = (*args, "--lowest", -1, "--highest", 1, "--output", "tuned")
    first = json.loads(run(*args, "--json").stdout)
    files = {file: file.stat().st_mtime_ns for file in (folder / "tuned" / "tries").iterdir()}
    assert len(files) == len(first["tried"]) >= 3
    finite = [row for row in first["tried"] if row["objective"] is not None]
    best = first["best"]["proximal-gradient"]
    assert best["objective"] == min(row["objective"] for row in finite)
    finer = json.loads(run(*args, "--search", "bisection", "--json").stdout)
    assert len(finer["tried"]) > len(files)
    assert finer["best"]["proximal-gradient"]["objective"] <= best["objective"]
    assert all(file.stat().st_mtime_ns == when for file, when in files.items())  # not run again
    assert len(rows(folder / "tuned" / "tuned.csv")) == len(finer["tried"])
    assert "has no step size to tune" in refused(*args, "--methods", "auto")
    assert "search must be 'grid' or 'bisection'" in refused(*args, "--search", "random")


@pytest.mark.parametrize(
    "args, sentence",
    [
        (("--seed", -3), "--seed must be an integer of at least 0, not -3."),
        (("--epochs", -1), "--epochs must be an integer of at least"),
        (("--tol", 0), "--tol must be a positive number"),
        (("--method", "cvir"), "--method 'cvir' is unknown (did you mean 'civr'?)"),
        (("--method", "civr", "--set", "period=a"), "--set period must be an integer"),
        (("--method", "civr", "--set", "lr=1"), "--set lr: the method has no argument 'lr'"),
    ],
    ids=str,
)
def test_messages_name_the_option(folder, args, sentence):
    assert sentence in refused("solve", "portfolio.py", *args)


def test_exit_codes_tell_converged_from_a_limit(folder):
    run("solve", "portfolio.py", code=0)
    run("solve", "portfolio.py", *SET, "--epochs", 1, code=3)


def test_bench(folder, monkeypatch):
    assert "is not in a checkout of mvrc" in refused("bench")
    (folder / "benchmarks").mkdir()
    (folder / "src" / "mvrc").mkdir(parents=True)
    (folder / "benchmarks" / "__main__.py").write_text("raise SystemExit(7)", encoding="utf-8")
    monkeypatch.chdir(folder / "src")
    run("bench", code=7)


def test_without_typer(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "mvrc.cli.app")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        "The command mvrc needs typer: pip install 'mvrc[cli]', or in a checkout: "
        "pip install '.[cli]'.\n"
    )


def test_main_alone_is_in_the_package():
    own = [v for v in vars(cli).values() if inspect.isfunction(v)]
    assert own == [cli.main]


@contextlib.contextmanager
def process(folder, *args):
    """The command in a process of its own, stderr a terminal; yields it and what it wrote there."""
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "120"}
    env.pop("MVRC_CACHE")
    ours, theirs = os.openpty()
    started = subprocess.Popen(
        [sys.executable, "-c", MAIN, *args],
        cwd=folder, env=env, stdout=subprocess.PIPE, stderr=theirs, text=True,
    )  # fmt: skip
    os.close(theirs)
    written = []

    def read():
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(ours, 4096):
                written.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield started, written
    finally:
        started.kill()
        started.wait()
        reader.join()
        os.close(ours)


@pytest.mark.parametrize(
    "sent, code, word", [("SIGINT", 130, "Interrupted"), ("SIGTERM", 143, "Terminated")]
)
def test_signals_keep_what_is_done(folder, sent, code, word):
    """A real process and a real signal; then the same command, here, goes on with its run."""
    args = ("solve", "portfolio.py", *SET, "--output", "run", "--epochs")
    deadline = time.monotonic() + 60
    with process(folder, *args, "1000000000") as (started, written):
        while not (folder / "run" / "state" / "state.npz").exists():
            assert started.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.3)  # the bar is drawn ten times a second
        started.send_signal(getattr(signal, sent))
        out = started.communicate(timeout=30)[0]
    err = b"".join(written).decode()
    assert started.returncode == code and f"{word}; all is saved in run." in err
    modes = {file.stat().st_mode & 0o777 for file in (folder / "run").rglob("*") if file.is_file()}
    assert len(modes) == 1  # that of any file here
    assert out.startswith("interrupted") and "gradient mapping" in err and "Traceback" not in err
    assert "To continue, run the same command:\r\n  mvrc solve portfolio.py" in err
    assert (folder / "cache" / "mvrc").is_dir()  # compiled programs are kept
    saved = json.loads((folder / "run" / "result.json").read_text(encoding="utf-8"))
    made = saved["epochs"]
    assert saved["status"] == "INTERRUPTED"
    assert len(rows(folder / "run" / "history.csv")) == made + 1
    assert np.load(folder / "run" / "x.npy").shape == (3,)
    again = json.loads(run(*args, made + 2, "--json").stdout)
    assert again["status"] == "EPOCHS" and again["epochs"] == made + 2
    assert len(rows(folder / "run" / "history.csv")) == made + 3


@pytest.mark.parametrize(("given", "level"), [({}, "3"), ({"TF_CPP_MIN_LOG_LEVEL": "0"}, "0")])
def test_the_log_of_xla_is_quiet_unless_it_is_asked_for(given, level):
    """The level is set before JAX is imported, which has a default of its own."""
    env = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"} | given
    code = "import mvrc, os; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == level
