"""Process file: watchdog, and PID namespace or cgroup, of an attempt. With it the agent kills the attempt of a dead runner.

The mark in the environment is not enough: a descendant of the driver may have cleared its environment, and a paused watchdog
carries no mark. A process is identified by its pid and its start time, a cgroup by its directory and inode number.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from holdfast.atomic_file import write_atomically
from holdfast.clock import boot_id
from holdfast.runner.watchdog.attempt_cgroup import CgroupIdentity
from holdfast.runner.watchdog.pid_namespace import NamespaceIdentity
from holdfast.runner.watchdog.proc_filesystem import Process

WATCHDOG_EXIT_S = 2.0
"""Time in which a watchdog kills the tree of a dead runner and exits. After that it is paused."""
PID_MAX = 2**22
"""Upper limit of the pids of Linux."""
PATH_BYTES_MAX = 4095
_POLL_S = 0.005


def save(path: Path, watchdog: Process, isolated: NamespaceIdentity | CgroupIdentity | None) -> None:
    """Write the file. Raises OSError."""
    fields: dict[str, object] = {"boot": boot_id(), "watchdog": [watchdog.pid, watchdog.started]}
    if isinstance(isolated, NamespaceIdentity):
        fields |= {"init": [isolated.init.pid, isolated.init.started], "namespace": isolated.number}
    if isinstance(isolated, CgroupIdentity):
        fields |= {"cgroup": [isolated.path, isolated.number]}
    write_atomically(path, json.dumps(fields).encode())


def kill_processes(path: Path, *, timeout_s: float) -> bool:
    """Kill the watchdog and all processes in the namespace or cgroup. Return False if one is left after `timeout_s`.

    A watchdog that is not paused ends by itself, because its runner is dead, and only it finds all processes without a mark
    outside a namespace. Without a file, which earlier releases do not write, there is nothing to kill.
    """
    watchdog, isolated = _read(path)
    give_up_at = time.monotonic() + timeout_s
    kill_watchdog_at = time.monotonic() + (0 if isinstance(isolated, NamespaceIdentity) else WATCHDOG_EXIT_S)
    while True:
        # The watchdog first: otherwise it could report the death of the driver as an ordinary exit.
        if watchdog is not None and time.monotonic() >= kill_watchdog_at:
            watchdog.send_signal(signal.SIGKILL)
        empty = isolated is None or isolated.kill()
        alive = watchdog is not None and watchdog.is_alive()
        if empty and not alive:
            return True
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(_POLL_S)


def _read(path: Path) -> tuple[Process | None, NamespaceIdentity | CgroupIdentity | None]:
    try:
        fields = json.loads(path.read_bytes())
        if fields["boot"] != boot_id():
            return None, None  # after a restart of the machine another process may have the same pid and start time
        return _process(fields["watchdog"]), _parse_isolation(fields)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None, None


def _parse_isolation(fields: dict[str, Any]) -> NamespaceIdentity | CgroupIdentity | None:
    if "init" in fields:
        return NamespaceIdentity(_process(fields["init"]), int(fields["namespace"]))
    if "cgroup" in fields:
        directory, number = fields["cgroup"]
        return CgroupIdentity(_path(str(directory)), int(number))
    return None


def _path(text: str) -> str:
    """Return the text if it can be a path. Raises ValueError: no process can then be in this cgroup."""
    if not text.startswith("/") or "\0" in text or len(os.fsencode(text)) > PATH_BYTES_MAX:
        raise ValueError(text)
    return text


def _process(fields: list[object]) -> Process:
    """Return the process. Raises ValueError for a number that no process can have."""
    pid, started = map(int, map(str, fields))
    if not 0 < pid <= PID_MAX:
        raise ValueError(pid)
    return Process(pid, started, parent=0)
