"""Several processes on one machine: they find each other, and end when one dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = """
import os, signal, sys, threading, time
import jax, numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all
from mvrc.run import peers

jax.distributed.initialize()
rank, (who, how, after) = jax.process_index(), sys.argv[1:]
print("process", rank, "of", jax.process_count(), flush=True)
if who == str(rank):
    end = lambda: (print("at", time.time(), flush=True), os.kill(os.getpid(), int(how)))
    threading.Timer(float(after), end).start()
with peers.watched(True, "folder"):
    while who != "none":
        broadcast_one_to_all(np.arange(3.0))
"""


def launched(tmp_path, *arguments):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "mvrc.cli", "launch", "-n", "2", str(script), *arguments]
    environment = {**os.environ, "MVRC_CACHE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment)
    return done, time.time()


def check_end(done, ended, who):
    survivor = 1 - who
    assert done.returncode != 0
    said = [line for line in done.stdout.splitlines() if line.startswith(f"[{survivor}]")]
    sentence = f"process {who} of 2 has ended or no longer answers, so this run, process {survivor}"
    assert any(sentence in line for line in said), done.stdout + done.stderr
    assert any("checkpoint 'folder'. Start it again with mvrc launch -n 2" in line for line in said)
    (at,) = re.findall(rf"\[{who}\] at ([\d.]+)", done.stdout)
    assert ended - float(at) < 10
    assert "To start again: mvrc launch -n 2" in done.stderr


def test_processes_find_each_other_and_the_first_exit_code_counts(tmp_path):
    done, _ = launched(tmp_path, "none", "0", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"[0] process 0 of 2", "[1] process 1 of 2"} <= set(done.stdout.splitlines())


def test_a_process_that_is_killed_ends_the_other_in_a_sentence(tmp_path):
    check_end(*launched(tmp_path, "1", str(int(signal.SIGKILL)), "1"), 1)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(10))
def test_kills_at_random_moments(tmp_path, number):
    after = str(int.from_bytes(os.urandom(2)) / 2**16)
    who = number % 2
    check_end(*launched(tmp_path, str(who), str(int(signal.SIGKILL)), after), who)


@pytest.mark.slow
@pytest.mark.parametrize("who", [0, 1])
def test_a_process_that_hangs_ends_the_other(tmp_path, who):
    check_end(*launched(tmp_path, str(who), str(int(signal.SIGSTOP)), "1"), who)


def test_a_script_that_is_not_there(tmp_path):
    command = [sys.executable, "-m", "mvrc.cli", "launch", str(tmp_path / "none.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "script must be a file that exists" in done.stderr
