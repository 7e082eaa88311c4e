"""Ending every runner of a node, in order, because its machine or its cluster is going down."""

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path

from holdfast.runner.attempt_layout import LOCK


def holder(lock: Path) -> int | None:
    """The pid of the runner that holds this lock; None if nobody does."""
    try:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0)
    except (OSError, ValueError):
        pass
    return None


def evacuate(node_directory: Path, *, within_s: float) -> int:
    """Each runner kills its driver and gives its lease back. What is left after that time is killed. How many there were."""
    locks = [lock for lock in node_directory.glob(f"attempts/*/*/{LOCK}") if holder(lock)]
    for lock in locks:
        _send(lock, signal.SIGTERM)
    give_up_at = time.monotonic() + within_s
    left = locks
    while left and time.monotonic() < give_up_at:
        time.sleep(0.05)
        left = [lock for lock in left if holder(lock)]
    for lock in left:
        _send(lock, signal.SIGKILL)  # its watchdog sees to the driver
    return len(locks)


def _send(lock: Path, number: signal.Signals) -> None:
    if pid := holder(lock):
        with contextlib.suppress(OSError):
            os.kill(pid, number)
