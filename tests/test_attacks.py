"""Checkpoints under attack: damaged files, kill -9 at any moment, full disks.

A damaged file is refused in a sentence or gives the very numbers that were saved, never others; a
killed run goes on to the numbers of one that was left alone, bit for bit; a disk that is full costs
no result.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time
import warnings
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest

import mvrc
from cases import ONE, TWO, online, quadratic

SMALL = {"batch_size": 6, "period": 7}
RUNS = {
    "mvrc": (ONE.problem, ONE.x0, mvrc.MVRC(0.05, **SMALL), {"output": "random"}),
    "two levels": (
        TWO.problem,
        TWO.x0,
        mvrc.MVRC(0.05, mvrc.Diminishing(restart="random", restart_every=2), 6, 3, period=7),
        {},
    ),
    "storm": (ONE.problem, ONE.x0, mvrc.STORM(0.05, **SMALL), {}),
    "c-saga": (ONE.problem, ONE.x0, mvrc.CSAGA(0.05, **SMALL), {"output": "best"}),
    "spider-admm": (ONE.problem, ONE.x0, mvrc.SpiderADMM(0.05, **SMALL), {}),
    "stream": (online(), ONE.x0, mvrc.MVRC(0.05, refresh_size=50, **SMALL), {}),
    "auto": (quadratic()[0], np.full(4, 30.0), None, {"tol": 1e-300}),
    "auto, float32": (
        ONE.problem,
        ONE.x0.astype(np.float32),
        None,
        {"tol": 1e-300},
    ),
}


def run(name, **options):
    problem, x0, method, own = RUNS[name]
    return mvrc.minimize(problem, x0, method, **own, **options)


def same(a, b):
    """Two results, bit for bit; times apart."""
    np.testing.assert_array_equal(a.x, b.x)
    assert a.counts == b.counts and a.status == b.status
    for column in ("epoch", "inner_values", "objective", "gradient_mapping", "step_size"):
        np.testing.assert_array_equal(a.history[column], b.history[column])
    left, right = (jax.tree_util.tree_leaves(r.state.core) for r in (a, b))
    for x, y in zip(left, right, strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


# --- damaged files --------------------------------------------------------------------------------

EPOCHS = 3  # saved, and asked for again: a whole file is merely read back
SENTENCES = "is not a readable mvrc checkpoint|belongs to another run"


@pytest.fixture(scope="module", params=["mvrc", "auto"])
def saved(request, tmp_path_factory):
    """The name of a run, its result and its file."""
    folder = tmp_path_factory.mktemp("saved")
    result = run(request.param, epochs=EPOCHS, checkpoint=folder)
    return request.param, result, folder / "state.npz"


def attacked(saved, damage, folder):
    """Whether a file with this content was refused; if not, it gave what was saved."""
    name, result, _ = saved
    file = folder / "state.npz"
    file.write_bytes(damage)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = run(name, epochs=EPOCHS, checkpoint=folder)
    except ValueError as error:
        message = str(error)
        assert any(words in message for words in SENTENCES.split("|")), message
        assert "\n" not in message and message.endswith(".") and len(message) < 500
        assert file.read_bytes() == damage, "a refused file is left alone"
        return True
    same(result, found)
    return False


def mutations(content, count, seed):
    """Files that differ from `content` by what disks, copies and editors do to files."""
    rng = random.Random(seed)
    size = len(content)
    for number in range(count):
        changed = bytearray(content)
        place = rng.randrange(size)
        kind = number % 7
        if kind == 0:  # a bit
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == 1:  # some bytes
            for _ in range(rng.randrange(1, 20)):
                changed[rng.randrange(size)] = rng.randrange(256)
        elif kind == 2:  # torn
            del changed[place:]
        elif kind == 3:  # a hole of zeros, as of a sector that was not written
            hole = min(512, size - place)
            changed[place : place + hole] = bytes(hole)
        elif kind == 4:  # bytes gone
            del changed[place : place + rng.randrange(1, 64)]
        elif kind == 5:  # bytes too many
            changed[place:place] = rng.randbytes(rng.randrange(1, 64))
        else:  # a part copied over another
            other = rng.randrange(size)
            changed[place : place + 64] = changed[other : other + 64]
        if changed != content:
            yield bytes(changed)


def damage_at_random(saved, folder, count, seed):
    content = saved[2].read_bytes()
    refused = [attacked(saved, damage, folder) for damage in mutations(content, count, seed)]
    assert sum(refused) > 0.5 * len(refused)  # the rest hit what nobody reads, as times of entries


def test_a_file_damaged_at_random(saved, tmp_path):
    damage_at_random(saved, tmp_path, 70, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_file_damaged_at_random_many_times(saved, tmp_path, seed):
    damage_at_random(saved, tmp_path, 700, seed)


def rewritten(content, change):
    """The file with its arrays changed by `change`, whole as a file."""
    import io

    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    change(arrays)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def update(**changes):
    return lambda arrays: arrays.update(changes)


def leaf(convert):
    """A change of one array of the state after another."""

    def change(arrays, number):
        name = f"leaf_{number}"
        arrays[name] = convert(arrays[name])

    return change


WHOLE = {
    "nothing at all": lambda arrays: arrays.clear(),
    "no description": lambda arrays: arrays.pop("described"),
    "a description in words": update(described=np.array("none")),
    "a description that is a list": update(described=np.array("[1, 2]")),
    "a description of numbers": update(described=np.array('{"x0": 3}')),
    "a deep description": update(described=np.array("[" * 100_000)),
    "a number for a description": update(described=np.array(3.0)),
    "rows without names": update(rows=np.zeros(3)),
    "one row without an axis": lambda arrays: arrays.update(rows=arrays["rows"][0]),
    "rows of one column": lambda arrays: arrays.update(rows=arrays["rows"][["epoch"]]),
    "rows of words": lambda arrays: arrays.update(
        rows=arrays["rows"].astype([(n, "U9") for n in arrays["rows"].dtype.names])
    ),
    "rows of two axes": lambda arrays: arrays.update(rows=np.stack([arrays["rows"]] * 2)),
}
LEAVES = {
    "an axis more": leaf(lambda a: a[None]),
    "empty": leaf(lambda a: np.zeros(0)),
    "words": leaf(lambda a: np.full(a.shape, "a")),
    "complex": leaf(lambda a: a.astype(complex)),
    "other dtype": leaf(lambda a: a.astype(np.float16)),
    "big-endian": leaf(lambda a: a.astype(a.dtype.newbyteorder(">"))),
}


@pytest.mark.parametrize("damage", WHOLE)
def test_a_whole_file_with_other_arrays(saved, damage, tmp_path):
    assert attacked(saved, rewritten(saved[2].read_bytes(), WHOLE[damage]), tmp_path)


@pytest.mark.parametrize("damage", LEAVES)
def test_arrays_of_another_kind(saved, damage, tmp_path):
    content = saved[2].read_bytes()
    count = sum(name.startswith("leaf_") for name in zipfile.ZipFile(saved[2]).namelist())
    for number in range(count):
        changed = rewritten(content, lambda a, i=number: LEAVES[damage](a, i))
        # A number of one byte is the same in any order of bytes.
        assert changed == content or attacked(saved, changed, tmp_path), number


def test_other_files(saved, tmp_path):
    import io
    import pickle

    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    objects = rewritten(saved[2].read_bytes(), update(leaf_0=np.array([{}], object)))
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    for content in (b"", b"\0" * 4096, b"PK\3\4", b"words\n", empty.getvalue(), objects,
                    array.getvalue(), pickle.dumps({"x": 1})):  # fmt: skip
        assert attacked(saved, content, tmp_path)


def test_files_swapped_between_runs(tmp_path):
    """Of another method, another seed, another start: each is refused by the other's folder."""
    folders = []
    for number, options in enumerate(({"seed": 0}, {"seed": 1}, {"seed": 0, "record_every": 2})):
        folders.append(tmp_path / str(number))
        run("mvrc", epochs=2, checkpoint=folders[-1], **options)
    run("storm", epochs=2, checkpoint=tmp_path / "storm")
    own = (folders[0] / "state.npz").read_bytes()
    for other in (*folders[1:], tmp_path / "storm"):
        (folders[0] / "state.npz").write_bytes((other / "state.npz").read_bytes())
        with pytest.raises(ValueError, match="belongs to another run"):
            run("mvrc", epochs=2, checkpoint=folders[0], seed=0)
    (folders[0] / "state.npz").write_bytes(own)
    run("mvrc", epochs=2, checkpoint=folders[0], seed=0)


