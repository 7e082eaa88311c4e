"""Callbacks through which a caller receives notes and progress. The client itself prints nothing."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.zk.records.stored_job import StoredJob


@dataclass(frozen=True, slots=True)
class Transfer:
    """Progress of one upload or copy."""

    description: str
    """Noun phrase, for example `copying the checkpoint`."""
    done_bytes: int = 0
    total_bytes: int | None = None
    """None while the size is unknown."""
    finished: bool = False
    """True for the last call about this transfer, also if the transfer failed."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Functions that the client calls, in the calling thread or in a worker thread."""

    note: Callable[[str], None] = lambda _sentence: None
    """Receives a sentence for the user: a retry, a warning, a step of a longer operation."""
    job_changed: Callable[["StoredJob"], None] = lambda _job: None
    """Receives a job each time its phase or reason changes while `wait` waits for it."""
    transfer: Callable[[Transfer], None] = lambda _transfer: None

    @contextlib.contextmanager
    def copying(self, description: str) -> Iterator[Callable[[int], Callable[[int], None]]]:
        """Yield a function that starts the transfer: it takes the total size and returns a function that adds copied bytes."""
        progress = _TransferProgress(self.transfer, description)
        progress.report(finished=False)
        try:
            yield progress.start
        finally:
            progress.report(finished=True)


class _TransferProgress:
    def __init__(self, callback: Callable[[Transfer], None], description: str) -> None:
        self._callback = callback
        self._description = description
        self._done_bytes = 0
        self._total_bytes: int | None = None

    def start(self, total_bytes: int) -> Callable[[int], None]:
        self._done_bytes, self._total_bytes = 0, total_bytes
        self.report(finished=False)
        return self._advance

    def _advance(self, copied_bytes: int) -> None:
        self._done_bytes += copied_bytes
        self.report(finished=False)

    def report(self, *, finished: bool) -> None:
        self._callback(Transfer(self._description, self._done_bytes, self._total_bytes, finished))
