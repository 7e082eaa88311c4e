"""A cluster whose parts can be taken away and given back: servers are cut off from each other, nodes are lost."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from holdfast.node.drain import holder
from holdfast.zk.embedded import Server, Settings
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.harness.cluster.nodes import Node, node
from tests.harness.cluster.process_witness import belonging_to, children_of, command_of
from tests.harness.tcp_proxy import Proxy
from tests.harness.waiting import eventually

SESSION_TIMEOUT_S = 10.0
MARGIN_S = 4.0
TICK_S = 1.0
SYNC_LIMIT = 5
READY_S = 120.0
TIMES = {
    "zookeeper": {"session_timeout_s": SESSION_TIMEOUT_S, "tick_s": TICK_S, "sync_limit": SYNC_LIMIT},
    "timing": {"margin_s": MARGIN_S},
}


class Link(Proxy):
    """From one server to the port on which another one leads. Bytes in, bytes out."""

    async def _pump_replies(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        await self._pump(source, sink, lambda: self.replies_lost)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Nothing gets through any more, and neither end is told."""
        self.requests_lost = self.replies_lost = self.refusing = True
        try:
            yield
        finally:
            self.cut()  # what was lost in the middle of a stream cannot be made up for
            self.requests_lost = self.replies_lost = self.refusing = False


class Servers:
    """Three ZooKeeper servers. What a follower says to its leader goes through a link of its own."""

    def __init__(self, directory: Path) -> None:
        ports: dict[int, Ports] = {}
        for id in (1, 2, 3):
            ports[id] = Ports.pick(avoid=[number for each in ports.values() for number in each.numbers()])
        self.links = {(id, other): Link(ports[other].quorum) for id in ports for other in ports if id != other}
        self.servers: dict[int, Server] = {}
        for id, own in ports.items():
            others = {other: replace(each, quorum=self.links[id, other].port) for other, each in ports.items() if other != id}
            members = {**others, id: own}
            self.servers[id] = Server(id, directory / f"server-{id}", members, Settings(tick_ms=int(1000 * TICK_S)))
            self.servers[id].directory.mkdir(parents=True)
        self.connect = ",".join(f"{LOOPBACK}:{each.client}" for each in ports.values())

    def __enter__(self) -> "Servers":
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
        """All that do not run, and wait until they serve."""
        for server in self.servers.values():
            server.start()
        eventually(lambda: sorted(self.modes().values()) == ["follower", "follower", "leader"], READY_S, "three servers serve")

    def modes(self) -> dict[int, str]:
        return {id: server.health().mode for id, server in self.servers.items()}

    def leader(self) -> int:
        return next(id for id, mode in self.modes().items() if mode == "leader")

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """All are dead until the end of the block."""
        for server in self.servers.values():
            server.kill()
        try:
            yield
        finally:
            self.start()


class Machine:
    """One node, and everything that would be lost with its machine."""

    def __init__(self, id: str, directory: Path, connect: str, *, cluster: str, storage: Path, slots: int = 2) -> None:
        self.id = id
        self.directory = directory
        self._connect = connect
        self._cluster = cluster
        self._settings = {**TIMES, "cluster": {"storage": str(storage)}, "node": {"slots": slots}}
        self._running = contextlib.ExitStack()
        self.node: Node | None = None

    def start(self) -> None:
        if self.node is None:
            self.node = self._running.enter_context(
                node(self.directory, self._connect, cluster=self._cluster, id=self.id, settings=self._settings)
            )

    def __enter__(self) -> "Machine":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._running.close()
        self.node = None

    def lose_agent(self) -> None:
        """Guard and agent, so that nobody starts another. What they had started lives on."""
        assert self.node is not None
        agent = self.node.agent_pid()
        assert agent is not None
        _kill_all([self.node.process.pid, agent])
        self._running.close()
        self.node = None

    def lose(self) -> float:
        """Everything at once. When that was."""
        lost_at = time.monotonic()
        runners = [pid for lock in self.directory.glob("attempts/*/*/runner.lock") if (pid := holder(lock))]
        watchdogs = [pid for runner in runners for pid in children_of(runner) if "holdfast.runner.watchdog" in command_of(pid)]
        _kill_all([*belonging_to(self.directory), *watchdogs])
        self._running.close()
        self.node = None
        return lost_at


def _kill_all(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def connected_to(pid: int) -> set[int]:
    """The ports on loopback to which this process has connections."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[2].partition(":")[2], 16) for row in rows if row[3] == "01" and row[9] in inodes}
