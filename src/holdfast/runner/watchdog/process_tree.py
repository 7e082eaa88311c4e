"""Process tree of one attempt: every process with HOLDFAST_NONCE=<nonce> in its environment, and all their descendants.

A process inherits the mark and keeps it when it leaves its process group or session, or when its parent ends. Descendants
belong to the tree even without the mark, as long as the chain of parents is visible. Standard library only: the watchdog
imports this.

Races of a scan, and how it handles them:
- During exec a process has no environment for a moment. /proc shows that exec is not complete, so the scan reads the process
  again.
- A process may end after it was listed and before it was read, and leave a child that is not on the list. So the list is read
  again until every process on it was read alive. The newest processes are read first, because they are the likeliest to end.
- The kernel lists pids in ascending order, so new processes usually come later in the list. After a wraparound of the pids a
  new process can be missed. So a tree counts as empty only after two scans without a result.
"""

import os
import signal
import time

from holdfast.driver_protocol.variables import NONCE
from holdfast.runner.watchdog import proc_filesystem
from holdfast.runner.watchdog.proc_filesystem import Observation, Process

KILL_TIMEOUT_S = 5.0
"""Default time limit of `kill_tree`. Processes that are left then are in uninterruptible sleep or belong to another user."""
SCAN_TIMEOUT_S = 0.5
SCAN_PASSES_MIN = 20
"""Time and number of passes for which a scan is repeated because processes ended before they were read."""
EMPTY_SCAN_TIMEOUT_S = 5.0
"""The same time limit while no process of the tree was found: the tree may consist of short-lived processes."""
EXEC_TIMEOUT_S = 10.0
"""Time for which a scan waits for a process in exec, whose program may come from a slow disk. After that the process counts as
unmarked, and no later scan waits for it."""

_stuck_in_exec: set[Process] = set()
"""Processes that have been in exec for longer than EXEC_TIMEOUT_S."""


def list_processes(nonce: str, *, include_descendants: bool = False) -> list[Process]:
    """Return the tree without the caller and without zombies. Empty means that two scans in a row found nothing.

    With `include_descendants`, every descendant of the caller counts too. That is for a subreaper (PR_SET_CHILD_SUBREAPER),
    which adopts all orphans.
    """
    return _scan_twice(nonce, include_descendants, stop=False)


def kill_tree(nonce: str, *, include_descendants: bool = False, timeout_s: float = KILL_TIMEOUT_S) -> list[Process]:
    """Kill the tree until nothing is left. Return the processes that are left after `timeout_s`, normally none.

    Each process is stopped when it is found, with its descendants, and killed after the scan. Killing at once would let the
    processes that are not found yet fork faster than they are killed.
    """
    give_up_at = time.monotonic() + timeout_s
    pause_s = 0.001
    while left := _scan_twice(nonce, include_descendants, stop=True):
        for process in left:
            process.send_signal(signal.SIGKILL)
        if time.monotonic() > give_up_at:
            break
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)
    return left


def kill_descendants() -> None:
    """Kill every descendant of the caller once. A process that is orphaned meanwhile is found by the next call.

    Reads no environment, which can take long for a process with many threads or in the middle of a fork.
    """
    stopped: dict[int, Process] = {}
    count = -1
    while len(stopped) > count:
        count = len(stopped)
        for child in proc_filesystem.list_children(os.getpid()):
            if child.pid not in stopped:
                _stop_with_descendants(child, stopped)
    for process in stopped.values():
        process.send_signal(signal.SIGKILL)


def resident_bytes(nonce: str) -> int:
    """Return the memory that the tree uses. Memory that its processes share (forked Python workers) counts once."""
    return sum(proc_filesystem.resident_bytes(process.pid) for process in _Scan(nonce).run())


def _scan_twice(nonce: str, include_descendants: bool, *, stop: bool) -> list[Process]:
    return _Scan(nonce, include_descendants, stop=stop).run() or _Scan(nonce, include_descendants, stop=stop).run()


class _Scan:
    """Search through all processes. With `stop`, each process of the tree is stopped when it is found."""

    __slots__ = ("_caller", "_mark", "_observed", "_root", "_stop", "_stopped")

    def __init__(self, nonce: str, include_descendants: bool = False, *, stop: bool = False) -> None:
        self._mark = f"{NONCE}={nonce}".encode()
        self._caller = os.getpid()
        self._root = self._caller if include_descendants else None
        self._stop = stop
        self._observed: dict[int, Observation] = {}
        self._stopped: dict[int, Process] = {}

    def run(self) -> list[Process]:
        passes = 0
        began_at = time.monotonic()
        while True:
            missed_any, in_exec = self._read_all()
            passes += 1
            elapsed_s = time.monotonic() - began_at
            if in_exec and elapsed_s <= EXEC_TIMEOUT_S:
                continue
            _stuck_in_exec.update(in_exec)
            if missed_any and passes < SCAN_PASSES_MIN:
                continue
            tree = list({**self._stopped, **_with_descendants(self._observed, self._root)}.values())
            if not missed_any or elapsed_s > (SCAN_TIMEOUT_S if tree else EMPTY_SCAN_TIMEOUT_S):
                return tree

    def _read_all(self) -> tuple[bool, list[Process]]:
        """Read every undecided process. Return whether one ended before it was read, and the processes that are in exec."""
        missed_any = False
        in_exec: list[Process] = []
        for pid in reversed(proc_filesystem.list_pids()):
            if pid == self._caller or (pid in self._observed and self._observed[pid].marked is not None):
                continue
            observation = self._observe(pid)
            process = observation.process if observation is not None else None
            missed_any = missed_any or process is None
            if observation is None or process is None:
                continue
            if observation.marked is None and process not in _stuck_in_exec:
                in_exec.append(process)
                time.sleep(0.001)
            if self._stop and observation.marked:
                _stop_with_descendants(process, self._stopped)
        return missed_any, in_exec

    def _observe(self, pid: int) -> Observation | None:
        if pid in self._stopped:
            observation: Observation | None = Observation(self._stopped[pid], True)
        else:
            observation = proc_filesystem.observe(pid, self._mark)
        if observation is None:
            self._observed.pop(pid, None)
        else:
            self._observed[pid] = observation
        return observation


def _stop_with_descendants(process: Process, stopped: dict[int, Process]) -> None:
    """Stop a process and its descendants. Each is stopped before its children are listed, so it cannot fork any more."""
    waiting = [process]
    while waiting:
        parent = waiting.pop()
        if parent.pid not in stopped and parent.pid != os.getpid() and parent.send_signal(signal.SIGSTOP):
            stopped[parent.pid] = parent
            waiting += proc_filesystem.list_children(parent.pid)


def _with_descendants(observed: dict[int, Observation], root: int | None) -> dict[int, Process]:
    """Return the marked processes, the children of `root`, and all descendants of both."""
    children: dict[int, list[Process]] = {}
    tree: dict[int, Process] = {}
    for pid, observation in observed.items():
        if observation.process is not None:
            children.setdefault(observation.process.parent, []).append(observation.process)
            if observation.marked:
                tree[pid] = observation.process
    if root is not None:
        tree.update((child.pid, child) for child in children.get(root, ()))
    unvisited = list(tree.values())
    while unvisited:
        parent = unvisited.pop()
        for child in children.get(parent.pid, ()):
            # A child that seems older than its parent belongs to an earlier process with the parent's pid.
            if child.pid not in tree and child.started >= parent.started:
                tree[child.pid] = child
                unvisited.append(child)
    return tree
