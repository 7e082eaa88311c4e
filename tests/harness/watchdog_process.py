"""Watchdog process with the runner's end of its socket: the test plays the runner."""

import contextlib
import functools
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.driver_protocol.variables import NONCE
from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog.attempt_cgroup import CgroupIdentity
from holdfast.runner.watchdog.isolation import CGROUP, ISOLATION_VARIABLE, NAMESPACE, SCAN
from holdfast.runner.watchdog.proc_filesystem import Process, list_children
from tests.harness.waiting import wait_until

LONG_S = 600.0


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@functools.cache
def cgroup_problem() -> str:
    """Return the reason why this system grants no cgroup, or an empty string. A separate process probes, because it forks."""
    probe = "from holdfast.runner.watchdog.attempt_cgroup import find_problem; print(find_problem())"
    return subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.strip()


def granted_level(level: str) -> str:
    """Return the level of a watchdog whose highest level is `level`: SCAN instead of CGROUP if the system grants no cgroup."""
    return SCAN if level == CGROUP and cgroup_problem() else level


class WatchdogProcess:
    """Watchdog with the runner's end of its socket."""

    def __init__(
        self,
        directory: Path,
        *,
        level: str = NAMESPACE,
        stuffed: bool = False,
        runner: int | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """Start the watchdog with this highest level of isolation. `prefix` is a command that executes its arguments."""
        self.nonce = secrets.token_hex(8)
        self.log = directory / "driver.log"
        self._directory = directory
        self.socket, theirs = socket.socketpair()
        if stuffed:
            theirs.setblocking(False)
            while select.select([], [theirs], [], 0)[1]:
                theirs.send(b"\n" * 4096)
            theirs.setblocking(True)
        arguments = ["-P", "-m", "holdfast.runner.watchdog", str(theirs.fileno()), str(runner or os.getpid())]
        with theirs, open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, ISOLATION_VARIABLE: level},
            )
        self.level = level
        """Level of isolation, after `receive_ready` the level in force."""
        self.init: int | None = None
        self.cgroup: CgroupIdentity | None = None
        self._received = b""

    def send(self, **message: object) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def spawn_request(self, *command: str) -> dict[str, object]:
        return {
            "command": command,
            "environment": {**os.environ, NONCE: self.nonce},
            "directory": str(self._directory),
        }

    def start(self, *command: str, **changes: object) -> None:
        self.send(start={**self.spawn_request(*command), **changes})

    def receive(self, kind: str, within_s: float = 30) -> object:
        """Return the content of the next message, which must be of this kind."""
        return self.receive_message(kind, within_s)[kind]

    def receive_message(self, kind: str, within_s: float = 30) -> dict[str, Any]:
        deadline = time.monotonic() + within_s
        while b"\n" not in self._received:
            assert select.select([self.socket], [], [], max(0.0, deadline - time.monotonic()))[0], f"no {kind}"
            data = self.socket.recv(65536)
            assert data, f"the line ended where {kind} should have come"
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        assert kind in message, message
        return message

    def receive_ready(self) -> None:
        """Receive the first message and check the level of isolation."""
        message = self.receive_message("ready")
        if self.level != granted_level(self.level):
            assert message["problem"] == f"{ISOLATION_VARIABLE} is set; no cgroup: {cgroup_problem()}"
            self.level = granted_level(self.level)
        assert message["isolation"] == self.level, f"this machine grants no PID namespace: {message['problem']}"
        self.init = message["init"]
        self.cgroup = None if message["cgroup"] is None else CgroupIdentity(*message["cgroup"])
        assert (self.init is not None, self.cgroup is not None) == (self.level == NAMESPACE, self.level == CGROUP)

    def killer(self) -> Process:
        """Return the process that kills the cgroup when the watchdog ends."""
        return killer_of(self.process.pid)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(self.process.pid) == "T", within_s=30, what="the watchdog stands still")
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def pids(self) -> list[int]:
        return [process.pid for process in process_tree.list_processes(self.nonce)]

    def kill(self) -> None:
        self.socket.close()
        try:
            assert self.process.wait(30) == 0, self.log.read_text()
        finally:
            self.process.kill()
            self.process.wait()
            assert process_tree.kill_tree(self.nonce) == []


def killer_of(watchdog: int) -> Process:
    """Return the killer of the cgroup of this watchdog."""

    def killers() -> list[Process]:
        return [each for each in list_children(watchdog) if name_of(each.pid) == "holdfast-killer"]

    wait_until(killers, within_s=30, what="the killer has its name")
    return killers()[0]


def stop(process: Process) -> None:
    """Stop a process, and return when it is stopped."""
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(process.pid) == "T", within_s=30, what="the process is stopped")


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


Watch = Callable[..., WatchdogProcess]
"""Function that starts a watchdog with the given options of WatchdogProcess and a deadline in `deadline_s` seconds."""
