"""Kill processes that PySpark leaves behind if it is interrupted while it starts.

PySpark waits until the JVM that it starts has written its port to a file. If it is interrupted, it deletes the directory of
this file and forgets the JVM, which then fails to write and never exits.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

STOP_TIMEOUT_S = 5.0
"""Time between SIGTERM and SIGKILL. An orderly exit removes temporary files."""
KILL_TIMEOUT_S = 5.0
"""Longest wait for the exit of a process after SIGKILL. The process is then left behind."""
POLL_S = 0.02
_PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def kill_children_on_interrupt() -> Iterator[None]:
    """On KeyboardInterrupt, kill all descendants that were started within the block.

    Spark is started by shell scripts. Their children would become children of init if a script ended first. Therefore this
    process adopts orphans within the block.
    """
    before = set(_descendants("self"))
    with _adopted_orphans():
        try:
            yield
        except KeyboardInterrupt:
            _kill_descendants(except_pids=before)
            raise


@contextlib.contextmanager
def _adopted_orphans() -> Iterator[None]:
    """Make orphaned descendants children of this process within the block."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _kill_descendants(except_pids: set[int]) -> None:
    """Terminate descendants until none is left. Processes may start others meanwhile, so list them repeatedly."""
    started_at = time.monotonic()
    terminated: set[int] = set()
    while remaining := {pid for pid in set(_descendants("self")) - except_pids if not _reap(pid)}:
        elapsed_s = time.monotonic() - started_at
        if elapsed_s > STOP_TIMEOUT_S + KILL_TIMEOUT_S:
            return
        for pid in remaining if elapsed_s > STOP_TIMEOUT_S else remaining - terminated:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if elapsed_s > STOP_TIMEOUT_S else signal.SIGTERM)
        terminated |= remaining
        time.sleep(POLL_S)


def _reap(pid: int) -> bool:
    """Return True if the process has exited. Only children can be reaped; a grandchild is first reaped by its parent."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not Path(f"/proc/{pid}").exists()


def _descendants(pid: int | str) -> Iterator[int]:
    with contextlib.suppress(OSError):  # it has exited meanwhile
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                yield child
                yield from _descendants(child)
