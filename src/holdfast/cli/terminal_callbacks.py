"""Show notes, changes of jobs and the progress of transfers on stderr."""

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.render.sanitize import sanitize
from holdfast.client import Transfer

if TYPE_CHECKING:
    from holdfast.client import Job

BAR_BYTES_MIN = 1_000_000
"""Smaller transfers show no progress bar."""


def note(sentence: str) -> None:
    click.echo(f"holdfast: {sanitize(sentence)}", err=True)


def print_job_change(job: "Job") -> None:
    from rich.text import Text

    from holdfast.cli.render.terminal import console, padded_phase, print_hanging
    from holdfast.client.timestamps import stamp

    now = time.time()
    head = Text.assemble((f"{stamp(now, now)}  ", "dim"), padded_phase(job.phase))
    print_hanging(console(stderr=True), head, sanitize(job.reason))


class _TransferBar:
    """Progress bar of the current transfer. Without a terminal nothing is shown."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._task: Any = None

    def update(self, transfer: Transfer) -> None:
        if transfer.finished:
            self._close()
        elif self._progress is not None:
            self._progress.update(self._task, completed=transfer.done_bytes, total=transfer.total_bytes)
        elif (transfer.total_bytes or 0) >= BAR_BYTES_MIN and sys.stderr is not None and sys.stderr.isatty():
            self._open(transfer)

    def _open(self, transfer: Transfer) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        from holdfast.cli.render.terminal import console

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, console=console(stderr=True), transient=True)
        self._task = self._progress.add_task(sanitize(transfer.description), total=transfer.total_bytes)
        self._progress.start()

    def _close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._progress = self._task = None


show_transfer = _TransferBar().update
"""Update the progress bar of the running transfer. Commands run one transfer at a time."""
