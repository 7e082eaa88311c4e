"""Single nodes, started by `holdfast node` on the ZooKeeper server of a test."""

import contextlib
import http.client
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.harness.cluster.command import HOLDFAST

FAST_TIMING: dict[str, dict[str, Any]] = {
    "zookeeper": {"session_timeout_s": 4.0, "tick_s": 0.2, "sync_limit": 5},
    "timing": {"margin_s": 1.8, "heartbeat_s": 0.3},
}
"""Timing for a server with a tick of 200 ms."""


class Node:
    def __init__(self, directory: Path, process: "subprocess.Popen[bytes]") -> None:
        self.directory = directory
        self.process = process

    @property
    def log(self) -> list[dict[str, Any]]:
        lines = (self.directory / "log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line["event"] == name]

    def problems(self) -> str:
        return "\n".join(line["problem"] for line in self.log if "problem" in line and line["event"] != "problem over")

    def agent_pid(self) -> int | None:
        pid: int | None = self._read("guard.json").get("agent_pid")
        return pid

    def status(self) -> dict[str, Any]:
        with (
            contextlib.suppress(OSError, ValueError, KeyError, http.client.HTTPException),
            urllib.request.urlopen(f"{self._read('agent.json')['api']}/v1/node") as answer,
        ):
            fields: dict[str, Any] = json.load(answer)
            return fields
        return {}

    def is_leading(self) -> bool:
        return bool(self.status().get("leading"))

    def _read(self, name: str) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            fields: dict[str, Any] = json.loads((self.directory / name).read_text())
            return fields
        return {}


def write_config(directory: Path, connect: str, *, cluster: str, node: str, settings: Mapping[str, Mapping[str, Any]]) -> Path:
    tables: dict[str, dict[str, Any]] = {
        "cluster": {"name": cluster, "connect": connect, "storage": str(directory.parent / "storage")},
        "node": {"id": node, "dir": str(directory)},
        "zookeeper": {},
        "timing": {},
    }
    for table, values in settings.items():
        tables[table] |= values
    lines = []
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    directory.mkdir(parents=True, exist_ok=True)
    (directory.parent / "storage").mkdir(exist_ok=True)
    file = directory / "holdfast.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


@contextlib.contextmanager
def start_node(
    directory: Path,
    connect: str,
    *,
    cluster: str,
    id: str = "n1",
    settings: Mapping[str, Mapping[str, Any]] = FAST_TIMING,
    options: tuple[str, ...] = (),
    command: Sequence[str] = HOLDFAST,
) -> Iterator[Node]:
    file = write_config(directory, connect, cluster=cluster, node=id, settings=settings)
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen([*command, "node", "--config", str(file), *options], stdout=log, stderr=log)
    try:
        yield Node(directory, process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, 9)
            process.wait()
            raise