def test_a_folder_in_the_place_of_the_file(tmp_path):
    (tmp_path / "state.npz").mkdir()
    with pytest.raises(ValueError, match="is not a readable mvrc checkpoint"):
        run("mvrc", epochs=1, checkpoint=tmp_path)


# --- kill -9 --------------------------------------------------------------------------------------

CHILD = """
    import sys
    sys.path.insert(0, {tests!r})
    import conftest
    from test_attacks import run
    import time
    run({name!r}, epochs={epochs}, checkpoint={folder!r}, checkpoint_every=1,
        callback=lambda info: print(info.epoch, flush=True) or time.sleep(0.01))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_killed_at_random_moments(name, tmp_path):
    """Again and again, until it has come to its end: the same numbers as without."""
    rng, epochs, kills = random.Random(name), 60, 0
    code = textwrap.dedent(CHILD).format(
        tests=str(Path(__file__).parent), name=name, epochs=epochs, folder=str(tmp_path)
    )
    for attempt in range(60):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        if attempt < 5:
            process.stdout.readline()  # it has made an epoch since it was started
            time.sleep(rng.uniform(0, 0.1))
            process.kill()
            kills += 1
        process.communicate()
        if process.returncode == 0:
            break
    assert process.returncode == 0 and kills >= 1  # Auto may come to its end before the fifth
    found = run(name, epochs=epochs, checkpoint=tmp_path, callback=lambda info: None)
    same(run(name, epochs=epochs, callback=lambda info: None), found)
    assert os.listdir(tmp_path) == ["state.npz"]


# --- full disks -----------------------------------------------------------------------------------

FULL = """
    import sys
    sys.path.insert(0, {tests!r})
    import conftest, resource, warnings
    import numpy as np
    from test_attacks import run, same
    straight = run("mvrc", epochs=3)
    {limit}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run("mvrc", epochs=3, checkpoint={folder!r}, checkpoint_every=1)
    words = [str(w.message) for w in caught]
    assert any("could not be saved ({reason})" in w for w in words), words
    assert any("could not be saved" in note for note in result.notes), result.notes
    same(straight, result)
    print("done")
"""


def full_disk(folder, limit, reason):
    code = textwrap.dedent(FULL).format(
        tests=str(Path(__file__).parent), folder=str(folder), limit=limit, reason=reason
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"},  # which writes files too
    )  # fmt: skip
    assert done.stdout.strip().endswith("done"), done.stderr[-3000:]
    assert os.listdir(folder) == []


@pytest.mark.slow
def test_a_limit_on_the_size_of_files(tmp_path):
    full_disk(tmp_path, "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))", "File too large")


def test_a_disk_that_is_full(tmp_path):
    """A file system of two pages, where one can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    try:
        full_disk(disk, "", "No space left on device")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
