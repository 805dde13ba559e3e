"""The progress bar: objective, gradient mapping, samples and time left; nothing when off."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

import numpy as np

from mvrc.run.stopping import Stop
from mvrc.support import checks, extras

SECONDS = 0.1  # between two rows shown


class Bar:
    """A context manager around a run; rich is imported only when the bar is shown.

    In a notebook it is drawn with IPython alone.
    """

    def __init__(self, shown: Any, stop: Stop) -> None:
        if not isinstance(shown, bool):
            raise TypeError(f"progress must be True or False, not {checks.shown(shown)}.")
        self._bar: Any = None
        self._stop = stop
        self._last: tuple[dict[str, Any], int] | None = None
        self._shown = 0.0
        if shown:
            self._bar = _notebook() or _rich_bar()
            self._task = self._bar.add_task("minimize", total=1.0, epoch="compiling", numbers="")

    def __enter__(self) -> Bar:
        if self._bar is not None:
            self._bar.start()  # draws
            self._shown = time.monotonic()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            if self._last is not None:
                self._show(*self._last)
            self._bar.stop()  # draws

    def update(self, row: dict[str, Any], epoch: int) -> None:
        """Show the last row, when it is time."""
        self._last = row, epoch
        if self._bar is not None and time.monotonic() - self._shown >= SECONDS:
            self._show(row, epoch)
            self._bar.refresh()
            self._shown = time.monotonic()

    def _show(self, row: dict[str, Any], epoch: int) -> None:
        """The share done is that of the nearest limit."""
        shares = [
            now / limit
            for now, limit in (
                (epoch, self._stop.epochs),
                (row["inner_values"], self._stop.samples),
                (row["wall_seconds"], self._stop.seconds),
            )
            if limit
        ]
        self._bar.update(
            self._task,
            completed=min(1.0, max(shares, default=0.0)),
            epoch=f"epoch {epoch}",
            numbers=f"objective {np.median(row['objective']):.6g} "
            f"gradient mapping {np.median(row['gradient_mapping']):.2e} "
            f"{row['inner_values']:,} samples",
        )


def _notebook() -> Any:
    """A bar for the kernel of a notebook, where there is one."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return NotebookBar() if hasattr(running, "kernel") else None


class NotebookBar:
    """The part of rich's progress bar that `Bar` uses, as HTML in the output of the cell."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown: dict[str, Any] = {}
        self._began = 0.0

    def add_task(self, _: str, **shown: Any) -> int:
        self._shown = {"completed": 0.0, **shown}
        return 0

    def update(self, _: int, **shown: Any) -> None:
        self._shown |= shown

    def start(self) -> None:
        from IPython.display import display

        self._began = time.monotonic()
        self._handle = display(self._bundle(), raw=True, display_id=True)

    def refresh(self) -> None:
        self._handle.update(self._bundle(), raw=True)

    def stop(self) -> None:
        self._shown["completed"] = 1.0
        self.refresh()

    def _bundle(self) -> dict[str, str]:
        done, seconds = self._shown["completed"], time.monotonic() - self._began
        left = f" {seconds * (1 - done) / done:.0f} s left" if 0 < done < 1 else ""
        words = f"{self._shown['epoch']} {self._shown['numbers']}{left}"
        bar = f'<progress value="{done:.4f}" max="1"></progress>'
        text = f"[{'#' * round(24 * done):24}] {words}"
        return {"text/plain": text, "text/html": f"{bar} <code>{html.escape(words)}</code>"}


def _rich_bar() -> Any:
    try:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError as error:
        raise extras.missing("progress=True needs rich", "progress") from error
    return Progress(
        TextColumn("{task.fields[epoch]}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[numbers]}", markup=False),  # a column costs more than its text
        TimeRemainingColumn(),
        auto_refresh=False,  # a thread that draws takes the interpreter from the run
    )
