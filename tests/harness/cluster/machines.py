"""Cluster for outage tests: servers can be partitioned and killed, machines can be lost and restarted."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from holdfast.node.drain import lock_holder_pid
from holdfast.zk.embedded import ServerSettings, ZooKeeperServer
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.harness.cluster.nodes import Node, start_node
from tests.harness.cluster.process_observer import child_pids, find_cluster_pids, read_command
from tests.harness.tcp_proxy import TcpProxy
from tests.harness.waiting import wait_until

SESSION_TIMEOUT_S = 10.0
MARGIN_S = 4.0
TICK_S = 1.0
SYNC_LIMIT = 5
READY_TIMEOUT_S = 120.0
TIMING: dict[str, dict[str, Any]] = {
    "zookeeper": {"session_timeout_s": SESSION_TIMEOUT_S, "tick_s": TICK_S, "sync_limit": SYNC_LIMIT},
    "timing": {"margin_s": MARGIN_S},
}


class ServerLink(TcpProxy):
    """Proxy between one server and the quorum port of another server."""

    async def _pump_replies(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        await self._pump(source, sink, lambda: self.drops_replies)

    @contextlib.contextmanager
    def drop_traffic(self) -> Iterator[None]:
        """Drop all traffic without closing connections, until the end of the block."""
        self.drops_requests = self.drops_replies = self.refuses_connections = True
        try:
            yield
        finally:
            self.drop_connections()  # a stream with missing bytes cannot continue
            self.drops_requests = self.drops_replies = self.refuses_connections = False


class PartitionableEnsemble:
    """Three ZooKeeper servers; each connection from a follower to its leader goes through its own link."""

    def __init__(self, directory: Path) -> None:
        ports: dict[int, Ports] = {}
        for id in (1, 2, 3):
            ports[id] = Ports.pick(avoid=[number for each in ports.values() for number in each.numbers()])
        self.links = {(id, other): ServerLink(ports[other].quorum) for id in ports for other in ports if id != other}
        self.servers: dict[int, ZooKeeperServer] = {}
        for id, own in ports.items():
            others = {other: replace(each, quorum=self.links[id, other].port) for other, each in ports.items() if other != id}
            members = {**others, id: own}
            self.servers[id] = ZooKeeperServer(
                id, directory / f"server-{id}", members, ServerSettings(tick_ms=int(1000 * TICK_S), faults=True)
            )
            self.servers[id].directory.mkdir(parents=True)
        self.connect = ",".join(f"{LOOPBACK}:{each.client}" for each in ports.values())

    def __enter__(self) -> "PartitionableEnsemble":
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers.values():
            server.stop()
        for link in self.links.values():
            link.close()

    def start(self) -> None:
        """Start all stopped servers and wait until a leader and two followers serve."""
        for server in self.servers.values():
            server.start()
        wait_until(
            lambda: sorted(self.modes().values()) == ["follower", "follower", "leader"], READY_TIMEOUT_S, "three servers serve"
        )

    def modes(self) -> dict[int, str]:
        return {id: server.health().mode for id, server in self.servers.items()}

    def leader(self) -> int:
        return next(id for id, mode in self.modes().items() if mode == "leader")

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Kill all servers, and start them at the end of the block."""
        for server in self.servers.values():
            server.kill()
        try:
            yield
        finally:
            self.start()


class Machine:
    """Node with all processes that a loss of its machine would end."""

    def __init__(self, id: str, directory: Path, connect: str, *, cluster: str, storage: Path, slots: int = 2) -> None:
        self.id = id
        self.directory = directory
        self._connect = connect
        self._cluster = cluster
        self._settings = {**TIMING, "cluster": {"storage": str(storage)}, "node": {"slots": slots}}
        self._running = contextlib.ExitStack()
        self.node: Node | None = None

    def start(self) -> None:
        if self.node is None:
            self.node = self._running.enter_context(
                start_node(self.directory, self._connect, cluster=self._cluster, id=self.id, settings=self._settings)
            )

    def __enter__(self) -> "Machine":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._running.close()
        self.node = None

    def kill_agent(self) -> None:
        """Kill guard and agent. Runners and drivers continue."""
        assert self.node is not None
        agent = self.node.agent_pid()
        assert agent is not None
        _kill_all([self.node.process.pid, agent])
        self._running.close()
        self.node = None

    def kill_machine(self) -> float:
        """Kill all processes of the machine at once. Return the time of the loss."""
        lost_at = time.monotonic()
        runners = [pid for lock in self.directory.glob("attempts/*/*/runner.lock") if (pid := lock_holder_pid(lock))]
        watchdogs = [pid for runner in runners for pid in child_pids(runner) if "holdfast.runner.watchdog" in read_command(pid)]
        _kill_all([*find_cluster_pids(self.directory), *watchdogs])
        self._running.close()
        self.node = None
        return lost_at


def _kill_all(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def connected_ports(pid: int) -> set[int]:
    """Return the loopback ports to which this process is connected."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[2].partition(":")[2], 16) for row in rows if row[3] == "01" and row[9] in inodes}
