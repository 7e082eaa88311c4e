"""Watchdog whose driver starts daemons: orphans in another session and process group, with the mark or without environment.

Each process appends a line to its own file every few milliseconds. So a test sees whether a process still works, not only
whether it exists.
"""

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.runner.watchdog import process_tree
from holdfast.runner.watchdog.isolation import SCAN
from tests.harness.waiting import wait_until
from tests.harness.watchdog_process import WatchdogProcess, now, state_of

BEATING = """
import os, sys, time
path = sys.argv[1]
with open(path + ".pid", "w") as file:
    file.write(os.readlink("/proc/self"))
while True:
    with open(path, "a") as file:
        file.write(f"{time.clock_gettime(time.CLOCK_BOOTTIME)}\\n")
    time.sleep(0.005)
"""

DRIVER = """
import os, sys, time
beating, directory, *environments = sys.argv[1:]
for name in environments:
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        variables = dict(os.environ) if name == "marked" else {}
        os.execve(sys.executable, [sys.executable, "-S", "-c", beating, f"{directory}/{name}"], variables)
os.execv(sys.executable, [sys.executable, "-S", "-c", beating, f"{directory}/driver"])
"""
"""Driver that starts one daemon for each name, with its environment or without any, and then beats too."""


NAMES = ("driver", "marked", "unmarked")
"""The driver and its daemons, and the names of their files."""


def killed_with_watchdog(level: str) -> tuple[str, ...]:
    """Return the processes that end without the runner or the agent when the watchdog is killed."""
    return NAMES[:1] if level == SCAN else NAMES


class BeatingProcesses:
    """Files of a driver and its daemons."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.command = (sys.executable, "-S", "-c", DRIVER, BEATING, str(directory), *NAMES[1:])

    def wait_until_all_work(self) -> None:
        for name in NAMES:
            wait_until(functools.partial(self.last_beat, name), within_s=30, what=f"{name} works")

    def last_beat(self, name: str) -> float | None:
        """Return the time of the last complete line in the file of this process."""
        with contextlib.suppress(FileNotFoundError, IndexError, ValueError):
            return float((self.directory / name).read_text().split("\n")[-2])
        return None

    def pids(self, name: str) -> list[int]:
        """Return the process with this name. Its command line identifies it, because its environment may be empty."""
        argument = f"{self.directory}/{name}".encode()
        found = []
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if argument in command.read_bytes().split(b"\0"):  # a zombie has no command line
                    found.append(int(command.parent.name))
        return found

    def is_working(self, name: str) -> bool:
        return bool(self.pids(name))

    def wait_until_gone(self, *names: str) -> None:
        wait_until(lambda: not any(self.is_working(name) for name in names), within_s=30, what=f"{names} have ended")

    def kill_all(self) -> None:
        for name in NAMES:
            for pid in self.pids(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class DriverWithDaemons(BeatingProcesses):
    """Watchdog whose driver has started a marked and an unmarked daemon."""

    def __init__(self, directory: Path, level: str) -> None:
        super().__init__(directory)
        self.watchdog = WatchdogProcess(directory, level=level)
        self.watchdog.receive_ready()
        self.watchdog.send(deadline=now() + 600)
        self.watchdog.start(*self.command)
        self.driver = self.watchdog.receive("started")
        self.wait_until_all_work()

    def pause(self) -> None:
        """Pause the watchdog."""
        self.watchdog.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(self.watchdog.process.pid) == "T", within_s=30, what="the watchdog is paused")

    def pause_before_deadline(self) -> float:
        """Set a deadline, and pause the watchdog after it has received it and before it passes. Return the deadline."""
        deadline = now() + 2
        self.watchdog.send(deadline=deadline, start=self.watchdog.spawn_request("true"))
        self.watchdog.receive("refused")  # proves that the deadline was received
        self.pause()
        assert now() < deadline, "paused too late"
        return deadline

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.watchdog.process.kill()
        self.watchdog.process.wait()
        self.watchdog.socket.close()
        if self.watchdog.cgroup is not None:
            wait_until(self.watchdog.cgroup.kill, within_s=30, what="the cgroup is empty")
        assert process_tree.kill_tree(self.watchdog.nonce) == []
        self.kill_all()


@contextlib.contextmanager
def driver_with_daemons(directory: Path, level: str) -> Iterator[DriverWithDaemons]:
    directory.mkdir(exist_ok=True)
    driver = DriverWithDaemons(directory, level)
    try:
        yield driver
    finally:
        driver.kill()
