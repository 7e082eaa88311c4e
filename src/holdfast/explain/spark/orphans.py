"""Kill processes that PySpark leaves behind if it is interrupted while it starts.

PySpark waits until the JVM that it starts has written its port to a file. If it is interrupted, it deletes the directory of
this file and forgets the JVM, which then fails to write and never exits.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

STOP_TIMEOUT_S = 5.0
"""Time between SIGTERM and SIGKILL. An orderly exit removes temporary files."""


@contextlib.contextmanager
def kill_children_on_interrupt() -> Iterator[None]:
    """On KeyboardInterrupt, kill all descendants that were started within the block."""
    before = set(_descendants("self"))
    try:
        yield
    except KeyboardInterrupt:
        for pid in set(_descendants("self")) - before:
            with contextlib.suppress(ProcessLookupError):
                _kill(pid)
        raise


def _descendants(pid: int | str) -> Iterator[int]:
    with contextlib.suppress(OSError):  # it has exited meanwhile
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                yield child
                yield from _descendants(child)


def _kill(pid: int) -> None:
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], STOP_TIMEOUT_S)[0]:
            signal.pidfd_send_signal(process, signal.SIGKILL)
    finally:
        os.close(process)
