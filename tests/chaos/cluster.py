"""Cluster under attack: real ZooKeeper servers and nodes with short timings, restarted when they die.

It plays the part of the supervisor of `holdfast up`, but the run decides when a server or a guard comes back.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.node.drain import lock_holder_pid
from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings, ZooKeeperServer, with_parent_death_signal
from holdfast.zk.embedded.configuration import DATA_NAME
from holdfast.zk.embedded.ports import LOOPBACK
from tests.chaos.network import API_PORT, NodeNetwork
from tests.chaos.partitions import ZOOKEEPER
from tests.chaos.small_disk import StorageDisk, mounted, mounted_storage
from tests.chaos.timing import SHORT_TIMING, SYNC_LIMIT, ChaosTiming
from tests.harness.cluster.nodes import Node, write_config
from tests.harness.cluster.process_observer import (
    DRIVER_MODULES,
    child_pids,
    kill_leftovers,
    list_pids,
    read_command,
    read_environment,
    read_stat,
)
from tests.harness.tcp_proxy import TcpProxy

CLUSTER = "chaos"
CAN_STALL = shutil.which("cc") is not None
"""True if the library that stalls a disk can be built."""
RESTART_S = 1.0
"""Time after which a dead server or guard is started again, as by `holdfast up`."""
READY_TIMEOUT_S = 90.0


class ServerProxy(TcpProxy):
    """Network between one node and one ZooKeeper server."""

    def cut(self) -> None:
        """Drop all traffic. Connections stay open, as if a cable were pulled."""
        self.drops_requests = self.drops_replies = self.refuses_connections = True

    def swallow_replies(self) -> None:
        """Forward requests, and drop every reply except those to pings: writes succeed and their outcome is lost."""
        self.drops_replies_except_pings = True

    def repair(self) -> None:
        self.drop_connections()  # a stream with missing bytes cannot continue
        self.drops_requests = self.drops_replies = self.refuses_connections = self.drops_replies_except_pings = False


@dataclass(frozen=True, slots=True)
class AttemptPids:
    """Processes of a running attempt."""

    job: str
    attempt: int
    node: str
    driver: int
    watchdog: int | None
    runner: int | None
    jvm: int | None

    def pid(self, role: str) -> int | None:
        pid: int | None = getattr(self, role)
        return pid


@dataclass(slots=True)
class ChaosNode:
    """Node whose guard is a child of this process."""

    id: str
    directory: Path
    config: Path
    prefix: tuple[str, ...] = ()
    """Beginning of the command line: it enters the namespaces of the node."""
    process: "subprocess.Popen[bytes] | None" = None
    died_at: float | None = None

    def start(self) -> None:
        """Start the guard as `holdfast up` does: it ends with this process. Only the main thread may call this."""
        agent = [sys.executable, "-P", "-m", "holdfast.cli.agent_main", str(self.config)]
        guard = [sys.executable, "-P", "-m", "holdfast.node.guard", str(self.directory), *agent]
        with (self.directory / "log").open("ab") as log:
            command = with_parent_death_signal([*self.prefix, *guard], signal.SIGTERM)
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.died_at = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def guard(self) -> int | None:
        return self.process.pid if self.process is not None and self.running else None

    @property
    def agent(self) -> int | None:
        if self.process is None or not self.running:
            return None
        return Node(self.directory, self.process).agent_pid()


@dataclass
class ChaosCluster:
    directory: Path
    timing: ChaosTiming = SHORT_TIMING
    nodes_count: int = 3
    slots: int = 6
    nodes: dict[str, ChaosNode] = field(default_factory=dict)
    has_links: bool = False
    """True: each node reaches each server through its own proxy, which can be cut."""
    small_disk: str = ""
    """Node whose directory is a small file system of its own; empty if no node has one."""
    has_namespaces: bool = False
    """True: each node has a network and a mount namespace of its own. This process must be in private namespaces."""
    has_storage_disk: bool = False
    """True: the storage is a file system of its own, which can be frozen."""
    held: set[int] = field(default_factory=set)
    """ZooKeeper servers that stay dead until they are removed from this set."""
    held_nodes: set[str] = field(default_factory=set)
    """Nodes whose guards stay dead until they are removed from this set."""
    links: dict[str, list[ServerProxy]] = field(default_factory=dict)
    """Proxies of each node, one for each server; empty without `has_links`."""

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        self.storage = self.directory / "storage"
        self.storage.mkdir()
        settings = ServerSettings(
            tick_ms=round(1000 * self.timing.tick_s),
            sync_limit_ticks=SYNC_LIMIT,
            faults=CAN_STALL,
            extra={"clientPortAddress": "0.0.0.0"} if self.has_namespaces else {},  # an address of the private namespace
        )
        self.ensemble = EmbeddedEnsemble(self.directory / "zookeeper", size=3, settings=settings)
        self.servers = {server.id: server for server in self.ensemble.servers}
        self._server_died_at: dict[int, float] = {}
        self._mounts = contextlib.ExitStack()
        self.network = NodeNetwork(self.storage)
        self.storage_disk = StorageDisk(self.storage)

    @property
    def connect(self) -> str:
        return self.ensemble.connect_string

    def __enter__(self) -> "ChaosCluster":
        try:
            if self.has_storage_disk:
                self.storage_disk = self._mounts.enter_context(mounted_storage(self.storage))
            if self.has_namespaces:
                self._mounts.enter_context(self.network)
            self.ensemble.start()
            self.ensemble.wait_ready(READY_TIMEOUT_S)
            if self.small_disk:
                self._mounts.enter_context(mounted(self.directory / self.small_disk))
            for number in range(1, self.nodes_count + 1):
                self._start_node(f"n{number}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            if node.process is not None and node.running:
                node.process.kill()
        kill_leftovers(self.directory)
        for node in self.nodes.values():
            if node.process is not None:
                node.process.wait()
        for server in self.servers.values():
            server.kill()
        for proxies in self.links.values():
            for proxy in proxies:
                proxy.close()
        self._mounts.close()

    def _start_node(self, id: str) -> None:
        settings = {
            **self.timing.settings(),
            "cluster": {"storage": str(self.storage)},
            "node": {"slots": self.slots, "archives": "off"},
        }
        directory = self.directory / id
        connect = self.connect
        if self.has_links:
            self.links[id] = [ServerProxy(server.client_port) for server in self.servers.values()]
            connect = ",".join(f"{LOOPBACK}:{proxy.port}" for proxy in self.links[id])
        prefix: list[str] = []
        if self.has_namespaces:
            self.network.add_node(id)
            prefix = self.network.prefix(id)
            settings["node"]["api"] = f"{self.network.address(id)}:{API_PORT}"
            connect = connect.replace(LOOPBACK, self.network.address(ZOOKEEPER))
        config = write_config(directory, connect, cluster=CLUSTER, node=id, settings=settings)
        self.nodes[id] = ChaosNode(id, directory, config, tuple(prefix))
        self.nodes[id].start()

    # Supervision

    def supervise(self) -> None:
        """Start dead servers and guards again, `RESTART_S` after their death. Only the main thread may call this."""
        now = time.monotonic()
        for node in self.nodes.values():
            if not node.running:
                node.died_at = node.died_at or now
                if now - node.died_at >= RESTART_S and node.id not in self.held_nodes:
                    node.start()
        for id, server in self.servers.items():
            if server.running:
                self._server_died_at.pop(id, None)
            elif id not in self.held and now - self._server_died_at.setdefault(id, now) >= RESTART_S:
                server.start()

    def run_until(self, at: float) -> None:
        """Supervise until this time of the monotonic clock."""
        while (rest_s := at - time.monotonic()) > 0:
            self.supervise()
            time.sleep(min(0.02, rest_s))

    def all_servers_run(self) -> bool:
        return all(server.running for server in self.servers.values())

    # Processes

    def attempts(self) -> list[AttemptPids]:
        """Return the running attempts, found by their drivers in /proc."""
        found = []
        for pid in list_pids():
            environment = read_environment(pid)
            if not environment.get("HOLDFAST_CONTROL", "").startswith(f"{self.directory}/"):
                continue
            if DRIVER_MODULES.isdisjoint(read_command(pid)) or read_stat(pid) is None:
                continue
            found.append(_describe_attempt(pid, environment))
        return found

    def node_pids(self, id: str) -> list[tuple[str, int]]:
        """Return all processes of a node with their roles, parents before children."""
        node = self.nodes[id]
        pids = [("guard", node.guard), ("agent", node.agent)]
        locks = node.directory.glob("attempts/*/*/runner.lock")
        runners = [pid for lock in locks if (pid := lock_holder_pid(lock))]
        pids += [("runner", pid) for pid in runners]
        pids += [("watchdog", child) for runner in runners for child in child_pids(runner)]
        prefix = f"{node.directory}/"
        pids += [("driver", pid) for pid in list_pids() if read_environment(pid).get("HOLDFAST_CONTROL", "").startswith(prefix)]
        unique = {pid: role for role, pid in reversed(pids) if pid is not None}
        return [(role, pid) for pid, role in reversed(unique.items())]

    # Data of ZooKeeper

    def copy_data(self, name: str) -> None:
        """Copy the data of all servers aside, while they run: like a backup of a crashed machine."""
        for server in self.servers.values():
            shutil.rmtree(server.directory / name, ignore_errors=True)
            _copy_live_tree(server.directory / DATA_NAME, server.directory / name)

    def kill_servers(self, servers: Iterable[ZooKeeperServer]) -> None:
        for server in servers:
            self.held.add(server.id)
            server.kill()

    def release_servers(self) -> None:
        """Start all servers that were held."""
        self.held.clear()
        for server in self.servers.values():
            server.start()

    def has_quorum(self) -> bool:
        return any(server.health().mode == "leader" for server in self.servers.values())


def _copy_live_tree(source: Path, target: Path) -> None:
    """Copy a directory whose files may vanish meanwhile."""
    for folder, _, names in os.walk(source):
        copy = target / Path(folder).relative_to(source)
        copy.mkdir(parents=True)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(Path(folder) / name, copy / name)


def _describe_attempt(driver: int, environment: dict[str, str]) -> AttemptPids:
    watchdog = _find_ancestor(driver, "holdfast.runner.watchdog")
    runner = _find_ancestor(watchdog, "holdfast.runner") if watchdog is not None else None
    jvm = next((pid for pid in child_pids(driver) if (stat := read_stat(pid)) is not None and stat.name == "java"), None)
    return AttemptPids(
        job=environment["HOLDFAST_JOB"],
        attempt=int(environment["HOLDFAST_ATTEMPT"]),
        node=environment["HOLDFAST_NODE"],
        driver=driver,
        watchdog=watchdog,
        runner=runner,
        jvm=jvm,
    )


def _find_ancestor(pid: int, module: str) -> int | None:
    """Return the nearest ancestor that runs `module`, or None. The driver need not be a direct child of its watchdog."""
    while (stat := read_stat(pid)) is not None and stat.parent > 1:
        pid = stat.parent
        if module in read_command(pid):
            return pid
    return None
