"""Witness process: `python -m tests.chaos.witness CLUSTER_DIRECTORY OUTPUT_FILE`

It samples /proc every 20 ms and records every process of every attempt: the driver and all processes that inherited its nonce.
It shares no state with the cluster or with the process that injects the faults, so neither can hide a driver from it. A stopped
process counts as alive, because it continues as soon as it is resumed. It ends on SIGTERM.
"""

import json
import os
import select
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tests.chaos.history import boottime
from tests.harness.cluster.process_observer import DRIVER_MODULES, list_pids, read_command, read_environment, read_stat

SCAN_INTERVAL_S = 0.02
NEW_PROCESS_S = 2.0
"""A new process may still become a driver by exec, so each scan examines it again for this long."""
RESCAN_S = 1.0
FLUSH_S = 0.5
"""Interval at which the last observations of living processes are written."""


@dataclass(slots=True)
class _Known:
    started: int
    last_seen: float
    identity: dict[str, Any]
    """Fields of the first record of the process."""


class Witness:
    def __init__(self, directory: Path, output: TextIO) -> None:
        self._prefix = f"{directory}/"
        self._output = output
        self._known: dict[int, _Known] = {}
        self._others: dict[int, tuple[float, float]] = {}
        """Processes that belong to no attempt: the times of the first observation and of the last examination."""
        self._last_scan_at = boottime()
        self._flushed_at = 0.0
        self._longest_gap_s = 0.0

    def scan(self) -> None:
        present = set(list_pids())
        for pid in list(self._known):
            self._update(pid)
        for pid in self._others.keys() - present:
            del self._others[pid]
        for pid in present - self._known.keys():
            self._examine(pid)
        now = boottime()
        self._longest_gap_s = max(self._longest_gap_s, now - self._last_scan_at)
        self._last_scan_at = now
        if now - self._flushed_at > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write the last observation of each living process, and the time of the last scan."""
        for pid, known in self._known.items():
            self._write(pid=pid, started=known.started, last_seen=known.last_seen)
        self._write(at=self._last_scan_at, longest_gap_s=self._longest_gap_s)
        self._output.flush()
        self._flushed_at = self._last_scan_at

    def _update(self, pid: int) -> None:
        known, stat = self._known[pid], read_stat(pid)
        if stat is not None and stat.started == known.started:
            known.last_seen = boottime()
            if not known.identity["is_driver"] and known.last_seen - known.identity["first_seen"] < NEW_PROCESS_S:
                self._check_for_driver(pid, known)
        else:
            self._write(pid=pid, started=known.started, last_seen=known.last_seen, gone_at=boottime())
            del self._known[pid]

    def _examine(self, pid: int) -> None:
        now = boottime()
        first, last = self._others.get(pid, (now, float("-inf")))
        if now - first >= NEW_PROCESS_S and now - last < RESCAN_S:
            return
        self._others[pid] = (first, now)
        environment, stat = read_environment(pid), read_stat(pid)
        if stat is None or not environment.get("HOLDFAST_CONTROL", "").startswith(self._prefix):
            return
        seen_at = boottime()
        identity = {
            "job": environment["HOLDFAST_JOB"],
            "attempt": int(environment["HOLDFAST_ATTEMPT"]),
            "nonce": environment["HOLDFAST_NONCE"],
            "pid": pid,
            "started": stat.started,
            "is_driver": self._is_driver(pid, stat.parent, environment["HOLDFAST_NONCE"]),
            "first_seen": seen_at,
        }
        self._known[pid] = _Known(stat.started, seen_at, identity)
        del self._others[pid]
        self._write(**identity, last_seen=seen_at)

    def _is_driver(self, pid: int, parent: int, nonce: str) -> bool:
        """Return True for the process that runs the user's script. Its children have the same command until they call exec."""
        known = self._known.get(parent)
        is_child = known is not None and known.identity["nonce"] == nonce and known.identity["is_driver"]
        return not is_child and not DRIVER_MODULES.isdisjoint(read_command(pid))

    def _check_for_driver(self, pid: int, known: _Known) -> None:
        """Record a process that became the driver by exec."""
        stat = read_stat(pid)
        if stat is not None and self._is_driver(pid, stat.parent, known.identity["nonce"]):
            known.identity["is_driver"] = True
            self._write(**known.identity, last_seen=known.last_seen)

    def _write(self, **fields: Any) -> None:
        self._output.write(json.dumps(fields) + "\n")


def main(directory: Path, file: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with file.open("w") as output:
        witness = Witness(directory, output)
        while not select.select([reading], [], [], SCAN_INTERVAL_S)[0]:
            witness.scan()
        witness.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
