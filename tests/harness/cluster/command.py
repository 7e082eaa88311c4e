"""Cluster started with `holdfast up`, and a recorder of its leaders."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from tests.harness.waiting import wait_until

HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]


def holdfast(*arguments: str, timeout_s: float = 150, command: Sequence[str] = HOLDFAST) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)


def error_message(answer: subprocess.CompletedProcess[str]) -> str:
    """Return the error message, after checking the exit code and that the message is a single line."""
    assert answer.returncode == 1, answer
    message = answer.stderr.strip()
    assert message.startswith("holdfast: ")
    assert len(message.splitlines()) == 1
    return message


class RunningCluster:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def description(self) -> dict[str, Any]:
        description: dict[str, Any] = json.loads((self.directory / "cluster.json").read_text())
        return description

    def zookeeper_client(self) -> KazooClient:
        """Return a ZooKeeper client of the cluster's own user. It is not started."""
        auth = (self.directory / "zookeeper.auth").read_text().strip()
        return KazooClient(self.description()["connect"], timeout=20, auth_data=[("digest", auth)])

    def node(self, id: str) -> dict[str, Any]:
        return next(node for node in self.description()["nodes"] if node["id"] == id)

    def zookeeper(self, id: str) -> dict[str, Any]:
        return next(server for server in self.description()["zookeepers"] if server["id"] == id)

    def cluster(self) -> dict[str, Any]:
        answer = holdfast("cluster", "--json", "--dir", str(self.directory))
        assert answer.returncode == 0, answer.stderr
        view: dict[str, Any] = json.loads(answer.stdout)
        return view

    def leader(self) -> tuple[str | None, int]:
        view = self.cluster()
        return view["leader"], view["epoch"]

    def is_healthy(self) -> bool:
        modes = [server["mode"] for server in self.cluster()["zookeeper"]]
        return "unreachable" not in modes

    def has_session_expired(self, session: int) -> bool:
        """Return True if a server's log says that the session expired."""
        text = f"Expiring session 0x{session & (1 << 64) - 1:x},"
        logs = (self.directory / "zookeeper").glob("server-*/zookeeper.log*")
        return any(text in log.read_text(errors="replace") for log in logs)

    def follower(self) -> str:
        return next(str(server["id"]) for server in self.cluster()["zookeeper"] if server["mode"] == "follower")


@contextlib.contextmanager
def start_cluster(directory: Path, *options: str, command: Sequence[str] = HOLDFAST) -> Iterator[RunningCluster]:
    answer = holdfast("up", "--dir", str(directory), "--detach", *options, command=command)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    try:
        yield RunningCluster(directory)
    finally:
        down = holdfast("down", "--dir", str(directory))
        assert down.returncode == 0, down.stderr


class LeaderRecorder:
    """Thread that polls `holdfast cluster --json` and records every answer."""

    def __init__(self, up: RunningCluster) -> None:
        self._up = up
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._record_leaders)
        self.observations: list[tuple[str | None, int]] = []
        self.failures: list[str] = []

    def _record_leaders(self) -> None:
        while not self._stop.is_set():
            answer = holdfast("cluster", "--json", "--dir", str(self._up.directory))
            if answer.returncode == 0:
                view = json.loads(answer.stdout)
                self.observations.append((view["leader"], view["epoch"]))
            else:
                self.failures.append(answer.stderr.strip())
            self._stop.wait(0.2)

    def __enter__(self) -> "LeaderRecorder":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@contextlib.contextmanager
def pause_process(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def kill_server_and_wait_for_restart(up: RunningCluster, id: str) -> None:
    old_pid = up.zookeeper(id)["pid"]
    os.kill(old_pid, signal.SIGKILL)
    wait_until(lambda: up.zookeeper(id)["pid"] not in (old_pid, None), 30, f"server {id} is restarted")
    wait_until(up.is_healthy, 60, "all servers serve")
