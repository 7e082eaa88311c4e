"""A cluster started by the command line, as a user would, and a witness that keeps asking it who leads."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.harness.waiting import eventually

HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]


def holdfast(*arguments: str, timeout_s: float = 150) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HOLDFAST, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)


def refusal(answer: subprocess.CompletedProcess[str]) -> str:
    """The one sentence, after checking that it is one and that the exit code fits."""
    assert answer.returncode == 1, answer
    said = answer.stderr.strip()
    assert said.startswith("holdfast: ")
    assert len(said.splitlines()) == 1
    return said


class Up:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def description(self) -> dict[str, Any]:
        described: dict[str, Any] = json.loads((self.directory / "cluster.json").read_text())
        return described

    def node(self, id: str) -> dict[str, Any]:
        return next(node for node in self.description()["nodes"] if node["id"] == id)

    def zookeeper(self, id: str) -> dict[str, Any]:
        return next(server for server in self.description()["zookeepers"] if server["id"] == id)

    def cluster(self) -> dict[str, Any]:
        answer = holdfast("cluster", "--json", "--dir", str(self.directory))
        assert answer.returncode == 0, answer.stderr
        seen: dict[str, Any] = json.loads(answer.stdout)
        return seen

    def leader(self) -> tuple[str | None, int]:
        seen = self.cluster()
        return seen["leader"], seen["epoch"]

    def healthy(self) -> bool:
        modes = [server["mode"] for server in self.cluster()["zookeeper"]]
        return "unreachable" not in modes

    def expired(self, session: int) -> bool:
        """Whether a server has ended that session because it was not heard of for too long."""
        words = f"Expiring session 0x{session & (1 << 64) - 1:x},"
        logs = (self.directory / "zookeeper").glob("server-*/zookeeper.log*")
        return any(words in log.read_text(errors="replace") for log in logs)

    def follower(self) -> str:
        return next(str(server["id"]) for server in self.cluster()["zookeeper"] if server["mode"] == "follower")


@contextlib.contextmanager
def started(directory: Path, *options: str) -> Iterator[Up]:
    answer = holdfast("up", "--dir", str(directory), "--detach", *options)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    try:
        yield Up(directory)
    finally:
        down = holdfast("down", "--dir", str(directory))
        assert down.returncode == 0, down.stderr


class Witness:
    """Asks `holdfast cluster --json` again and again, in a thread, and keeps every answer."""

    def __init__(self, up: Up) -> None:
        self._up = up
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.seen: list[tuple[str | None, int]] = []
        self.failures: list[str] = []

    def _watch(self) -> None:
        while not self._stop.is_set():
            answer = holdfast("cluster", "--json", "--dir", str(self._up.directory))
            if answer.returncode == 0:
                view = json.loads(answer.stdout)
                self.seen.append((view["leader"], view["epoch"]))
            else:
                self.failures.append(answer.stderr.strip())
            self._stop.wait(0.2)

    def __enter__(self) -> "Witness":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@contextlib.contextmanager
def paused(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def kill_and_see_it_return(up: Up, id: str) -> None:
    old = up.zookeeper(id)["pid"]
    os.kill(old, signal.SIGKILL)
    eventually(lambda: up.zookeeper(id)["pid"] not in (old, None), 30, f"server {id} is started again")
    eventually(up.healthy, 60, "all servers serve")
