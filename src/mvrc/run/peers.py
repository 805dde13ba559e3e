"""The other processes of a run: whether they live, and a sentence when one does not.

A process that dies breaks the connections of the others, whose programs then fail; one that hangs
leaves them waiting inside of a program, where Python cannot reach them. So every process tells
each second that it lives, and one that has heard nothing from another for a while ends itself.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from os import _exit as leave
from typing import Any

import jax

TICK = 0.5  # seconds between two signs of life
SILENT = 12  # ticks without one, after which a process is taken for dead or hanging
FEW = 4  # the same where a connection is known to be broken
COMMAND = "MVRC_COMMAND"  # the environment variable by which `mvrc launch` tells how it was called
ENDED = 70  # exit code of a process that cannot go on without another

_BROKEN = ("Gloo", "gloo", "NCCL", "UNAVAILABLE", "DEADLINE_EXCEEDED")  # in errors of XLA's

_started: list[Peers] = []


class Peers:
    """Signs of life, told and heard through the service that the processes have met at.

    Time is counted in ticks of this process, so that a machine that stood still is no reason.
    """

    def __init__(self, client: Any, rank: int, processes: int) -> None:
        self.rank, self.processes = rank, processes
        self._client = client
        self._heard = dict.fromkeys(range(processes), "")
        self._silent = dict.fromkeys(range(processes), 0)  # ticks
        self._round = 0  # of telling and hearing, made
        self._behind = 0  # ticks since the last one
        self.running = ""  # what a run has to say of itself; "" while there is none
        self._over = threading.Event()
        works = self._tell, self._watch
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in self._threads:
            thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Before the process ends, as a thread inside of the service's code would abort it."""
        self._over.set()
        for thread in self._threads:
            thread.join(TICK)

    def lost(self, ticks: int = SILENT) -> list[int]:
        """The processes that were silent for so long; without the service, process 0 is gone.

        One that has not yet said anything may still be preparing its run, unless it is `FEW`.
        """
        if self._behind >= ticks:
            return [0]
        known = self._heard if ticks == FEW else [r for r, said in self._heard.items() if said]
        return [rank for rank in known if self._silent[rank] >= ticks]

    def sentence(self) -> str:
        """Who is lost, and what to do."""
        lost = self.lost(FEW)
        who = f"process {lost[0]}" if lost else "another process"
        again = os.environ.get(COMMAND)
        how = f"with {again}" if again else "on all machines by the same command"
        return (
            f"{who} of {self.processes} has ended or no longer answers, so this run, process "
            f"{self.rank}, cannot go on; {self.running or 'nothing was saved'}. Start it again "
            f"{how}."
        )

    def wait(self) -> None:
        """Until it is known who is lost, or nobody is."""
        for _ in range(SILENT):
            if self.lost(FEW):
                return
            time.sleep(TICK)

    def _tell(self) -> None:
        while not self._over.is_set():
            try:
                self._client.key_value_set(_key(self.rank), str(self._round), allow_overwrite=True)
                for rank in range(self.processes):
                    with contextlib.suppress(Exception):  # it has not begun
                        found = self._client.key_value_try_get(_key(rank))
                        if found != self._heard[rank]:
                            self._heard[rank], self._silent[rank] = found, 0
                self._round, self._behind = self._round + 1, 0
            except Exception:  # the service is gone, and process 0 with it
                pass
            self._over.wait(TICK)

    def _watch(self) -> None:
        while not self._over.wait(TICK):
            self._behind += 1
            for rank in self._heard:
                self._silent[rank] += rank != self.rank
            if self.running and self.lost():
                time.sleep(2 * TICK)  # for the run itself to say so
                if self.running:
                    print(f"mvrc: {self.sentence()}", file=sys.stderr, flush=True)
                    leave(ENDED)


def _key(rank: int) -> str:
    return f"mvrc/alive/{rank}"


@contextlib.contextmanager
def watched(many: bool, checkpoint: Any = None) -> Iterator[None]:
    """A run of several processes ends in a sentence when one of them does.

    Args:
        many: whether it is one.
        checkpoint: its folder; None for none.
    """
    peers = _peers() if many else None
    if peers is None:
        yield
        return
    saved = "nothing was saved, as no checkpoint was given"
    if checkpoint is not None:
        saved = f"what was saved is in checkpoint '{checkpoint}'"
    peers.running = saved
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if not any(word in str(error) for word in _BROKEN):
            raise
        peers.wait()
        raise RuntimeError(peers.sentence()) from error
    finally:
        peers.running = ""


def _peers() -> Peers | None:
    """Those of this process, once they have met."""
    from jax._src import distributed  # JAX's only way to the service

    client = distributed.global_state.client
    if client is None:
        return None
    if not _started:
        _started.append(Peers(client, jax.process_index(), jax.process_count()))
    return _started[0]
