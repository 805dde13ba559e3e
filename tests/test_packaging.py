"""Wheel and sdist, built and installed into clean environments: what a user of an index gets."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import mvrc

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)

# What an extra must make possible, in a line.
USES = {
    "cli": "import mvrc.cli",
    "data": "import mvrc.datasets, pooch, skfolio",
    "gym": "import mvrc.applications.bellman, gymnasium",
    "pandas": "result.history.to_pandas()",
    "plot": "result.plot()",
    "progress": "mvrc.minimize(problem, np.zeros(10), progress=True)",
    "report": "import mvrc.report.page, plotly",
    "sklearn": "from mvrc.applications import MeanVariancePortfolio as M; M().fit(returns)",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The files of `hatchling build`, from a copy without what git does not know."""
    folder = tmp_path_factory.mktemp("build")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, tracked.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copyfile(ROOT / name, target)
    subprocess.run([sys.executable, "-m", "hatchling", "build"], cwd=folder, check=True)
    return folder / "dist"


def test_the_files_that_are_built(built):
    wheel, sdist = next(built.glob("*.whl")), next(built.glob("*.tar.gz"))
    assert f"mvrc-{mvrc.__version__}" in wheel.name and f"mvrc-{mvrc.__version__}" in sdist.name
    names = zipfile.ZipFile(wheel).namelist()
    assert {"mvrc/py.typed", "mvrc/experiments/paper.toml"} <= set(names)
    assert not [n for n in names if not n.startswith(("mvrc/", f"mvrc-{mvrc.__version__}.dist"))]
    with tarfile.open(sdist) as file:
        inside = {name.split("/", 1)[-1] for name in file.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"} <= inside
    assert not [name for name in inside if name.startswith((".venv", "demo", "site"))]


@pytest.fixture(scope="module")
def python(built, tmp_path_factory):
    """The interpreter of a new environment with the wheel alone."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    _install(python, next(built.glob("*.whl")))
    return python


def _install(python: Path, what: object) -> None:
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", str(what)]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def _run(python: Path, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_the_wheel_alone_runs_the_first_example(python, tmp_path):
    done = _run(python, EXAMPLE[1], tmp_path)
    assert done.stdout.startswith("CONVERGED: -0.005343"), done.stderr
    command = subprocess.run(
        [python.parent / "mvrc", "--help"], cwd=tmp_path, capture_output=True, text=True
    )
    assert command.returncode != 0 and "'.[cli]'" in command.stderr  # it says what is missing


@pytest.mark.slow
def test_every_extra_of_the_wheel(python, built, tmp_path):
    wheel = next(built.glob("*.whl"))
    for extra, use in USES.items():
        _install(python, f"{wheel}[{extra}]")
        done = _run(python, f"{EXAMPLE[1]}\n{use}", tmp_path)
        assert done.returncode == 0, (extra, done.stderr[-2000:])
    done = subprocess.run([python.parent / "mvrc", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "reproduce" in done.stdout


@pytest.mark.slow
def test_the_sdist_installs(built, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    python = tmp_path / "clean" / "bin" / "python"
    _install(python, next(built.glob("*.tar.gz")))
    assert _run(python, EXAMPLE[1], tmp_path).stdout.startswith("CONVERGED")
