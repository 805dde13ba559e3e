"""`mvrc launch`: a script in several processes on this machine, for `mvrc.Sharded` and meshes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from os import _exit as leave
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from jaxlib import _jax as runtime

from mvrc.cli.worker import SETTINGS
from mvrc.run.peers import COMMAND, ENDED
from mvrc.support import checks

GRACE = 7.0  # seconds that the others have, when one has failed, to say so themselves
TIMEOUT = "--xla_cpu_collective_timeout_seconds"
_service: list[Any] = []
SECONDS = 8  # after which a program no longer waits for another process


def launch(
    script: Annotated[Path, typer.Argument(help="The script; what follows is for it.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.")] = None,
    processes: Annotated[int, typer.Option("--processes", "-n", help="How many.")] = 2,
    log: Annotated[Path | None, typer.Option(help="A file for all output, too.")] = None,
    pin: Annotated[bool, typer.Option(help="Give each process cores of its own.")] = False,
) -> None:
    """Run a script in several processes on this machine, which find each other.

    Every line of output has the number of its process in front. When one ends with an error,
    or no longer answers, all end, within ten seconds; the exit code is that of the first.

    Examples:

      mvrc launch -n 2 train.py
      mvrc launch -n 4 --pin --log run.log train.py --epochs 20
    """
    checks.integer("--processes", processes)
    if not script.is_file():
        raise FileNotFoundError(f"script must be a file that exists, not {str(script)!r}.")
    said = shlex.join(["mvrc", "launch", "-n", str(processes), str(script), *(arguments or [])])
    common = {
        "address": f"127.0.0.1:{_free_port()}", "processes": processes, "script": str(script),
        "arguments": arguments or [],
    }  # fmt: skip
    # Where they meet; its own patience is longer than ours.
    _service.append(
        runtime.get_distributed_runtime_service(
            common["address"], processes, heartbeat_timeout=100, shutdown_timeout=1
        )
    )
    with Output(log) as output:
        workers = []
        try:
            for rank in range(processes):
                given = {**common, "rank": rank, "cores": _cores(rank, processes) if pin else None}
                workers.append(_started(given, said, output))
            code = _watched(workers, said, output)
        finally:
            for worker in workers:
                if worker.poll() is None:
                    worker.kill()
                worker.wait()
    sys.stdout.flush()
    sys.stderr.flush()
    leave(code)  # as the service would wait for processes that do not come any more


class Output:
    """One stream of lines, each with the process that it is from.

    Args:
        log: a file that gets them, too.
    """

    def __init__(self, log: Path | None) -> None:
        self._file = None if log is None else log.open("w", encoding="utf-8")
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: Any) -> None:
        for thread in self._threads:
            thread.join(1.0)
        if self._file is not None:
            self._file.close()

    def follow(self, rank: int, stream: IO[str]) -> None:
        """All lines of a process, from now on."""

        def read() -> None:
            for line in stream:
                self.line(f"[{rank}] {line.rstrip()}")

        self._threads.append(threading.Thread(target=read, daemon=True))
        self._threads[-1].start()

    def line(self, text: str, error: bool = False) -> None:
        with self._lock:
            typer.echo(text, err=error)
            if self._file is not None:
                print(text, file=self._file, flush=True)


def _started(given: dict[str, Any], said: str, output: Output) -> subprocess.Popen[str]:
    flags = os.environ.get("XLA_FLAGS", "")
    if TIMEOUT not in flags:
        flags = f"{flags} {TIMEOUT}={SECONDS}".strip()
    environment = {
        **os.environ, SETTINGS: json.dumps(given), COMMAND: said, "XLA_FLAGS": flags,
        "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    worker = subprocess.Popen(
        [sys.executable, "-m", "mvrc.cli.worker"], env=environment, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert worker.stdout is not None
    output.follow(given["rank"], worker.stdout)
    return worker


def _watched(workers: list[subprocess.Popen[str]], said: str, output: Output) -> int:
    """Wait for all; the exit code of the first that failed, which ends the others."""
    failed, since = None, 0.0
    while any(worker.poll() is None for worker in workers):
        if failed is None:
            failed = next((r for r, w in enumerate(workers) if w.returncode), None)
            since = time.monotonic()
        elif time.monotonic() - since > (1.0 if workers[failed].returncode == ENDED else GRACE):
            break
        try:
            time.sleep(0.05)
        except KeyboardInterrupt:  # they have it, too, and return what they have
            failed, since = (0 if failed is None else failed), time.monotonic()
    if failed is None:
        failed = next((r for r, w in enumerate(workers) if w.returncode), None)
    if failed is None:
        return 0
    code = workers[failed].returncode
    left = [str(r) for r, w in enumerate(workers) if w.returncode is None]
    also = f"; process {', '.join(left)} did not end by itself, and was killed" if left else ""
    output.line(f"mvrc: process {failed} {_words(code)}{also}. To start again: {said}", error=True)
    if code is None:
        return 130
    return code if code > 0 else 128 - code


def _words(code: int | None) -> str:
    if code is None:
        return "was interrupted"
    if code > 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"


def _cores(rank: int, processes: int) -> list[int]:
    """The share of a process of the cores that there are."""
    cores = sorted(os.sched_getaffinity(0))
    share = cores[rank * len(cores) // processes : (rank + 1) * len(cores) // processes]
    return share or [cores[rank % len(cores)]]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
