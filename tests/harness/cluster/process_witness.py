"""Kernel evidence of which drivers live: every process of every attempt, looked for in /proc all the time.

A process belongs to an attempt if its environment says so: HOLDFAST_JOB, HOLDFAST_NONCE, and a control directory below the one
that is watched. That is the driver, its Java and its Python workers. Two nonces of one job that live at the same moment are an
overlap, and nothing ever excuses one.
"""

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

LOOK_S = 0.02
YOUNG_S = 2.0
"""A process that shows no mark may be about to become a driver: while it is this young it is looked at every time."""
AGAIN_S = 1.0


@dataclass(slots=True)
class Life:
    """One process of one attempt. Times are of the monotonic clock, as it was seen."""

    job: str
    nonce: str
    attempt: int
    pid: int
    started: int
    driver: bool
    """The user's program itself, as against what it has started."""
    first_seen: float
    last_seen: float
    over: bool = False


@dataclass(frozen=True, slots=True)
class Stat:
    name: str
    parent: int
    started: int


def stat_of(pid: int) -> Stat | None:
    """None if it is dead. A program whose first thread has ended while others run is not."""
    try:
        head, _, tail = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = tail.split()
    if fields[0] in (b"Z", b"X") and int(fields[17]) <= 1:
        return None
    return Stat(head.partition(b"(")[2].decode(errors="replace"), int(fields[1]), int(fields[19]))


def environment_of(pid: int) -> dict[str, str]:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def command_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children_of(pid: int) -> list[int]:
    return [each for each in pids() if (stat := stat_of(each)) is not None and stat.parent == pid]


class Sightings:
    """Looks every 20 ms, in a thread, from `with` to its end."""

    def __init__(self, directory: Path) -> None:
        self._below = f"{directory}/"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sightings")
        self._lock = threading.Lock()
        self._unmarked: dict[int, tuple[float, float]] = {}
        """Others: when each was seen first, and when it was looked at last."""
        self._alive: dict[int, Life] = {}
        self._lives: list[Life] = []
        self.overlaps: list[tuple[Life, Life]] = []
        self.longest_gap_s = 0.0

    def __enter__(self) -> "Sightings":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    # What was seen

    def lives(self, job: str) -> list[Life]:
        with self._lock:
            return [life for life in self._lives if life.job == job]

    def drivers(self, job: str) -> list[Life]:
        """Of every attempt, in the order in which they were seen."""
        return [life for life in self.lives(job) if life.driver]

    def driver(self, job: str) -> Life | None:
        """The one that lives, by the last look."""
        return next((life for life in self.drivers(job) if not life.over), None)

    def gone(self, nonce: str) -> float | None:
        """When the last process of that attempt was seen last; None while one lives."""
        with self._lock:
            lives = [life for life in self._lives if life.nonce == nonce]
        return None if any(not life.over for life in lives) else max(life.last_seen for life in lives)

    # Looking

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._stop.is_set():
            with self._lock:
                self._look()
            now = time.monotonic()
            self.longest_gap_s = max(self.longest_gap_s, now - last)
            last = now
            self._stop.wait(LOOK_S)

    def _look(self) -> None:
        now = time.monotonic()
        present = set(pids())
        for pid in self._unmarked.keys() - present:
            del self._unmarked[pid]
        for life in list(self._alive.values()):
            self._look_at_known(life)
        for pid in present - self._alive.keys():
            first, last = self._unmarked.get(pid, (now, float("-inf")))
            if now - first < YOUNG_S or now - last >= AGAIN_S:
                self._unmarked[pid] = (first, now)
                self._look_for_mark(pid)

    def _look_at_known(self, life: Life) -> bool:
        """Whether it lives."""
        stat = stat_of(life.pid)
        if stat is None or stat.started != life.started:
            life.over = True
            self._alive.pop(life.pid, None)
            return False
        life.last_seen = time.monotonic()
        return True

    def _look_for_mark(self, pid: int) -> None:
        environment, stat = environment_of(pid), stat_of(pid)
        if stat is None or not environment.get("HOLDFAST_CONTROL", "").startswith(self._below):
            return
        now = time.monotonic()
        life = Life(
            job=environment["HOLDFAST_JOB"],
            nonce=environment["HOLDFAST_NONCE"],
            attempt=int(environment["HOLDFAST_ATTEMPT"]),
            pid=pid,
            started=stat.started,
            driver="holdfast.driver.bootstrap" in command_of(pid),
            first_seen=now,
            last_seen=now,
        )
        del self._unmarked[pid]
        self._alive[pid] = life
        self._lives.append(life)
        # The others are looked at once more, after this one was seen alive: what lives now lived beside it.
        for other in list(self._alive.values()):
            if other.job == life.job and other.nonce != life.nonce and self._look_at_known(other):
                self.overlaps.append((other, life))


def sweep(directory: Path) -> list[int]:
    """Kill what a cluster in this directory may have left behind. The pids that there were; none, after an orderly end."""
    found: set[int] = set()
    give_up_at = time.monotonic() + 20
    while time.monotonic() < give_up_at and (left := belonging_to(directory)):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        found |= set(left)
        time.sleep(0.05)
    return sorted(found)


def belonging_to(directory: Path) -> list[int]:
    return [pid for pid in pids() if pid != os.getpid() and stat_of(pid) is not None and _belongs(pid, f"{directory}/")]


def _belongs(pid: int, below: str) -> bool:
    """An agent or runner names the directory in its command, a driver's processes in their environment, a server is in it."""
    command = command_of(pid)
    if any(word.startswith("holdfast.") for word in command) and any(f"{word}/".startswith(below) for word in command):
        return True
    if environment_of(pid).get("HOLDFAST_CONTROL", "").startswith(below):
        return True
    try:
        return f"{os.readlink(f'/proc/{pid}/cwd')}/".startswith(below)
    except OSError:
        return False
