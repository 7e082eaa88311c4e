"""Processes that were started, and that nobody would end.

PySpark waits for the Java that it starts to write down its port. Interrupted, it removes the place for that and forgets Java,
which fails to write, does not end, and stays for ever.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

END_S = 5.0
"""For an orderly end, which removes files."""


@contextlib.contextmanager
def ended_if_interrupted() -> Iterator[None]:
    """Everything that is started within, and what that has started."""
    before = set(_offspring("self"))
    try:
        yield
    except KeyboardInterrupt:
        for pid in set(_offspring("self")) - before:
            with contextlib.suppress(ProcessLookupError):
                _end(pid)
        raise


def _offspring(pid: int | str) -> Iterator[int]:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                yield child
                yield from _offspring(child)


def _end(pid: int) -> None:
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], END_S)[0]:
            signal.pidfd_send_signal(process, signal.SIGKILL)
    finally:
        os.close(process)
