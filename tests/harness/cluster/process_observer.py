"""Observer of all processes of all attempts, by scanning /proc.

A process belongs to an attempt if its environment contains HOLDFAST_JOB, HOLDFAST_NONCE and a control directory inside the
observed directory. These are the driver, its JVM and its Python workers. Two running processes of one job with different nonces
are an overlap, which is always an error.
"""

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

SCAN_INTERVAL_S = 0.02
NEW_PROCESS_S = 2.0
"""A new process may still become a driver by exec, so each scan checks it again for this long."""
RESCAN_S = 1.0


DRIVER_MODULES = frozenset({"holdfast.driver.bootstrap", "holdfast.job.bootstrap"})
"""Main modules of a driver: of this release, and of the previous one."""


@dataclass(slots=True)
class ObservedProcess:
    """Process of an attempt. Times are observation times of the monotonic clock."""

    job: str
    nonce: str
    attempt: int
    pid: int
    started: int
    is_driver: bool
    """True for the user's program itself, False for its child processes."""
    first_seen: float
    last_seen: float
    ended: bool = False


@dataclass(frozen=True, slots=True)
class ProcessStat:
    name: str
    parent: int
    started: int


def read_stat(pid: int) -> ProcessStat | None:
    """Return the process status, or None if it is dead. A process whose main thread has ended is alive while others run."""
    try:
        head, _, tail = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = tail.split()
    if fields[0] in (b"Z", b"X") and int(fields[17]) <= 1:
        return None
    return ProcessStat(head.partition(b"(")[2].decode(errors="replace"), int(fields[1]), int(fields[19]))


def read_environment(pid: int) -> dict[str, str]:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def read_command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def list_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def child_pids(pid: int) -> list[int]:
    return [each for each in list_pids() if (stat := read_stat(each)) is not None and stat.parent == pid]


class ProcessObserver:
    """Thread that scans /proc every 20 ms while its context is open."""

    def __init__(self, directory: Path) -> None:
        self._prefix = f"{directory}/"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="process-observer")
        self._lock = threading.Lock()
        self._unidentified: dict[int, tuple[float, float]] = {}
        """Other processes: the times of the first observation and of the last check."""
        self._alive: dict[int, ObservedProcess] = {}
        self._processes: list[ObservedProcess] = []
        self.overlaps: list[tuple[ObservedProcess, ObservedProcess]] = []
        self.longest_gap_s = 0.0

    def __enter__(self) -> "ProcessObserver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    # Results

    def processes(self, job: str) -> list[ObservedProcess]:
        with self._lock:
            return [process for process in self._processes if process.job == job]

    def drivers(self, job: str) -> list[ObservedProcess]:
        """Return the drivers of all attempts, in order of first observation."""
        return [process for process in self.processes(job) if process.is_driver]

    def running_driver(self, job: str) -> ObservedProcess | None:
        """Return the driver that was running in the last scan."""
        return next((process for process in self.drivers(job) if not process.ended), None)

    def tree_ended_at(self, nonce: str) -> float | None:
        """Return the last observation of any process of the attempt; None while one is running."""
        with self._lock:
            processes = [process for process in self._processes if process.nonce == nonce]
        return None if any(not process.ended for process in processes) else max(process.last_seen for process in processes)

    # Scanning

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stop.is_set():
            with self._lock:
                self._scan()
            now = time.monotonic()
            self.longest_gap_s = max(self.longest_gap_s, now - last)
            last = now
            self._stop.wait(SCAN_INTERVAL_S)

    def _scan(self) -> None:
        now = time.monotonic()
        present = set(list_pids())
        for pid in self._unidentified.keys() - present:
            del self._unidentified[pid]
        for process in list(self._alive.values()):
            self._update_known(process)
        for pid in present - self._alive.keys():
            first, last = self._unidentified.get(pid, (now, float("-inf")))
            if now - first < NEW_PROCESS_S or now - last >= RESCAN_S:
                self._unidentified[pid] = (first, now)
                self._identify(pid)

    def _update_known(self, process: ObservedProcess) -> bool:
        """Update a known process. Return True if it is running."""
        stat = read_stat(process.pid)
        if stat is None or stat.started != process.started:
            process.ended = True
            self._alive.pop(process.pid, None)
            return False
        process.last_seen = time.monotonic()
        return True

    def _identify(self, pid: int) -> None:
        environment, stat = read_environment(pid), read_stat(pid)
        if stat is None or not environment.get("HOLDFAST_CONTROL", "").startswith(self._prefix):
            return
        now = time.monotonic()
        process = ObservedProcess(
            job=environment["HOLDFAST_JOB"],
            nonce=environment["HOLDFAST_NONCE"],
            attempt=int(environment["HOLDFAST_ATTEMPT"]),
            pid=pid,
            started=stat.started,
            is_driver=not DRIVER_MODULES.isdisjoint(read_command(pid)),
            first_seen=now,
            last_seen=now,
        )
        del self._unidentified[pid]
        self._alive[pid] = process
        self._processes.append(process)
        # Check the other attempts after this process was seen running: a process that runs now overlaps with it.
        for other in list(self._alive.values()):
            if other.job == process.job and other.nonce != process.nonce and self._update_known(other):
                self.overlaps.append((other, process))


def kill_leftovers(directory: Path) -> list[int]:
    """Kill all processes of a cluster in this directory. Return their pids; there are none after a clean stop."""
    killed: set[int] = set()
    give_up_at = time.monotonic() + 20
    while time.monotonic() < give_up_at and (remaining := find_cluster_pids(directory)):
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= set(remaining)
        time.sleep(0.05)
    return sorted(killed)


def find_cluster_pids(directory: Path) -> list[int]:
    return [
        pid
        for pid in list_pids()
        if pid != os.getpid() and read_stat(pid) is not None and _belongs_to_cluster(pid, f"{directory}/")
    ]


def _belongs_to_cluster(pid: int, prefix: str) -> bool:
    """Return True if the process names the directory in its command line or environment, or runs in it."""
    command = read_command(pid)
    if any(argument.startswith("holdfast.") for argument in command) and any(
        f"{argument}/".startswith(prefix) for argument in command
    ):
        return True
    if read_environment(pid).get("HOLDFAST_CONTROL", "").startswith(prefix):
        return True
    try:
        return f"{os.readlink(f'/proc/{pid}/cwd')}/".startswith(prefix)
    except OSError:
        return False
