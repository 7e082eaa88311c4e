"""Runners found by their locks: drain a node before its machine or its cluster shuts down, or kill one runner."""

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path

from holdfast.runner.attempt_layout import RUNNER_LOCK


def lock_holder_pid(lock: Path) -> int | None:
    """Return the pid of the runner that holds this lock, or None."""
    try:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0)
    except (OSError, ValueError):
        pass
    return None


def kill_lock_holder(lock: Path, timeout_s: float) -> bool:
    """Kill the runner that holds this lock with SIGKILL. Return True as soon as the lock is free, False after `timeout_s`."""
    give_up_at = time.monotonic() + timeout_s
    while (pid := lock_holder_pid(lock)) is not None:
        if pid > 0:
            _kill_if_holder(lock, pid)
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.01)
    return True


def _kill_if_holder(lock: Path, pid: int) -> None:
    """Kill the process if it holds the lock. The pidfd is opened before the check, so a reused pid is never hit."""
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if lock_holder_pid(lock) == pid:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def drain_runners(node_directory: Path, *, timeout_s: float) -> int:
    """Stop every runner: each kills its driver and releases its lease. Return the number of runners.

    A runner that is still alive after `timeout_s` seconds is killed.
    """
    locks = [lock for lock in node_directory.glob(f"attempts/*/*/{RUNNER_LOCK}") if lock_holder_pid(lock)]
    for lock in locks:
        _signal_holder(lock, signal.SIGTERM)
    give_up_at = time.monotonic() + timeout_s
    remaining = locks
    while remaining and time.monotonic() < give_up_at:
        time.sleep(0.05)
        remaining = [lock for lock in remaining if lock_holder_pid(lock)]
    for lock in remaining:
        _signal_holder(lock, signal.SIGKILL)  # the watchdog then kills the driver
    return len(locks)


def _signal_holder(lock: Path, number: signal.Signals) -> None:
    if pid := lock_holder_pid(lock):
        with contextlib.suppress(OSError):
            os.kill(pid, number)
